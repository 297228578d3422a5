#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "PASSED FAILED SKIPPED" for a testlog.json of meson test.

With --failed it prints the name of each test that failed, its verdict and what
it said first of that: for the end of CI's log, which may be all that is kept.

The file holds one JSON object a line. Whatever is neither passed nor skipped
counts as failed, so that a verdict this script does not know cannot hide. An
absent or empty log exits 1: a run that tested nothing proves nothing.
"""

import json
import re
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SAID = 40  # lines of a failed test
# Where the runners of C++ and Python, the sanitizers and our checks begin.
TROUBLE = re.compile(r"Failure$|^(ERROR|FAIL): |ERROR: |^Traceback|error: ")


def count(lines):
    passed = failed = skipped = 0
    for line in lines:
        result = json.loads(line)["result"]
        if result in PASSED:
            passed += 1
        elif result == "SKIP":
            skipped += 1
        else:
            failed += 1
    return passed, failed, skipped


def excerpt(text):
    """From the first sign of trouble on, else the end."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if TROUBLE.search(line):
            return lines[number:number + SAID]
    return lines[-SAID:]


def failures(lines):
    for line in lines:
        test = json.loads(line)
        if test["result"] in PASSED or test["result"] == "SKIP":
            continue
        yield (f"{test['result']} after {test['duration']:.1f} s: "
               f"{test['name']} (exit code {test['returncode']})")
        for stream in ("stdout", "stderr"):
            for said in excerpt(test.get(stream) or ""):
                yield "  " + said


def not_passed(lines, names):
    """Those of `names` that no test has that passed."""
    tests = [json.loads(line) for line in lines]
    # The runner writes "project:suite / name".
    passed = {test["name"].rpartition(" / ")[2] for test in tests
              if test["result"] in PASSED}
    return [name for name in names if name not in passed]


def main():
    try:
        with open(sys.argv[-1], encoding="utf-8") as log:
            if sys.argv[1] == "--passed":
                names = not_passed(log, sys.argv[2:-1])
                if names:
                    sys.exit("did not run, or did not pass: " + " ".join(names))
                return
            if "--failed" in sys.argv[1:-1]:
                for line in failures(log):
                    print(line)
                return
            counts = count(log)
    except OSError as error:
        sys.exit(f"count_tests: {error}")
    if not any(counts):
        sys.exit(f"count_tests: {sys.argv[1]} holds no test")
    print(*counts)


if __name__ == "__main__":
    main()
