# SPDX-License-Identifier: Apache-2.0
"""The shell blocks that no test runs name programs, options, tests and variables that
exist; commands.py says what is checked."""

import re
import sys
import unittest

sys.dont_write_bytecode = True
import blocks  # noqa: E402
import commands  # noqa: E402

SET = re.compile(r"(?:^|\s)(DEVRT_[A-Z0-9_]+)=", re.M)
VARIABLE = re.compile(r"\bDEVRT_[A-Z0-9_]+\b")


class CommandsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if not commands.is_target("bench/guards_bench"):
            raise unittest.SkipTest("pages name benchmarks, which this build leaves out")

    def test_commands_of_blocks_exist(self):
        found = blocks.commands_to_check()
        self.assertGreater(len(found), 30)
        for block in found:
            with self.subTest(block.place):
                self.assertGreater(commands.check_block(block.text) +
                                   block.text.count("export "), 0)

    def test_variables_are_on_the_page_of_settings(self):
        page = (blocks.ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
        known = set(VARIABLE.findall(page))
        for block in blocks.all_blocks():
            if block.language == "sh":
                with self.subTest(block.place):
                    self.assertLessEqual(set(SET.findall(block.text)), known)

    def test_what_bash_reads(self):
        # The two commands of a pipe begin at once.
        self.assertEqual(sorted(commands.commands_of(
            "DEVRT_MTIA=seed=1 devrt list | jq '.x y'  # --no-option\n"
            "export A='b c'; cp \"$A\" \\\n  $(pkg-config --cflags devrt)\n"
            "cat >f <<'END'\n$(no such)\nEND\n")),
            [["cat"], ["cp", "b c", "1"], ["devrt", "list"], ["jq", ".x y"],
             ["pkg-config", "--cflags", "devrt"]])

    def test_wrong_commands_are_found(self):
        for block, message in {
                "devrt list --no-such": "devrt list has no option --no-such",
                "devrt no-such": "no command of devrt: no-such",
                "./build/tools/devrt demo --no-such": "no option --no-such",
                "meson setup build -Dno_such=1": "no option of the build: no_such",
                "meson test -C build --no-such": "no option --no-such",
                "meson test -C build --suite no-such": "no suite of tests: no-such",
                "meson test -C build no_such": "no test: no_such",
                "ninja -C build no-such": "no target: no-such",
                "./build/bench/no_such": "no program of the build",
                "./build/bench/guards_bench --no-such": "no option --no-such",
                "scripts/no-such": "No such file",
                "scripts/check --no-such": "no option --no-such",
                ".ci/run nosuchjob": "knows no nosuchjob",
                "pip install . -Csetup-args=-Dno_such=1": "no option of the build",
                "python3 bench/python_bench.py --no-such": "no option --no-such",
                "c++ -fno-such-option main.cc": "no-such-option",
                "no-such-command": "command not found",
                "cp --no-such a b": "no option --no-such",
                "nice -n 10 devrt list --no-such": "no option --no-such",
                "devrt trace -- ./train && devrt list --no-such": "no option",
                "echo $no_such": "unbound variable",
                "if true": "syntax error"}.items():
            with self.subTest(block):
                with self.assertRaisesRegex(commands.CommandError, message):
                    commands.check_block(block + "\n")


if __name__ == "__main__":
    unittest.main()
