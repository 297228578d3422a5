# SPDX-License-Identifier: Apache-2.0
"""The table of docs/reference/settings.md has every variable that devrt reads, every key
of DEVRT_MTIA and every key of DEVRT_ALLOC_CONF, and no other name."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/settings.md"
# Programs in these folders read variables; those of tests/ are read by tests only.
FOLDERS = ["arrays", "backends", "bench", "collectives", "cts", "guards", "layers",
           "memory", "python", "runtime", "sim", "streams", "tools"]
SUFFIXES = {".cc", ".h", ".cu", ".inc", ".py"}
VARIABLE = re.compile(r'"(DEVRT_[A-Z0-9_]+)"')
KEY_LISTS = {
    "DEVRT_MTIA": "backends/mtia/config/config.cc",
    "DEVRT_ALLOC_CONF": "memory/common/settings_parse.cc",
}
KEY = re.compile(r'(?:Key<[^;"]*?>\(|\{)\s*"([a-z][a-z0-9_]*)"[,)]')


def variables_of(folders):
    found = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SUFFIXES:
                found |= set(VARIABLE.findall(path.read_text(encoding="utf-8")))
    return found


def keys_in(source):
    """The names in the array kKeys of a C++ source."""
    return set(KEY.findall(source.split("Key kKeys[] = {")[1].split("\n};")[0]))


def settings_of(text):
    """The rows of the table of settings, as ((variable,) or (variable, key), cells)."""
    lines = text.split("\n| Setting |")[1].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(tuple(re.findall(r"`(\w+)`", row[0])), row) for row in rows]


class SettingsTest(unittest.TestCase):

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.page = PAGE.read_text(encoding="utf-8")
        cls.settings = settings_of(cls.page)

    def test_one_sorted_table_has_all_settings(self):
        names = [name for name, _ in self.settings]
        self.assertGreater(len(names), 70)
        self.assertEqual(names, sorted(set(names)))
        for name, row in self.settings:
            with self.subTest(name=name):
                self.assertEqual(len(row), 6)
                self.assertTrue(all(row))

    def test_who_reads_a_setting_is_explained(self):
        table = self.page.split("\n| Read |")[1].split("\n\n")[0]
        known = set(re.findall(r"^\| (\w+) \|", table, re.M))
        self.assertEqual({row[4].split(":")[0] for _, row in self.settings}, known)

    def test_every_variable_is_on_the_page(self):
        named = {name[0] for name, _ in self.settings
                 if name[0].startswith("DEVRT_")}
        of_tests = {name for name in named if name.startswith("DEVRT_TEST_")}
        self.assertEqual(named - of_tests, variables_of(FOLDERS))
        self.assertLessEqual(of_tests, variables_of(["tests"]) | {
            name for path in (ROOT / "tests/support").glob("*.h")
            for name in VARIABLE.findall(path.read_text(encoding="utf-8"))})

    def test_every_key_is_on_the_page(self):
        for variable, path in KEY_LISTS.items():
            with self.subTest(variable=variable):
                source = (ROOT / path).read_text(encoding="utf-8")
                self.assertEqual({name[1] for name, _ in self.settings
                                  if len(name) == 2 and name[0] == variable},
                                 keys_in(source))

    def test_marks_are_those_of_secure_getenv(self):
        """A variable has a * if a privileged program ignores it."""
        marked = set(re.findall(r"^\| `(DEVRT_\w+)` \* \|", self.page, re.M))
        secure = {"DEVRT_BACKENDS", "DEVRT_LAYERS", "DEVRT_LAYER_PATH",
                  "DEVRT_PLUGINS", "DEVRT_PLUGIN_PATH"}  # discovery.cc
        for folder in FOLDERS:
            for path in (ROOT / folder).rglob("*.cc"):
                secure |= set(re.findall(
                    r'(?:secure_getenv|ReadChoice|ReadSetting)\(\s*"(\w+)"',
                    path.read_text(encoding="utf-8")))
        self.assertEqual(marked, secure)

    def test_how_names_are_found(self):
        self.assertEqual(VARIABLE.findall('F("DEVRT_A"); G("DEVRT_B=1")'),
                         ["DEVRT_A"])
        self.assertEqual(
            keys_in('constexpr Key kKeys[] = {\n  {"one", "a text", F},\n'
                    '  Number<1>(\n"no", 2),\n  NumberKey<&C::two, 1>(\n'
                    '      "two", "words"),\n};\n  {"three", 1},'),
            {"one", "two"})
        self.assertEqual(
            [name for name, _ in settings_of(
                "\n| `x` |\n\n| Setting | A |\n|---|---|\n| `a` * | 1 |\n| `a` `b` | 2 |\n")],
            [("a",), ("a", "b")])



if __name__ == "__main__":
    unittest.main()
