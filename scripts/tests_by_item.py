#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the tests of each item of docs/reference/semantics.md and each rule of exchange.

usage: scripts/tests_by_item.py [--check | ITEM ...]

Prints a table of items and their tests: of all items, or of the named ones (C27,
E8). With --check it prints only the items that lack a test, and exits with 1 if
there are any.

A test names its items in a tag, a comment above it that holds nothing else:

    // C27, F29
    TEST_F(EventRerecord, LeavesIssuedWaits) {

A rule of docs/reference/exchange-rules.md (E1, E2, ...) may also stand in prose: in the
comment above the test, in a comment or docstring within it, or in that of its
section if that names no more than two: "# ---- Streams (E16) ----".
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEST = re.compile(r"TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)")
# A tag and the comment around it, and the test below.
TAGGED = re.compile(r"^// ([CEF]\d+(?:, [CEF]\d+)*)\n(?://.*\n)*" + TEST.pattern,
                    re.M)

# All items, but pools (C65-C69), capture (C79-C89) and parts of later floors, which
# have no tests under the item's name.
ITEMS = [f"C{i}" for i in (*range(1, 65), *range(70, 79), *range(90, 108))]
ITEMS += [f"F{i}" for i in (*range(1, 7), *range(10, 14), *range(19, 22),
                            *range(27, 35))]

RULES = re.findall(r"^\*\*(E\d+)\*\*",
                   (ROOT / "docs/reference/exchange-rules.md").read_text(encoding="utf-8"),
                   re.M)
# "E4", "E28-E32", "E28 to E32"
RULE = re.compile(r"\bE(\d+)\b(?:(?:-| to )E(\d+)\b)?")
FOLDERS = ["python", "interop", "arrays"]


def find_tests():
  tests = collections.defaultdict(list)
  for path in sorted((ROOT / "tests").rglob("*.cc")):
    text = path.read_text(encoding="utf-8")
    for tag, suite, name in TAGGED.findall(text):
      for item in tag.split(", "):
        tests[item].append((f"{suite}.{name}", path.relative_to(ROOT)))
  return tests


def named_rules(text):
  """Returns the rules that a comment names."""
  return [f"E{number}" for first, last in RULE.findall(text)
          for number in range(int(first), int(last or first) + 1)]


def starts(lines, cells):
  """Returns the name of the test that begins with these two lines, or None."""
  found = TEST.match(" ".join(lines))
  # The matrix has functions for its cells, and the litmus tests for programs.
  found = found or re.match(
      r"\s*(?:def|static bool) (\w+)\(" if cells else r"def (test_\w+)\(",
      lines[0])
  return found and ".".join(found.groups())


def rules_of(path):
  """Returns (item, test) of a file.  Comments ahead of all tests count for none."""
  mark = "#" if path.suffix == ".py" else "//"
  cells = path.parent.name == "interop" or path.name.startswith("litmus")
  section, above, test, found = [], [], None, []
  lines = path.read_text(encoding="utf-8").splitlines() + [""]
  for i, line in enumerate(lines[:-1]):
    text = line.strip()
    start = starts([line, lines[i + 1].strip()], cells)
    if start:
      test = start
      found += [(item, test) for item in section + above]
      above = []
    elif text.startswith(mark + " ----"):
      section, test = named_rules(line), None
      section = section if len(section) <= 2 else []
    elif text.startswith(mark):
      above += named_rules(text)
      if test and line[0].isspace() and not cells:
        found += [(item, test) for item in named_rules(text)]
    elif test and text.startswith('"""'):
      found += [(item, test) for item in named_rules(text)]
    elif line and not line[0].isspace() and line[0] not in "@)]}":
      above = []
  return found


def find_rules():
  rules = collections.defaultdict(list)
  for folder in FOLDERS:
    for path in sorted((ROOT / "tests" / folder).rglob("*")):
      if path.suffix in (".py", ".cc"):
        for item, test in dict.fromkeys(rules_of(path)):
          rules[item].append((test, path.relative_to(ROOT)))
  return rules


def main(arguments):
  unknown = [word for word in arguments if word not in ITEMS + RULES]
  if unknown and arguments != ["--check"]:
    print(__doc__.strip(), file=sys.stderr)
    print(f"\n{unknown[0]} is no item that tests are kept for", file=sys.stderr)
    return 2
  tests, rules = find_tests(), find_rules()
  if unknown:
    missing = [f"{item} of docs/reference/semantics.md is the tag of no test"
               for item in ITEMS if not tests[item]]
    missing += [f"{item} of docs/reference/exchange-rules.md is named by no test"
                for item in RULES if not rules[item]]
    print("\n".join(missing), end="\n" if missing else "")
    return 1 if missing else 0
  print("| Item | Tests | Files |\n|---|---|---|")
  for item, found in [*((item, tests[item]) for item in ITEMS),
                      *((item, rules[item]) for item in RULES)]:
    if arguments and item not in arguments:
      continue
    names = ", ".join(dict.fromkeys(name for name, _ in found))
    files = ", ".join(dict.fromkeys(str(path) for _, path in found))
    print(f"| {item} | {names} | {files} |")
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
