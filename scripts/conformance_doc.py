#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of docs/reference/conformance.md: tests by item, and the mutants.

usage: scripts/conformance_doc.py [--append FILE] DEVRT
       scripts/conformance_doc.py --items DEVRT  lists items without a test

DEVRT is the command, build/tools/devrt: `devrt cts --list --json` lists the tests.
Prints the tables, or adds them to FILE, as scripts/docs does with its copy of the page.
Exit code 1: with --items, items lack a test.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/mutation/planted"))
import mutants  # noqa: E402

SEMANTICS = ROOT / "docs/reference/semantics.md"
# Each of these tests covers many items, and says little about one of them.
BROAD_GROUPS = {"random"}


def items_of_semantics():
  """Returns {item: title} of section 1, and the items tagged L: they hold only with
  ASYNC_ALLOC or devrt.capture/0, and need no test."""
  found, limited = {}, set()
  all_limited, item, title = False, None, ""
  for line in SEMANTICS.read_text(encoding="utf-8").splitlines():
    heading = re.match(r"#### (C\d+) (.+)", line)
    kind = re.match(r"Kind ([A-Z, ]+)\.", line)
    if heading:
      item, title = heading.groups()
    elif line.startswith("#"):
      all_limited, item = "(all L)" in line, None
    elif item and kind:
      found[item] = title
      if all_limited or "L" in kind[1].split(", "):
        limited.add(item)
  return found, limited


def listed_tests(devrt):
  output = subprocess.run([devrt, "cts", "--list", "--json"], check=True,
                          text=True, stdout=subprocess.PIPE).stdout
  return json.loads(output)["tests"]


def number(item):
  """Orders C9 before C10, and R1 after both."""
  return item[:1], int(re.sub(r"\D", "", item) or 0)


def missing_items(tests):
  shown = {item for test in tests for item in test["items"]}
  titles, limited = items_of_semantics()
  return [item for item in titles if item not in shown | limited]


def item_rows(tests):
  """Returns the rows of the table of items."""
  titles, limited = items_of_semantics()
  by_item = {item: [] for item in titles}
  for test in tests:
    for item in test["items"] or ["-"]:
      by_item.setdefault(item, []).append(test)
  rows = []
  for item in sorted(by_item, key=lambda i: (i == "-", number(i))):
    narrow = [t for t in by_item[item] if t["group"] not in BROAD_GROUPS]
    names = [f"`{test['name']}`" for test in narrow or by_item[item]] or (
        ["none: the tag L requires no test"] if item in limited else ["**none**"])
    head = f"**{item}** {titles.get(item, '')}".strip() if item != "-" else (
        "no item: the ABI and its extensions")
    rows += [f"| {head} | {names[0]} |", *(f"|  | {name} |" for name in names[1:])]
  return rows


def tables(tests, table):
  lines = ["### By item", "",
           f"The suite has {len(tests)} tests. Tests of whole groups of items ("
           + ", ".join(sorted(BROAD_GROUPS)) + ") are left out where an item has "
           "others.", "", "| Item | Test |", "|---|---|", *item_rows(tests), "",
           "### By mutant", "",
           f"There are {len(table)} mutants. A test of the mutant's group fails on it.",
           "", "| Mutant | What is wrong with it | Items | Group |", "|---|---|---|---|",
           *(f"| `{name}` | {mutant.what} | {mutant.items or '-'} | {mutant.group} |"
             for name, mutant in table.items())]
  return "\n".join(lines) + "\n"


def main(arguments):
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
  parser.add_argument("--items", action="store_true")
  parser.add_argument("--append", metavar="FILE", type=pathlib.Path)
  parser.add_argument("devrt", metavar="DEVRT")
  options = parser.parse_args(arguments)
  tests = listed_tests(options.devrt)
  if options.items:
    missing = missing_items(tests)
    for item in missing:
      print(f"{item} of docs/reference/semantics.md is shown by no test of devrt cts")
    print(f"{len(missing)} items without a test")
    return 1 if missing else 0
  text = tables(tests, mutants.load())
  if options.append is None:
    print(text, end="")
  else:
    with open(options.append, "a", encoding="utf-8") as file:
      file.write("\n" + text)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
