# SPDX-License-Identifier: Apache-2.0
"""Every rule of docs/reference/plugin-contract.md names tests and plugins that exist."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (P\d+) \| (.*) \| (.*) \| (.*) \| (.*) \|$", re.M)
ENFORCERS = {"loader", "watch", "core", "suite", "helper"}


def tests_in_tree():
    """All "Suite.Name" of the C++ and Python tests."""
    found = set()
    for path in (ROOT / "tests").rglob("*_test.cc"):
        found.update(".".join(pair) for pair in re.findall(
            r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)",
            path.read_text(encoding="utf-8"), re.M))
    for path in (ROOT / "tests").rglob("*_test.py"):
        for suite, body in re.findall(r"^class (\w+)\(.*?\):\n(.*?)(?=^\S|\Z)",
                                      path.read_text(encoding="utf-8"),
                                      re.M | re.S):
            found.update(f"{suite}.{name}"
                         for name in re.findall(r"def (test_\w+)", body))
    return found


def plugins_in_tree():
    """The names that tests/abi/plugins/README.md describes."""
    text = (ROOT / "tests/abi/plugins/README.md").read_text(encoding="utf-8")
    return {name for row in re.findall(r"^\| (`.*?`) \|", text, re.M)
            for name in re.findall(r"`(\w+)`", row)}


class Contract(unittest.TestCase):

    def setUp(self):
        text = (ROOT / "docs/reference/plugin-contract.md").read_text(encoding="utf-8")
        self.rows = ROW.findall(text)

    def test_rules_are_numbered(self):
        self.assertEqual([row[0] for row in self.rows],
                         [f"P{i + 1}" for i in range(len(self.rows))])
        self.assertGreaterEqual(len(self.rows), 18)

    def test_each_is_enforced(self):
        for number, _, enforcer, _, _ in self.rows:
            self.assertTrue(ENFORCERS & set(re.findall(r"\w+", enforcer)),
                            number)

    def test_tests_exist(self):
        known = tests_in_tree()
        for number, _, _, _, shown in self.rows:
            names = re.findall(r"`([\w.]+)`", shown)
            self.assertTrue(names, f"{number} names no test")
            for name in names:
                self.assertIn(name, known, number)

    def test_plugins_exist(self):
        known = plugins_in_tree()
        for number, _, enforcer, broken, _ in self.rows:
            names = re.findall(r"`(\w+)`", broken)
            # What the core sees to, no plugin can break; and where a file lies
            # (P19) is not in the file.
            self.assertTrue(names or "core" in enforcer or number == "P19",
                            number)
            for name in names:
                self.assertIn(name, known, number)


if __name__ == "__main__":
    unittest.main()
