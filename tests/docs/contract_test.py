# SPDX-License-Identifier: Apache-2.0
"""Every rule of docs/reference/plugin-contract.md names tests and plugins that exist, and
its lists of slots are those of devrt_slots.inc."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (P\d+) \|" + r" (.*) \|" * 5 + "$", re.M)
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


def slots_in_header():
    """(name, required, capability) of each slot of the table."""
    text = (ROOT / "backends/abi/devrt_slots.inc").read_text(encoding="utf-8")
    return re.findall(r"^DEVRT_SLOT\((\w+), ([01]), (?:DEVRT_CAP_)?(\w+)\)", text, re.M)


class Contract(unittest.TestCase):

    def setUp(self):
        text = (ROOT / "docs/reference/plugin-contract.md").read_text(encoding="utf-8")
        self.rows = ROW.findall(text)

    def test_rules_are_numbered(self):
        self.assertEqual([row[0] for row in self.rows],
                         [f"P{i + 1}" for i in range(len(self.rows))])
        self.assertGreaterEqual(len(self.rows), 18)

    def test_each_is_enforced(self):
        for number, _, enforcer, _, _, _ in self.rows:
            self.assertTrue(ENFORCERS & set(re.findall(r"\w+", enforcer)),
                            number)

    def test_tests_exist(self):
        known = tests_in_tree()
        for number, _, _, _, _, shown in self.rows:
            names = re.findall(r"`([\w.]+)`", shown)
            self.assertTrue(names, f"{number} names no test")
            for name in names:
                self.assertIn(name, known, number)

    def test_plugins_exist(self):
        known = plugins_in_tree()
        for number, _, enforcer, broken, kept, _ in self.rows:
            names = re.findall(r"`(\w+)`", broken)
            # No plugin can break a rule that the core enforces. The place of a file
            # (P19) is not in the file.
            self.assertTrue(names or "core" in enforcer or number == "P19",
                            number)
            for name in names + re.findall(r"`(\w+)`", kept):
                self.assertIn(name, known, number)

    def rows_of(self, heading):
        """The rows of the table under the heading, as {first cell: names}."""
        text = (ROOT / "docs/reference/plugin-contract.md").read_text(encoding="utf-8")
        table = text.partition(f"| {heading} |\n|---|---|\n")[2].partition("\n\n")[0]
        return {row.split("|")[1].strip(): re.findall(r"`(\w+)`", row)
                for row in table.splitlines()}

    def test_required_slots(self):
        listed = [name for names in self.rows_of("Subject | Required slots").values()
                  for name in names]
        self.assertEqual(sorted(listed), sorted(
            name for name, required, _ in slots_in_header() if required == "1"))

    def test_slots_of_capabilities(self):
        wanted = {}
        for name, _, capability in slots_in_header():
            if capability != "0":
                wanted.setdefault(capability, []).append(name)
        self.assertGreater(len(wanted), 5)
        self.assertEqual(self.rows_of("Capability | Slots"), wanted)


if __name__ == "__main__":
    unittest.main()
