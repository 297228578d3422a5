#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that a random test printed as C++ compiles and does the test's operations.

usage: random_printed_test.py PLUGIN PROGRAM WRONG_PROGRAM

PROGRAM finds nothing; WRONG_PROGRAM, in which one expectation is false, names
the step.
"""

import os
import re
import subprocess
import sys


def run(program, plugin, config):
  environment = {**os.environ, "DEVRT_MTIA": config}
  return subprocess.run([program, plugin], env=environment, text=True,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def main():
  if len(sys.argv) != 4:
    sys.exit(__doc__)
  plugin, right, wrong = sys.argv[1:]
  result = run(right, plugin, "devices=2")
  if (result.returncode, result.stdout) != (0, "nothing wrong was found\n"):
    sys.exit(f"{right}: {result}")
  result = run(wrong, plugin, "devices=2")
  if result.returncode != 1 or not re.fullmatch(
      r"step \d+: byte \d+ is \d+, not \d+\n", result.stderr):
    sys.exit(f"{wrong}: {result}")


if __name__ == "__main__":
  main()
