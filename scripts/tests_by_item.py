#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which tests exercise which item of docs/semantics.md.

usage: scripts/tests_by_item.py [--check]

Prints a table of items (C1, F27, ...) and the tests named after them. With
--check it prints only the items that should have a test and have none, and
exits with 1 if there are any.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEST = re.compile(r"TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)")
ITEM = re.compile(r"(?<![A-Za-z0-9])([CF]\d+)(?!\d)")

# Items of later layers: stream-ordered pools (C65-C69), capture (C79-C89), the
# allocator, arrays, bindings.
ITEMS = [f"C{i}" for i in (*range(1, 65), *range(70, 79), *range(90, 108))]
ITEMS += [f"F{i}" for i in (*range(1, 7), *range(10, 14), *range(19, 22),
                            *range(27, 35))]


def find_tests():
  tests = collections.defaultdict(list)
  for path in sorted((ROOT / "tests").rglob("*.cc")):
    text = path.read_text(encoding="utf-8")
    for suite, name in TEST.findall(text):
      words = f"{suite} {name}".replace("_", " ").replace("Test", " ")
      for item in dict.fromkeys(ITEM.findall(words)):
        tests[item].append((f"{suite}.{name}", path.relative_to(ROOT)))
    for name, suite in re.findall(
        r"INSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)", text):
      for item in ITEM.findall(name):
        tests[item].append((f"{name}/{suite}", path.relative_to(ROOT)))
  return tests


def main(arguments):
  if arguments not in ([], ["--check"]):
    print(__doc__.strip(), file=sys.stderr)
    return 2
  tests = find_tests()
  missing = [item for item in ITEMS if not tests[item]]
  if arguments:
    for item in missing:
      print(f"{item} of docs/semantics.md has no test named after it")
    return 1 if missing else 0
  print("| Item | Tests | Files |\n|---|---|---|")
  for item in ITEMS:
    names = ", ".join(dict.fromkeys(name for name, _ in tests[item]))
    files = ", ".join(dict.fromkeys(str(path) for _, path in tests[item]))
    print(f"| {item} | {names} | {files} |")
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
