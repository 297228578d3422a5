#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The mutants of the mtia backend: copies with one planted defect each.

usage: mutants.py --list [FILE...]  NAME GROUP FILE [CONFIG], a mutant a line, for Meson
                                    (which watches the FILEs)
       mutants.py --write FOLDER    writes the mutated source of each mutant
       mutants.py --check           whether every text to be replaced is there

The table is in table/, a file a subject; README.md says how to add to it.
"""

import dataclasses
import importlib
import pathlib
import re
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BACKEND = pathlib.PurePosixPath("backends/mtia")
SUBJECTS = ("streams", "events", "order", "host_functions", "copies", "memory",
            "peers", "errors", "devices", "extensions")


class TableError(Exception):
  """The table does not fit the sources, or itself."""


@dataclasses.dataclass(frozen=True)
class Mutant:
  """A copy of mtia in which `old` of `file` reads `new`."""
  name: str
  what: str     # what is wrong with it, in a sentence
  witness: str  # what a program sees of it
  items: str    # of docs/semantics.md, "C24 C27"; empty for the extensions
  group: str    # of the suite, which must catch it
  file: str     # of backends/mtia
  old: str      # is there exactly once
  new: str
  # Where the text is not in `file` but in this header, whose mutated copy is
  # seen by `file` alone.
  header: str = ""
  config: str = ""  # DEVRT_MTIA of its runs

  @property
  def edited(self):
    return self.header or self.file

  def mutated(self):
    """The text of the source file with the defect."""
    text = source(self.edited)
    count = text.count(self.old)
    if count != 1:
      raise TableError(
          f"mutant {self.name}: {BACKEND / self.edited} holds the text to be "
          f"replaced {count} times, not once; mend the mutant in "
          "tests/mutants/table/. The text is:\n" + self.old)
    text = text.replace(self.old, self.new)
    # The mutated header comes first, so its guard keeps the other one out.
    return text + source(self.file) if self.header else text


def source(name):
  return (ROOT / BACKEND / name).read_text(encoding="utf-8")


def load():
  """All mutants, by name."""
  found = {}
  for subject in SUBJECTS:
    for mutant in importlib.import_module("table." + subject).MUTANTS:
      if mutant.name in found:
        raise TableError(f"two mutants are named {mutant.name}")
      if not re.fullmatch(r"[a-z][a-z0-9_]*", mutant.name):
        raise TableError(f"mutant {mutant.name!r}: use a-z, 0-9 and _")
      if not all(re.fullmatch(r"C\d+", i) for i in mutant.items.split()):
        raise TableError(f"mutant {mutant.name}: items are like \"C24 C27\"")
      if mutant.old == mutant.new or not mutant.witness.endswith("."):
        raise TableError(f"mutant {mutant.name}: no change, or no witness")
      found[mutant.name] = mutant
  return found


def write(folder):
  for mutant in load().values():
    path = pathlib.Path(folder) / f"mutant_{mutant.name}.cc"
    path.write_text(mutant.mutated(), encoding="utf-8")


def check():
  wrong = 0
  for mutant in load().values():
    try:
      mutant.mutated()
    except TableError as error:
      print(error)
      wrong += 1
  return 1 if wrong else 0


def main(arguments):
  if arguments[:1] == ["--list"]:
    for mutant in load().values():
      print(mutant.name, mutant.group, mutant.file, mutant.config)
  elif arguments[:1] == ["--write"] and len(arguments) == 2:
    write(arguments[1])
  elif arguments == ["--check"]:
    return check()
  else:
    print(__doc__.strip(), file=sys.stderr)
    return 2
  return 0


if __name__ == "__main__":
  # The tables import Mutant from here.
  sys.modules["mutants"] = sys.modules["__main__"]
  try:
    sys.exit(main(sys.argv[1:]))
  except TableError as error:
    sys.exit(str(error))
