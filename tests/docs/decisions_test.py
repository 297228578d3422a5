# SPDX-License-Identifier: Apache-2.0
"""docs/decisions/: each page has its three parts, and the list has each page."""

import pathlib
import re
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs/decisions"
MOST_WORDS = 1000


class Decisions(unittest.TestCase):

    def setUp(self):
        self.pages = {path.name: path.read_text(encoding="utf-8")
                      for path in sorted(FOLDER.glob("0*.md"))}

    def test_each_has_context_decision_and_consequences(self):
        self.assertTrue(self.pages)
        for name, text in self.pages.items():
            self.assertEqual(re.findall(r"^## (.*)$", text, re.M),
                             ["Context", "Decision", "Consequences"], name)
            self.assertLess(len(text.split()), MOST_WORDS, name)

    def test_the_list_has_each_with_its_title(self):
        listed = re.findall(r"^\| \[(\d{4})\]\((.*?)\) \| (.*) \|$",
                            (FOLDER / "README.md").read_text(encoding="utf-8"), re.M)
        self.assertEqual(
            [(name, f"# {int(number)}. {title}") for number, name, title in listed],
            [(name, text.split("\n")[0]) for name, text in self.pages.items()])


if __name__ == "__main__":
    unittest.main()
