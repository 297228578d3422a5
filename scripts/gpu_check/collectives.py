# SPDX-License-Identifier: Apache-2.0
"""Collectives over NCCL: tests, and figures beside NCCL's own calls and PyTorch's."""

import os
import pathlib
import shutil
import sys

from gpu_check import machine, python
from gpu_check.result import at_most, bench_row
from gpu_check.rows import add_bench_rows, add_command, google_test
from gpu_check.runner import SKIPPED, Skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = "bench/collectives_bench"
SCRIPT = ROOT / "bench/collectives_bench.py"
OVER_MPI = "tests/collectives/collectives_mpi_engine"
PROCESSES = ROOT / "scripts/multi-node-check"
SUBMISSIONS = "bench/submissions_bench"
FILES = [PROGRAM, SUBMISSIONS, OVER_MPI, "bench/multi_node_check"]
FAKE = "tests/fakes/nccl/libnccl.so.2"
NOTHING_THERE = 77
# NCCL's, from 2.30: several ranks may have one GPU.
SHARED = "NCCL_MULTI_RANK_GPU_ENABLE"
# Open MPI's launcher refuses to run as root unless told so.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

DEVRT, NCCL = "devrt", "NCCL"
# The ways to call devrt, and what they add to the name of a row.
WAYS = {DEVRT: "", "devrt, arrays": " of arrays"}
MORE_NS = 500  # that a call of devrt may take beside the native one
TURNS_MORE_NS = 1000
OF_BANDWIDTH = 0.99
OF_SMALL_BANDWIDTH = 0.97
OF_TORCH = 0.6  # with one rank, where no link is part of the time
OF_TORCH_BESIDE_OTHERS = 1.01
LARGE = 1 << 20  # from here on the bandwidth counts
OPS = {"all_reduce": "all-reduce", "all_gather": "all-gather",
       "reduce_scatter": "reduce-scatter", "broadcast": "broadcast"}


def library(check, options):
    """Returns the variables that name NCCL's library: the user's choice, or that of a
    wheel, such as PyTorch's.  The programs look elsewhere by themselves.
    """
    if options.simulated:
        return {"DEVRT_NCCL_LIBRARY": check.path(FAKE),
                "DEVRT_FAKE_NCCL_MAY_BLOCK": "1", "DEVRT_MTIA": "mode=threaded"}
    if chosen := os.environ.get("DEVRT_NCCL_LIBRARY"):
        return {"DEVRT_NCCL_LIBRARY": chosen}
    wheels = [pathlib.Path(folder) / "nvidia/nccl/lib/libnccl.so.2"
              for folder in sys.path if folder]
    found = [str(path.resolve()) for path in wheels if path.exists()]
    return {"DEVRT_NCCL_LIBRARY": found[0]} if found else {}


def tests(check, options):
    if options.simulated:
        raise Skip("NCCL cannot use a simulated driver")
    # On a new machine the driver compiles the kernels first.
    google_test(check, "nccl", 600, variables=library(check, options))
    if len(machine.gpus()) > 1 or os.environ.get(SHARED) == "1":
        google_test(check, "nccl_killed", 600, variables=library(check, options))
    else:
        check.add(check.part, SKIPPED, f"nccl_killed: one GPU, and {SHARED} is not 1")
    processes(check, options)
    over_mpi(check)


def processes(check, options):
    """Runs a process for each GPU: values, times, and a rank that is killed."""
    ranks = min(len(machine.gpus()), 8)
    if ranks < 2:
        check.add(check.part, SKIPPED, "a process for each rank: one GPU")
        return
    json_file = check.file("processes.json")
    command = check.run(
        [sys.executable, PROCESSES, f"--ranks={ranks}", f"--build={check.root}", "--timeout=5",
         f"--folder={check.folder / 'processes'}", f"--result={json_file}"], 300,
        library(check, options))
    killed = (check.read_json(json_file) or {}).get("killed", {})
    add_command(check, command, f"{ranks} processes, one killed: the others returned "
                f"after {killed.get('slowest_seconds', -1):.2f} s")


def over_mpi(check):
    launcher = shutil.which("mpiexec")
    if launcher is None or not pathlib.Path(check.path(OVER_MPI)).exists():
        check.add(check.part, SKIPPED,
                  f"MPI: there is no {OVER_MPI if launcher else 'mpiexec'}")
        return
    for ranks in [2, 4]:
        command = check.run(
            [launcher, "--oversubscribe", "--bind-to", "none", "-n", ranks,
             check.path(OVER_MPI), "cuda"], 120, AS_ROOT)
        add_command(check, command, f"MPI, {ranks} ranks on one GPU")


def benchmarks(check, options):
    if options.simulated and not pathlib.Path(check.path(FAKE)).exists():
        raise Skip(f"there is no {FAKE}")
    if not pathlib.Path(check.path(PROGRAM)).exists():
        raise Skip(f"there is no {PROGRAM}: it was not built")
    devices = 2 if options.simulated else min(len(machine.gpus()), 8)
    rows = []
    # Several ranks on one thread, and on a thread for each.
    for ranks, threads in dict.fromkeys([(1, 1), (devices, 1), (devices, devices)]):
        found = run_program(check, options, ranks, threads)
        if found is not None:
            rows += program_rows(found, judged=not options.simulated)
    if devices < 2:
        check.add(check.part, SKIPPED, "rows of several ranks: one GPU")
    # The ranks of a simulated driver are in one process.
    for ranks in dict.fromkeys([1, 1 if options.simulated else devices]):
        rows += python_rows(check, options, ranks)
    add_bench_rows(check, rows)


# ---- C++ --------------------------------------------------------------------


def run_program(check, options, ranks, threads):
    """Returns what the program measured; None without NCCL, and after a failure."""
    json_file = check.file(f"collectives_{ranks}_{threads}.json")
    rounds = 2 if options.simulated else 3 if options.quick else 9
    least, most = (1 << 10, 1 << 14) if options.simulated else sizes_of(ranks)
    command = check.run(
        [check.path(PROGRAM), "--device=cuda", f"--ranks={ranks}", f"--threads={threads}",
         f"--min_bytes={least}", f"--max_bytes={most}",
         f"--factor={32 if options.quick else 4}", f"--rounds={rounds}",
         f"--calls={5 if options.simulated else 200}", f"--json={json_file}"], 300,
        library(check, options))
    if command.code == NOTHING_THERE:
        raise Skip(command.tail)
    result = check.read_json(json_file)
    add_command(check, command, f"{ranks_text(ranks, threads)}: {len((result or {}).get('rows', []))} rows, "
                f"medians of {rounds}")
    return result


def sizes_of(ranks):
    """Returns the least and the largest size, in bytes.  One rank moves no data over a
    link, so its large sizes show nothing of a collective.
    """
    return (1 << 10, 1 << 20) if ranks == 1 else (max(1 << 3, 4 * ranks), 1 << 33)


def program_rows(found, judged):
    """Returns rows of collectives_bench's figures, of one number of ranks."""
    made = [row_of(found, row, way, judged) for row in found["rows"]
            for way in WAYS]
    alone, turns = found["alone_us"] * 1e3, found["turns_us"] * 1e3
    made.append(bench_row(
        topic_of(found),
        f"two communicators in turns, 1 KiB, {ranks_text(found['ranks'])}", "ns",
        turns, {"one communicator": alone},
        {f"{TURNS_MORE_NS} ns more than one": at_most(turns, alone + TURNS_MORE_NS)}
        if judged else {}))
    return made


def topic_of(found):
    if found["threads"] > 1:
        return "Collectives, a thread for each rank"
    return "Collectives, one rank" if found["ranks"] == 1 else "Collectives, several ranks"


def ranks_text(ranks, threads=1):
    text = "1 rank" if ranks == 1 else f"{ranks} ranks"
    return f"{text}, a thread each" if threads > 1 else text


def row_of(found, row, way, judged):
    """Returns a row of a way to call devrt: a time, or a bandwidth of large sizes."""
    ranks, us = found["ranks"], row["us"]
    name = OPS[row["op"]] + WAYS[way]
    name += f", {size_text(row['bytes'])}, {ranks_text(ranks)}"
    name += ", in place" if row["in_place"] else ""
    own, raw = us[way], us.get(NCCL)
    peers = {peer: value for peer, value in us.items() if peer not in WAYS}
    if ranks > 1 and row["bytes"] >= LARGE:
        def rate(value):  # GB/s
            return row["bytes"] / value / 1e3 * row["bus"]

        return bench_row(
            topic_of(found), f"{name}, bus bandwidth", "GB/s", rate(own),
            {peer: rate(value) for peer, value in peers.items()},
            {f"{OF_BANDWIDTH:.0%} of NCCL's": at_most(OF_BANDWIDTH * own, raw)}
            if judged else {})
    bars = {f"{MORE_NS} ns more than NCCL": at_most(own, raw and raw + MORE_NS / 1e3)}
    if ranks > 1:
        bars = {f"NCCL's time / {OF_SMALL_BANDWIDTH}":
                at_most(OF_SMALL_BANDWIDTH * own, raw)}
    return bench_row(
        topic_of(found), name, "ns", own * 1e3,
        {peer: value * 1e3 for peer, value in peers.items()}, bars if judged else {})


def size_text(size):
    for unit, word in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]:
        if size % unit == 0:
            return f"{size // unit} {word}"
    return f"{size} B"


# ---- Python -----------------------------------------------------------------


def python_rows(check, options, ranks):
    """Returns rows of the Python package beside torch.distributed."""
    if options.python is None:
        check.add(check.part, SKIPPED, f"Python with {ranks_text(ranks)}: needs --python")
        return []
    where = python.package(check, options)
    json_file = check.file(f"collectives_python_{ranks}.json")
    rounds = 2 if options.simulated else 3 if options.quick else 9
    least, most = sizes_of(ranks)
    if options.simulated or ranks == 1:
        most = 1 << 14
    command = check.run(
        [sys.executable, SCRIPT, f"--ranks={ranks}", f"--rounds={rounds}",
         f"--min-bytes={least}", f"--max-bytes={most}", "--json", json_file,
         *(["--no-peers"] if options.simulated else [])], 300,
        {**library(check, options), "PYTHONPATH": str(where),
         "PYTHONDONTWRITEBYTECODE": "1"})
    result = check.read_json(json_file)
    add_command(check, command, f"Python with {ranks_text(ranks)}, medians of {rounds}")
    if result is None:
        return []
    if result["without_torch"]:
        check.add(check.part, SKIPPED, f"torch.distributed: {result['without_torch']}")
    return rows_beside_torch(result, judged=not options.simulated)


def rows_beside_torch(result, judged):
    theirs = result["ns"].get("torch", {})
    ranks = result["ranks"]
    made = []
    for op, sizes in result["ns"][DEVRT].items():
        in_place = ", in place" if op in ["all_reduce", "broadcast"] else ""
        for size, (own, _) in sizes.items():
            peer = theirs.get(op, {}).get(size, [None])[0]
            bars = {f"{OF_TORCH} of PyTorch's": at_most(own, peer and peer * OF_TORCH)}
            if ranks > 1:
                bars = {f"{OF_TORCH_BESIDE_OTHERS} of PyTorch's":
                        at_most(own, peer and peer * OF_TORCH_BESIDE_OTHERS)}
            made.append(bench_row(
                "Collectives in Python",
                f"{OPS[op]}, {size_text(int(size))}, {ranks_text(ranks)}{in_place}",
                "ns", own, {"PyTorch": peer}, bars if judged else {}))
    return made
