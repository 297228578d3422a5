#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the interop matrix: every cell with the libraries that are here.

usage: tests/interop/matrix.py --package DIR [--json FILE] [--only TEXT...]
                               [--skip TEXT...] [--peers NAME...] [--seed N]
                               [--list] [--quick] [--no-controls]

--package  the folder that holds the package devrt: build/python, or where a
           wheel was unpacked
--json     write the results there: id, code, outcome and note of each case;
           scripts/gpu-check counts them
--only     cases whose ids begin with one of these; --skip: without those;
--peers    cases with one of these modules of peers/, as torch_peer
--quick    fewer repetitions of the proofs of order
--no-controls  proofs of order without the trial that has no order: a race
           detector would rightly report it

Cases run in worker processes; one that ends its process costs only itself, and
those that may do that have a process of their own. What is known to deviate is
explained in tests/interop/deviations.json, and fails only when it passes; its
entries with "table" are for cells that pass as something else than the table of
the specification has, which deviate, too.

Exit code 0: nothing failed; 1: something did; 2: usage; 77: nothing ran.
"""

import argparse
import collections
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import calls  # noqa: E402
import deviations  # noqa: E402

MODULES = ("producer_cells", "variant_cells", "exchange_cells", "dtype_cells",
           "consumer_cells", "scenarios",
           "numba_scenarios", "mpi_cells", "ordering_cells", "counted_cells",
           "peer_cells", "capture_cells",
           "stub_cells")
LIMIT = 180  # seconds for one case at most


def all_cases(modules):
  found = {}
  for name in modules:
    for case in importlib.import_module(name).cases():
      if case.id in found:
        raise ValueError(f"two cases have the id {case.id}")
      found[case.id] = case
  return found


# ---- In a worker -------------------------------------------------------------


def work(ids, out, args):
  """Runs these cases; a line of JSON when one begins and when it ends."""
  import engine
  import machine
  cases = all_cases(args.modules)
  with open(out, "a", encoding="utf-8") as file:

    def say(message):
      file.write(json.dumps(message) + "\n")
      file.flush()

    for name in ids:
      say({"begin": name})
      say(engine.run(cases[name], machine, args.seed))
  # Peers' threads and destructors are not what is tested here.
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(0)


# ---- In the parent -----------------------------------------------------------


def wait(process, out, limit):
  """Its exit code; None where a case took too long, and it was ended."""
  size, since = -1, time.monotonic()
  while process.poll() is None:
    now = os.path.getsize(out)
    if now != size:  # another case has begun
      size, since = now, time.monotonic()
    elif time.monotonic() - since > limit:
      process.kill()
      process.wait()
      return None
    time.sleep(0.1)
  return process.returncode


def run_worker(ids, args, log, counted):
  """Results of those that ended, and the id of the one that ended it."""
  with tempfile.TemporaryDirectory(prefix="interop.") as folder:
    out = os.path.join(folder, "out.jsonl")
    pathlib.Path(out).touch()
    asked = os.path.join(folder, "ids")
    pathlib.Path(asked).write_text("\n".join(ids), encoding="utf-8")
    command = [sys.executable, str(HERE / "matrix.py"), "--package",
               args.package, "--worker", out, "--seed", str(args.seed), "--modules",
               *args.modules]
    extra = calls.environment(args.package, folder) if counted else {}
    with open(asked, encoding="utf-8") as stdin:
      code = wait(subprocess.Popen(
          command, stdin=stdin, stdout=log, stderr=log,
          env={**os.environ, **extra,
               # Streams that share a queue would order each other.
               "CUDA_DEVICE_MAX_CONNECTIONS": "32",
               "DEVRT_INTEROP_NO_CONTROLS": "1" if args.no_controls else "",
               "DEVRT_INTEROP_QUICK": "1" if args.quick else ""}), out, args.limit)
    lines = [json.loads(line) for line in
             pathlib.Path(out).read_text(encoding="utf-8").splitlines()]
  results = [line for line in lines if "id" in line]
  begun = [line["begin"] for line in lines if "begin" in line]
  done = {result["id"] for result in results}
  broken = next((name for name in begun if name not in done), None)
  if broken is None and code != 0 and not begun and ids:
    broken = ids[0]
  return results, broken, code


def how_it_ended(code):
  if code is None:
    return "no end in time"
  return f"signal {-code}" if code < 0 else f"exit code {code}"


def run_all(cases, args, log):
  """In groups, so that a library is loaded once for all its cases."""
  groups = collections.OrderedDict()
  for case in cases.values():
    key = case.id if case.alone else (case.peers, case.counted)
    groups.setdefault(key, []).append(case.id)
  results = []
  for ids in groups.values():
    while ids:
      found, broken, code = run_worker(ids, args, log, cases[ids[0]].counted)
      results += found
      for result in found:
        show(result)
      done = {result["id"] for result in found}
      ids = [name for name in ids if name not in done]
      if broken is None:
        break
      case = cases[broken]
      result = {"id": broken, "code": case.code, "seconds": 0,
                # One that hangs has not died.
                "outcome": ("passed" if case.dies and code is not None
                            else "failed"),
                "note": f"ended the process: {how_it_ended(code)}"}
      results.append(result)
      show(result)
      ids = [name for name in ids if name != broken]
  return results


def show(result):
  note = f": {result['note']}" if result["note"] else ""
  print(f"{result['outcome']:8} {result['id']}{note}"[:400], flush=True)


def explain(results, cuda, file):
  """Marks known deviations. A known deviation that passes is a failure."""
  known = deviations.load(file)
  deviations.mark(results, known)
  for result in results:
    entry = known.get(result["id"])
    if entry is None or "table" in entry or (
        "where" in entry and (entry["where"] == "cuda") != cuda):
      continue
    if result["outcome"] == "failed":
      result["outcome"] = "deviates"
      result["why"] = entry["why"]
    elif result["outcome"] == "passed":
      result["outcome"] = "failed"
      result["note"] = "passes, though deviations.json says that it cannot"


def machine_text():
  import machine
  import devrt
  parts = []
  for backend in ("cuda", "mtia"):
    if machine.count(backend):
      name = devrt.get_device_properties(f"{backend}:0").name
      parts.append(f"{machine.count(backend)} x {name}")
  return ", ".join(parts) or "no devices"


def chosen(cases, args):
  def begins(case, texts):
    return any(case.id.startswith(text) for text in texts)

  return collections.OrderedDict(
      (name, case) for name, case in cases.items()
      if (not args.only or begins(case, args.only))
      and (not args.peers or set(args.peers) & set(case.peers))
      and not begins(case, args.skip))


def parse():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
  parser.add_argument("--package", required=True)
  parser.add_argument("--json")
  parser.add_argument("--only", nargs="+", default=[])
  parser.add_argument("--skip", nargs="+", default=[])
  parser.add_argument("--peers", nargs="+", default=[])
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--list", action="store_true")
  parser.add_argument("--quick", action="store_true")
  parser.add_argument("--no-controls", action="store_true")
  parser.add_argument("--log", help="what the cases print; default: stderr")
  parser.add_argument("--limit", type=float, default=LIMIT,
                      help=f"seconds for one case (default: {LIMIT})")
  for name in ("--worker", "--deviations"):
    parser.add_argument(name, help=argparse.SUPPRESS)
  parser.add_argument("--modules", nargs="+", default=list(MODULES),
                      help=argparse.SUPPRESS)
  return parser.parse_args()


def main():
  args = parse()
  sys.path[:0] = [args.package, str(HERE)]
  if args.worker:
    work(sys.stdin.read().split(), args.worker, args)
  cases = chosen(all_cases(args.modules), args)
  if args.list:
    for case in cases.values():
      print(f"{case.code:22} {case.id}")
    return 0
  print(f"seed {args.seed}; {machine_text()}")
  log = open(args.log, "w", encoding="utf-8") if args.log else sys.stderr
  results = run_all(cases, args, log)
  import machine
  explain(results, machine.count("cuda") > 0, args.deviations or deviations.FILE)
  outcomes = collections.Counter(result["outcome"] for result in results)
  report = {"seed": args.seed,
            "cases": sorted(results, key=lambda result: result["id"])}
  if args.json:
    pathlib.Path(args.json).write_text(
        json.dumps(report, indent=1) + "\n", encoding="utf-8")
  print(", ".join(f"{outcomes[key]} {key}" for key in
                  ("passed", "failed", "deviates", "skipped")))
  if outcomes["failed"]:
    for result in results:
      if result["outcome"] == "failed":
        show(result)
    return 1
  return 0 if outcomes["passed"] else 77


if __name__ == "__main__":
  sys.exit(main())
