#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies of our sources with planted defects, from the tables in table/.

usage: mutants.py --list [FILE...]  mutants of mtia: NAME GROUP FILE [CONFIG], a
                                    line each, for Meson (which watches the FILEs)
       mutants.py --write FOLDER    writes the mutated source of each of them
       mutants.py --list-arrays NAME [FILE...]
                                    the sources of arrays/ that table/arrays_NAME.py
                                    edits, a line each
       mutants.py --write-arrays NAME FOLDER
                                    writes these sources with every defect of the
                                    table behind a switch, and NAME_mutants.h,
                                    which has the switch
       mutants.py --check           whether every text to be replaced is there

A mutant of mtia is a library of its own, as a program loads one. Those of
arrays/ are in one program, which switches on one at a time. README.md says
how to add to the tables.
"""

import dataclasses
import functools
import importlib
import pathlib
import re
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BACKEND = pathlib.PurePosixPath("backends/mtia")
ARRAYS = pathlib.PurePosixPath("arrays")
ARRAY_TABLES = ("order", "ops")
SUBJECTS = ("streams", "events", "order", "host_functions", "copies", "memory",
            "peers", "errors", "devices", "extensions", "collectives")


class TableError(Exception):
  """The table does not fit the sources, or itself."""


def source(path):
  return (ROOT / path).read_text(encoding="utf-8")


def replaced(text, old, new, path):
  """The text of `path` with `new` for the one `old` in it."""
  count = text.count(old)
  if count != 1:
    raise TableError(
        f"{path} holds the text to be replaced {count} times, not once; mend "
        "the mutant in tests/mutation/planted/table/. The text is:\n" + old)
  return text.replace(old, new)


@dataclasses.dataclass(frozen=True)
class Mutant:
  """A copy of mtia in which `old` of `file` reads `new`."""
  name: str
  what: str     # what is wrong with it, in a sentence
  witness: str  # what a program sees of it
  items: str    # of docs/reference/semantics.md, "C24 C27"; empty for the extensions
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
    path = BACKEND / self.edited
    text = replaced(source(path), self.old, self.new, path)
    # The mutated header comes first, so its guard keeps the other one out.
    return text + source(BACKEND / self.file) if self.header else text


@dataclasses.dataclass(frozen=True)
class ArrayMutant:
  """A defect of arrays/, and the programs of its tests that show it."""
  name: str        # MUTATED(name) in the edits
  what: str        # what is wrong, in a sentence
  programs: tuple  # of tests/arrays: each gives a wrong result in some schedule


@dataclasses.dataclass(frozen=True)
class Edit:
  """`old` of a source of arrays/ reads `new`, which asks MUTATED(name)."""
  file: str
  old: str  # is there exactly once
  new: str


def load():
  """All mutants of mtia, by name."""
  found = {}
  for subject in SUBJECTS:
    for mutant in importlib.import_module("table." + subject).MUTANTS:
      if mutant.name in found:
        raise TableError(f"two mutants are named {mutant.name}")
      if not re.fullmatch(r"[a-z][a-z0-9_]*", mutant.name):
        raise TableError(f"mutant {mutant.name!r}: use a-z, 0-9 and _")
      if not all(re.fullmatch(r"(K-)?C\d+", i) for i in mutant.items.split()):
        raise TableError(f"mutant {mutant.name}: items are like \"C24 K-C3\"")
      if mutant.old == mutant.new or not mutant.witness.endswith("."):
        raise TableError(f"mutant {mutant.name}: no change, or no witness")
      found[mutant.name] = mutant
  return found


def write(folder):
  for mutant in load().values():
    path = pathlib.Path(folder) / f"mutant_{mutant.name}.cc"
    path.write_text(mutant.mutated(), encoding="utf-8")


def load_arrays(name):
  """The mutants and the edits of table/arrays_NAME.py, which fit each other."""
  table = importlib.import_module("table.arrays_" + name)
  known = {mutant.name for mutant in table.MUTANTS}
  asked = {mutant for edit in table.EDITS
           for mutant in re.findall(r"MUTATED\((\w+)\)", edit.new)}
  if known != asked:
    raise TableError(f"table/arrays_{name}.py: MUTANTS and EDITS do not both "
                     f"have {', '.join(sorted(known ^ asked))}")
  for mutant in table.MUTANTS:
    if not mutant.programs:
      raise TableError(f"mutant {mutant.name}: no program shows it")
  return table.MUTANTS, table.EDITS


def edited_sources(name):
  """{source of arrays/: its text with every edit of the table}."""
  _, edits = load_arrays(name)
  texts = {}
  for edit in edits:
    path = ARRAYS / edit.file
    texts[path] = replaced(texts.get(path) or source(path), edit.old, edit.new,
                           path)
  return texts


def array_header(name):
  found, _ = load_arrays(name)
  lines = [f"// Written by mutants.py of table/arrays_{name}.py.", "#pragma once",
           "", "namespace devrt::testing {", "", "enum class Mutant {", "  kNone,",
           *(f"  k{mutant.name}," for mutant in found), "};",
           "extern Mutant g_mutant;  // which defect is switched on", "",
           "struct Kill {", "  Mutant mutant;", "  const char* name;",
           "  const char* program;", "};", "constexpr Kill kKills[] = {",
           *(f'  {{Mutant::k{mutant.name}, "{mutant.name}", "{program}"}},'
             for mutant in found for program in mutant.programs),
           "};", "", "}  // namespace devrt::testing", "",
           "#define MUTATED(name) \\",
           "  (::devrt::testing::g_mutant == ::devrt::testing::Mutant::k##name)"]
  return "\n".join(lines) + "\n"


def write_arrays(name, folder):
  folder = pathlib.Path(folder)
  header = f"{name}_mutants.h"
  (folder / header).write_text(array_header(name), encoding="utf-8")
  for path, text in edited_sources(name).items():
    (folder / path.name).write_text(
        f'#include "{header}"\n#line 1 "{path}"\n{text}',
        encoding="utf-8")


def check():
  wrong = 0
  for find in [*(mutant.mutated for mutant in load().values()),
               *(functools.partial(edited_sources, name)
                 for name in ARRAY_TABLES)]:
    try:
      find()
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
  elif arguments[:1] == ["--list-arrays"] and arguments[1:2]:
    print(*edited_sources(arguments[1]), sep="\n")
  elif arguments[:1] == ["--write-arrays"] and len(arguments) == 3:
    write_arrays(*arguments[1:])
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
