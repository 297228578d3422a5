#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/reference/conformance.md, or checks them.

usage: scripts/conformance_doc.py DEVRT          writes the tables
       scripts/conformance_doc.py --check DEVRT  checks that they are up to date
       scripts/conformance_doc.py --items DEVRT  lists items without a test

DEVRT is the command, build/tools/devrt: `devrt cts --list --json` lists the tests.
tests/mutants/kills.json, which tests/mutants/matrix.py writes, says which test kills
which mutant.  Exit code 1: the tables are out of date, or items lack a test.
"""

import json
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/mutants"))
import mutants  # noqa: E402

PAGE = ROOT / "docs/reference/conformance.md"
SEMANTICS = ROOT / "docs/reference/semantics.md"
KILLS = ROOT / "tests/mutants/kills.json"
BEGIN = "<!-- scripts/conformance_doc.py writes from here on -->"
# Each of these tests covers many items, and says little about one of them.
BROAD_GROUPS = {"random"}
MOST_MUTANTS_OF_A_TEST = 12


def items_of_semantics():
  """Returns {item: title} of section 1, without items tagged L."""
  found = {}
  later, item, title = False, None, ""
  for line in SEMANTICS.read_text(encoding="utf-8").splitlines():
    heading = re.match(r"#### (C\d+) (.+)", line)
    kind = re.match(r"Kind ([A-Z, ]+)\.", line)
    if heading:
      item, title = heading.groups()
    elif line.startswith("#"):
      later, item = "(all L)" in line, None
    elif item and kind and not later and "L" not in kind[1].split(", "):
      found[item] = title
  return found


def listed_tests(devrt):
  output = subprocess.run([devrt, "cts", "--list", "--json"], check=True,
                          text=True, stdout=subprocess.PIPE).stdout
  return json.loads(output)["tests"]


def number(item):
  """Orders C9 before C10, and R1 after both."""
  return item[:1], int(re.sub(r"\D", "", item) or 0)


def missing_items(tests):
  shown = {item for test in tests for item in test["items"]}
  return [item for item in items_of_semantics() if item not in shown]


def killers(kills):
  """Returns {test: mutants that it fails by a check}."""
  found = {}
  for mutant, by_how in kills.items():
    for test in by_how.get("check", []):
      found.setdefault(test, []).append(mutant)
  return found


def findings(tests, kills, table):
  """Returns errors of the matrix, which only matrix.py can correct."""
  names = {test["name"] for test in tests}
  wrong = []
  for name, mutant in table.items():
    if name not in kills:
      wrong.append(f"mutant {name} is not in kills.json")
    elif not any(test.startswith(mutant.group + ".")
                 for test in kills[name].get("check", [])):
      wrong.append(f"no test of the group {mutant.group} kills mutant {name}")
  for name, by_how in kills.items():
    if name not in table:
      wrong.append(f"kills.json has a mutant {name}, which does not exist")
    wrong += [f"kills.json has a test {test}, which does not exist"
              for some in by_how.values() for test in some if test not in names]
  return sorted(set(wrong))


def mutants_text(found):
  if not found:
    return "-"
  shown = [f"`{name}`" for name in found[:MOST_MUTANTS_OF_A_TEST]]
  if len(found) > len(shown):
    shown.append(f"{len(found) - len(shown)} more")
  return ", ".join(shown)


def item_rows(tests, killed_by):
  """Returns the table's rows, and the items whose tests kill no mutant."""
  titles = items_of_semantics()
  by_item = {item: [] for item in titles}
  for test in tests:
    for item in test["items"] or ["-"]:
      by_item.setdefault(item, []).append(test)
  rows, idle = [], []
  for item in sorted(by_item, key=lambda i: (i == "-", number(i))):
    narrow = [t for t in by_item[item] if t["group"] not in BROAD_GROUPS]
    shown = narrow or by_item[item]
    head = f"**{item}** {titles.get(item, '')}".strip() if item != "-" else (
        "no item: the ABI and its extensions")
    for test in shown:
      rows.append(f"| {head} | `{test['name']}` | "
                  f"{mutants_text(killed_by.get(test['name'], []))} |")
      head = ""
    if not shown:
      rows.append(f"| {head} | **none** | - |")
    if item != "-" and not any(t["name"] in killed_by for t in shown):
      idle.append(item)
  return rows, idle


def mutant_rows(kills, table):
  rows = []
  for name, mutant in table.items():
    count = len(kills.get(name, {}).get("check", []))
    rows.append(f"| `{name}` | {mutant.what} | {mutant.items or '-'} | "
                f"{mutant.group} | {count} |")
  return rows


def generated(tests, kills, table):
  killed_by = killers(kills)
  rows, idle = item_rows(tests, killed_by)
  lines = [BEGIN, "", "### By item", "",
           f"{len(tests)} tests, {len(table)} mutants. Tests of whole groups of "
           "items (" + ", ".join(sorted(BROAD_GROUPS)) + ") are left out where "
           "an item has others. A dash: the test kills none of the mutants.", "",
           "| Item | Test | Mutants that it kills |", "|---|---|---|", *rows, ""]
  lines += ["Items whose tests kill no mutant: "
            + (", ".join(idle) if idle else "none") + ".", ""]
  lines += ["### By mutant", "",
            "| Mutant | What is wrong with it | Items | Group | Tests that kill "
            "it |", "|---|---|---|---|---|", *mutant_rows(kills, table)]
  return "\n".join(lines) + "\n"


def main(arguments):
  mode = arguments[0] if arguments[:1] in (["--check"], ["--items"]) else ""
  rest = arguments[1:] if mode else arguments
  if len(rest) != 1 or rest[0].startswith("-"):
    print(__doc__.strip(), file=sys.stderr)
    return 2
  tests = listed_tests(rest[0])
  if mode == "--items":
    missing = missing_items(tests)
    for item in missing:
      print(f"{item} of docs/reference/semantics.md is shown by no test of devrt cts")
    print(f"{len(missing)} items without a test")
    return 1 if missing else 0
  table = mutants.load()
  kills = {}
  if KILLS.exists():
    kills = json.loads(KILLS.read_text(encoding="utf-8"))
  wrong = findings(tests, kills, table)
  for text in wrong:
    print(f"{text}: run tests/mutants/matrix.py")
  page = PAGE.read_text(encoding="utf-8")
  wanted = page.split(BEGIN)[0] + generated(tests, kills, table)
  if mode == "--check":
    if page != wanted:
      print("docs/reference/conformance.md is out of date; scripts/conformance_doc.py "
            "build/tools/devrt writes it anew")
    return 1 if wrong or page != wanted else 0
  PAGE.write_text(wanted, encoding="utf-8")
  return 1 if wrong else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
