#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the conformance suite catches one mutant, in the group it names.

usage: run.py DEVRT PLUGIN MUTANT                    the mutant is caught
       run.py DEVRT PLUGIN --group=GROUP[:CONFIG]    the plugin passes the group

Caught: `devrt cts` exits 1 on the default seed, and at least one test of the
group failed by a check, not by a crash, a hang or an exit of the suite.
"""

import json
import os
import subprocess
import sys

import mutants

TIMEOUT_S = 20  # for one test: a mutant that hangs need not hang for long


def run_suite(devrt, plugin, groups=(), config="", programs=None):
  """The exit code and the report of `devrt cts`; None where it wrote none."""
  environment = {name: value for name, value in os.environ.items()
                 if not name.startswith("DEVRT_")}
  if config:
    environment["DEVRT_MTIA"] = config
  command = [devrt, "cts", "--json", f"--plugin={os.path.abspath(plugin)}",
             f"--timeout={TIMEOUT_S}"]
  if groups:
    command.append("--groups=" + ",".join(groups))
  if programs is not None:
    command.append(f"--programs={programs}")
  result = subprocess.run(command, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
  try:
    return result.returncode, json.loads(result.stdout)
  except ValueError:
    print(result.stdout + result.stderr, file=sys.stderr)
    return result.returncode, None


def failures(report):
  return [test for test in report["tests"] if test["outcome"] == "failed"]


def show(test):
  print(f"{test['name']} ({' '.join(test['items'])}) failed by "
        f"{test['how']}: {'; '.join(test['messages'])}")


def check_mutant(devrt, plugin, name):
  mutant = mutants.load()[name]
  print(f"{name}: {mutant.what}\n{mutant.witness}\n")
  code, report = run_suite(devrt, plugin, [mutant.group], mutant.config)
  if report is None:
    print(f"no report, exit code {code}")
    return 1
  failed = failures(report)
  for test in failed:
    show(test)
  caught = code == 1 and any(
      test["group"] == mutant.group and test["how"] == "check"
      for test in failed)
  print(f"{'caught' if caught else 'NOT CAUGHT'}: exit code {code}, "
        f"{len(failed)} failed tests in the group {mutant.group}")
  return 0 if caught else 1


def check_original(devrt, plugin, what):
  group, _, config = what.partition(":")
  code, report = run_suite(devrt, plugin, [group], config)
  if report is None:
    print(f"no report, exit code {code}")
    return 1
  for test in failures(report):
    show(test)
  return code


def main(arguments):
  if len(arguments) != 3:
    print(__doc__.strip(), file=sys.stderr)
    return 2
  devrt, plugin, what = arguments
  if what.startswith("--group="):
    return check_original(devrt, plugin, what.split("=", 1)[1])
  return check_mutant(devrt, plugin, what)


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
