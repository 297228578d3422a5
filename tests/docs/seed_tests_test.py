# SPDX-License-Identifier: Apache-2.0
"""docs/evidence/seed-tests.md names tests that exist, and all seed tests of memory."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of docs/reference/semantics.md 3.2: by these words in its name a seed test is about
# memory.
MEMORY = re.compile(r"memory|pinned|record_stream|cudart_register"
                    r"|copy_non_blocking$")
# Of those the ones that need arrays: they copy, convert or lay out elements.
LATER = {"noncontiguous_pinned_memory"}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def rows():
    """(what, suite, test, file) of every row that names a test."""
    return re.findall(r"^\| ([^|]+?) \| `(\w+)\.(\w+)` \| (\S+) \|$",
                      read("docs/evidence/seed-tests.md"), re.M)


def seeds():
    """The names in the table of docs/reference/semantics.md 3.2."""
    section = read("docs/reference/semantics.md").split("\n### 3.2 ")[1].split("\n### ")[0]
    return set(re.findall(r"^\| ([a-z]\w+)(?: \(part\))? \|", section, re.M))


class SeedTests(unittest.TestCase):

    def test_the_tables_are_read(self):
        self.assertGreaterEqual(len(rows()), 20)
        self.assertIn("record_stream", seeds())

    def test_every_test_exists(self):
        for what, suite, test, file in rows():
            with self.subTest(what):
                self.assertRegex(
                    read(file), rf"TEST(_F|_P)?\(\s*{suite},\s*{test}\)")

    def test_every_seed_test_of_memory_is_there(self):
        named = {what for what, *_ in rows()}
        wanted = {name for name in seeds() if MEMORY.search(name)} - LATER
        self.assertEqual(wanted - named, set())

    def test_no_name_is_made_up(self):
        table = read("docs/evidence/seed-tests.md").split("\n| Seed test |")[1]
        table = table.split("\n\n")[0]
        for name in re.findall(r"^\| (\w+) \|", table, re.M):
            self.assertIn(name, seeds())


if __name__ == "__main__":
    unittest.main()
