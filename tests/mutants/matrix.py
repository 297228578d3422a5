#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which tests of the conformance suite kill which mutants.

usage: matrix.py DEVRT FOLDER [--jobs=N] [--groups=LIST] [--only=LIST]
                 [--programs=N] [--output=FILE]

Runs the suite (or --groups of it; "own": the group that each mutant names)
against every mutant in FOLDER (or --only these) and writes the failed tests of
each to FILE, by default kills.json beside this script, from which
scripts/conformance_doc.py makes the table of docs/reference/conformance.md. Takes long:
the suite as often as there are mutants. What is not run anew is kept as FILE
has it.
"""

import argparse
import concurrent.futures
import json
import pathlib
import sys

import mutants
import run

KILLS = mutants.HERE / "kills.json"


def parse_arguments():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
  parser.add_argument("devrt")
  parser.add_argument("folder", type=pathlib.Path)
  parser.add_argument("--jobs", type=int, default=2)
  parser.add_argument("--groups", default="")
  parser.add_argument("--only", default="")
  parser.add_argument("--programs", type=int)
  parser.add_argument("--output", type=pathlib.Path, default=KILLS)
  return parser.parse_args()


def failed_tests(args, mutant):
  """{how: names of tests} of one mutant, or None without a report."""
  groups = [mutant.group] if args.groups == "own" else args.groups.split(",")
  _, report = run.run_suite(
      args.devrt, args.folder / f"libdevrt_mtia_{mutant.name}.so",
      [group for group in groups if group], mutant.config, args.programs)
  if report is None:
    return None
  found = {}
  for test in run.failures(report):
    found.setdefault(test["how"], []).append(test["name"])
  return found


def write(path, kills):
  """One line a mutant, so that a change of one shows as one line."""
  lines = [f"{json.dumps(name)}: {json.dumps(found, sort_keys=True)}"
           for name, found in sorted(kills.items())]
  path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main():
  args = parse_arguments()
  table = mutants.load()
  kills = {}
  if args.output.exists():
    kills = json.loads(args.output.read_text(encoding="utf-8"))
  kills = {name: kills[name] for name in table if name in kills}
  only = [name for name in args.only.split(",") if name]
  wanted = [table[name] for name in only or table]
  broken = 0
  with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
    jobs = {pool.submit(failed_tests, args, m): m for m in wanted}
    for job in concurrent.futures.as_completed(jobs):
      mutant, found = jobs[job], job.result()
      if found is None:
        print(f"{mutant.name}: no report")
        broken += 1
        continue
      kills[mutant.name] = found
      own = [name for name in found.get("check", [])
             if name.startswith(mutant.group + ".")]
      counts = ", ".join(f"{len(found[how])} by {how}" for how in sorted(found))
      print(f"{mutant.name}: {'caught' if own else 'NOT CAUGHT'} in "
            f"{mutant.group}; {counts or 'nothing failed'}", flush=True)
      write(args.output, kills)
  return 1 if broken else 0


if __name__ == "__main__":
  sys.exit(main())
