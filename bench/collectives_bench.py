#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures collectives of the Python package beside torch.distributed's.

    PYTHONPATH=build/python python3 bench/collectives_bench.py [--ranks=2]

Each rank is a process that this program starts.  Both libraries use one copy of NCCL,
that of PyTorch, and take turns in every round.  A time is that of one call in a row of
calls, until the last one is complete; all figures are medians over rounds, and the
slowest rank counts.  all_reduce and broadcast are in place, as torch.distributed's
are.  A size is that of the larger side, as in nccl-tests.

The exit code is 0 if every row works: slowness is no error.  Without PyTorch or without
a GPU for it, devrt's rows stand alone.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import devrt
from devrt import collectives

OPS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
CALLS = 200  # of small sizes in a round
MOST_BYTES = 1 << 28  # that all calls of a round move


def sizes(least, most):
    while least <= most:
        yield least
        least *= 8


def devrt_calls(device, args):
    """A function that makes the rows' calls, and one that waits for them."""
    rank = collectives.init(
        device, args.folder, rank=args.rank, size=args.ranks)

    def call_of(op, bytes_):
        whole, part = (devrt.ones(bytes_ // 4 // of, dtype="float32", device=device)
                       for of in [1, args.ranks])
        return {"all_reduce": lambda: rank.all_reduce(whole),
                "all_gather": lambda: rank.all_gather(part, whole),
                "reduce_scatter": lambda: rank.reduce_scatter(whole, part),
                "broadcast": lambda: rank.broadcast(whole, 0)}[op]

    return rank, call_of, device.synchronize


def torch_calls(device, args):
    import torch
    import torch.distributed as distributed

    torch.cuda.set_device(device.index)
    store = distributed.TCPStore(
        "127.0.0.1", args.port, args.ranks, args.rank == 0)
    distributed.init_process_group(
        "nccl", store=store, rank=args.rank, world_size=args.ranks,
        device_id=torch.device("cuda", device.index))

    def call_of(op, bytes_):
        whole, part = (torch.ones(bytes_ // 4 // of, dtype=torch.float32, device="cuda")
                       for of in [1, args.ranks])
        return {"all_reduce": lambda: distributed.all_reduce(whole),
                "all_gather": lambda: distributed.all_gather_into_tensor(whole, part),
                "reduce_scatter": lambda: distributed.reduce_scatter_tensor(part, whole),
                "broadcast": lambda: distributed.broadcast(whole, 0)}[op]

    return distributed, call_of, torch.cuda.synchronize


def time_of(call, calls, wait):
    begin = time.perf_counter_ns()
    for _ in range(calls):
        call()
    submitted = time.perf_counter_ns()
    wait()
    end = time.perf_counter_ns()
    return (end - begin) / calls, (submitted - begin) / calls


def measure(ways, args):
    """ns by library, operation and size: (until the end, of the host)."""
    ops = OPS if args.ranks > 1 else OPS[:1]  # one rank: the others show nothing more
    table = {name: {op: {} for op in ops} for name in ways}
    for op in ops:
        for size in sizes(args.min_bytes, args.max_bytes):
            for name, pair in measure_row(ways, op, size, args.rounds).items():
                table[name][op][size] = pair
    return table


def measure_row(ways, op, size, rounds):
    """ns by library: (until the end, of the host)."""
    calls = max(5, min(CALLS, MOST_BYTES // size))
    made = {name: (call_of(op, size), wait)
            for name, (_, call_of, wait) in ways.items()}
    samples = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, (call, wait) in made.items():
            found = time_of(call, calls, wait)
            if turn > 0:  # the first round is not counted
                samples[name].append(found)
    return {name: [statistics.median(part) for part in zip(*pairs)]
            for name, pairs in samples.items()}


def run_rank(args):
    device = devrt.devices(args.backend)[args.rank]
    devrt.set_device(device)
    ways, without = {}, ""
    if args.peers and args.backend == "cuda":
        try:
            ways["torch"] = torch_calls(device, args)
        except Exception as missing:  # whatever PyTorch does without a GPU
            without = f"{type(missing).__name__}: {missing}"
    ways["devrt"] = devrt_calls(device, args)
    table = measure(ways, args)
    rank = ways["devrt"][0]
    name, version, path = rank.provider
    with open(f"{args.folder}.{args.rank}.json", "w", encoding="utf-8") as file:
        json.dump({"provider": name, "version": version, "path": path,
                   "without_torch": without, "ns": table}, file)
    if "torch" in ways:
        ways["torch"][0].destroy_process_group()
    rank.finish(timeout=60)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def slowest(parts):
    """ns by library, operation and size over the ranks' files."""
    first = parts[0]["ns"]
    return {name: {op: {size: [max(part["ns"][name][op][size][i] for part in parts)
                               for i in range(2)] for size in of}
                   for op, of in ops.items()}
            for name, ops in first.items()}


def wait_for(processes):
    """Returns the exit codes.  If a rank fails, the others would wait for ever: ends them."""
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes):
            for process in processes:
                process.kill()
        time.sleep(0.1)
    return [process.wait() for process in processes]


def run_ranks(args):
    """Starts a process for each rank, and returns what they found."""
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, "job")
        words = [sys.executable, __file__, f"--folder={folder}",
                 f"--port={free_port()}", *sys.argv[1:]]
        processes = [subprocess.Popen([*words, f"--rank={rank}"])
                     for rank in range(args.ranks)]
        codes = wait_for(processes)
        if any(codes):
            sys.exit(f"exit codes of the ranks: {codes}")
        parts = []
        for rank in range(args.ranks):
            with open(f"{folder}.{rank}.json", encoding="utf-8") as file:
                parts.append(json.load(file))
    return {**parts[0], "ranks": args.ranks, "ns": slowest(parts)}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--min-bytes", type=int, default=1024)
    parser.add_argument("--max-bytes", type=int, default=1 << 20)
    parser.add_argument("--no-peers", dest="peers", action="store_false",
                        help="measure devrt alone")
    parser.add_argument("--json", metavar="FILE", help="also write the figures")
    for internal in ["--rank", "--port"]:
        parser.add_argument(internal, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        run_rank(args)
        return
    found = run_ranks(args)
    if found["without_torch"]:
        print(f"# without torch: {found['without_torch']}", file=sys.stderr)
    print(f"# {found['provider']} {found['version']}, {args.ranks} ranks, medians of "
          f"{args.rounds} rounds; us a call, of which the host's")
    for name, ops in found["ns"].items():
        for op, of in ops.items():
            for size, (whole, host) in of.items():
                print(f"{name:8} {op:14} {size:>12} {whole / 1e3:10.2f} {host / 1e3:10.2f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
