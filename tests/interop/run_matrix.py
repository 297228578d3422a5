#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs matrix.py by the Python that has the libraries.

That is the one of build-interop/, which scripts/setup --interop makes, or what
DEVRT_INTEROP_PYTHON names. Exit code 77, which counts as skipped, where there
is none, or the package was not built for it.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MATRIX = ROOT / "tests/interop/matrix.py"
SUFFIX = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"


def skip(why):
  print("skipped: " + why)
  return 77


def find():
  """(Python, the package, None), or why they are not there as the third."""
  package = pathlib.Path(os.environ["DEVRT_TEST_PYTHON_PACKAGE"])
  python = os.environ.get("DEVRT_INTEROP_PYTHON",
                          str(ROOT / "build-interop/bin/python3"))
  if not pathlib.Path(python).exists():
    return None, None, "no libraries to run with: scripts/setup --interop"
  if os.environ.get("DEVRT_TEST_SANITIZE", "none") != "none":
    return None, None, "the interpreter has no sanitizer"
  suffix = subprocess.run([python, "-c", SUFFIX], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
  if not (package / "devrt" / ("_core" + suffix)).exists():
    return None, None, f"the Python package was not built for {python}"
  return python, package, None


def main():
  python, package, reason = find()
  if reason is not None:
    return skip(reason)
  return subprocess.run([python, str(MATRIX), "--package", str(package),
                         "--quick", *sys.argv[1:]]).returncode


if __name__ == "__main__":
  sys.exit(main())
