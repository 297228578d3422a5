# SPDX-License-Identifier: Apache-2.0
"""docs/concepts/architecture.md names functions that are in the files it names them with,
and the floors of scripts/rooms.py; docs/reference/glossary.md names headers that exist."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import rooms  # noqa: E402

PAGE = (ROOT / "docs/concepts/architecture.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\| ([^|]+) \| `([\w/]+\.\w+)` \| ([^|]+) \|$", re.M)


class ArchitectureTest(unittest.TestCase):

    def test_functions_are_in_their_files(self):
        steps = STEP.findall(PAGE)
        rows = re.findall(r"^\| (?!Step|---)", PAGE, re.M)
        self.assertGreater(len(steps), 30)
        self.assertEqual(len(steps), len(rows), "a row has another form")
        for what, path, functions in steps:
            text = (ROOT / path).read_text(encoding="utf-8")
            names = re.findall(r"`(\w+)`", functions)
            self.assertTrue(names, what)
            for name in names:
                with self.subTest(path=path, name=name):
                    self.assertRegex(text, rf"\b{name}\b")

    def test_every_floor_is_drawn(self):
        drawn = PAGE.split("```text")[1].split("```")[0]
        for room in rooms.FLOOR_OF:
            # Parts that several floors share stand in the text.
            shared = ("backends", "backends/template", "backends/tensor",
                      "backends/text", "tools/common", "tools/timeline")
            with self.subTest(room=room):
                self.assertIn(room, PAGE if room in shared else drawn)

    def test_the_glossary_is_in_order_and_names_headers(self):
        glossary = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| (?!Term|---)([^|]+) \| [^|]+ \| ([^|]+) \|$",
                          glossary, re.M)
        self.assertGreater(len(rows), 30)
        terms = [term for term, _ in rows]
        self.assertEqual(terms, sorted(terms))
        for term, where in rows:
            for path in re.findall(r"`([^`]+)`", where):
                with self.subTest(term=term):
                    self.assertTrue((ROOT / path).exists(), path)


if __name__ == "__main__":
    unittest.main()
