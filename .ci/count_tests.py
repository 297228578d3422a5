#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "PASSED FAILED SKIPPED" for a testlog.json of meson test.

The file holds one JSON object a line. Whatever is neither passed nor skipped
counts as failed, so that a verdict this script does not know cannot hide. An
absent or empty log exits 1: a run that tested nothing proves nothing.
"""

import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}


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


def main():
    try:
        with open(sys.argv[1], encoding="utf-8") as log:
            counts = count(log)
    except OSError as error:
        sys.exit(f"count_tests: {error}")
    if not any(counts):
        sys.exit(f"count_tests: {sys.argv[1]} holds no test")
    print(*counts)


if __name__ == "__main__":
    main()
