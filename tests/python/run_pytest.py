#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs pytest on the package of the build tree.

Exit code 77, which counts as skipped, where the package was not built, there is
no pytest, or no test of the files ran.  The output names each test and file that
skipped, with its reason.
"""

import os
import pathlib
import sys


def skip(why):
    print("skipped: " + why)
    return 77


class Outcome:
    """Records if a test ran and if a file skipped itself."""

    def __init__(self):
        self.ran = False
        self.skipped_file = False

    def pytest_collectreport(self, report):
        if report.skipped:
            self.skipped_file = True

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and not report.skipped:
            self.ran = True


def main():
    package = pathlib.Path(os.environ["DEVRT_TEST_PYTHON_PACKAGE"])
    if not list(package.glob("devrt/_core.*.so")):
        return skip("the Python package was not built: scripts/setup")
    if os.environ.get("DEVRT_TEST_SANITIZE", "none") != "none":
        return skip("the interpreter has no sanitizer")
    # Threads of NumPy's BLAS spin for a while after each import, and do nothing here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        import pytest
    except ImportError:
        return skip("no pytest: scripts/setup")
    sys.path.insert(0, str(package))
    os.environ["PYTHONPATH"] = str(package)
    outcome = Outcome()
    code = pytest.main(
        ["-q", "-p", "no:cacheprovider", "--tb=short", "-rs", *sys.argv[1:]],
        plugins=[outcome])
    if code == 0 and not outcome.ran:
        return skip("every test skipped")
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and outcome.skipped_file:
        return skip("the whole file skipped")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
