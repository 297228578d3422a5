# SPDX-License-Identifier: Apache-2.0
"""--file of tests/support/gtest_main.cc, and that Meson runs each file of each program."""

import collections
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["DEVRT_BUILD"])
OPTION = "--file="


def programs():
    """The programs that have the option, each with the files that Meson runs."""
    found = collections.defaultdict(set)
    tests = json.loads((BUILD / "meson-info/intro-tests.json").read_text())
    for test in tests:
        program, *arguments = test["cmd"]
        files = [word[len(OPTION):] for word in arguments if word.startswith(OPTION)]
        if files:
            found[program].update(files)
    return found


def listed(program, *arguments):
    """Returns (file, "suite.name") of each test that would run."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "tests.json"
        subprocess.run([program, "--gtest_list_tests", f"--gtest_output=json:{report}",
                        *arguments], check=True, stdout=subprocess.DEVNULL)
        suites = json.loads(report.read_text())["testsuites"]
    return {(test["file"], f"{suite['name']}.{test['name']}")
            for suite in suites for test in suite["testsuite"]}


class FilesOfTests(unittest.TestCase):

    def test_meson_runs_every_file(self):
        self.assertGreater(len(programs()), 5)
        for program, files in programs().items():
            with self.subTest(program):
                if not os.path.exists(program):
                    self.skipTest("not built")
                left = {file for file, _ in listed(program)
                        if not any(file.endswith("/" + name) for name in files)}
                self.assertEqual(left, set())

    def test_files_choose_tests(self):
        program, files = next((program, sorted(files)) for program, files
                              in programs().items() if os.path.exists(program))
        chosen = listed(program, OPTION + files[0], OPTION + files[1])
        self.assertEqual(chosen, {
            (file, name) for file, name in listed(program)
            if file.endswith(("/" + files[0], "/" + files[1]))})
        self.assertEqual({file.rpartition("/")[2] for file, _ in chosen},
                         {name.rpartition("/")[2] for name in files[:2]})
        none = subprocess.run([program, OPTION + "none.cc"], text=True,
                              stderr=subprocess.PIPE)
        self.assertEqual(none.returncode, 1)
        self.assertIn("--file=none.cc: no test is in this file", none.stderr)


if __name__ == "__main__":
    unittest.main()
