# SPDX-License-Identifier: Apache-2.0
"""Checks --file of tests/support/gtest_main.cc, and that Meson runs each file of tests."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["DEVRT_BUILD"])
OPTION = "--file="


def programs():
    """The programs that take the option and are built, each with the files that Meson runs."""
    found = collections.defaultdict(set)
    tests = json.loads((BUILD / "meson-info/intro-tests.json").read_text())
    for test in tests:
        files = [word[len(OPTION):] for word in test["cmd"] if word.startswith(OPTION)]
        if files:
            program = test["cmd"][test["cmd"].index(OPTION + files[0]) - 1]
            found[program].update(files)
    return {program: files for program, files in found.items() if os.path.exists(program)}


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
        for program, files in programs().items():
            with self.subTest(program):
                left = {file for file, _ in listed(program)
                        if not any(file.endswith("/" + name) for name in files)}
                self.assertEqual(left, set())

    def test_files_choose_tests(self):
        program, files = next((program, sorted(files)) for program, files
                              in programs().items() if len(files) > 1)
        chosen = listed(program, OPTION + files[0], OPTION + files[1])
        self.assertEqual(chosen, {
            (file, name) for file, name in listed(program)
            if file.endswith(("/" + files[0], "/" + files[1]))})
        self.assertEqual({file.rpartition("/")[2] for file, _ in chosen},
                         {name.rpartition("/")[2] for name in files[:2]})
        _, one = min(chosen)
        suite = one.partition(".")[0]
        self.assertEqual(
            listed(program, OPTION + files[0], OPTION + files[1],
                   f"--gtest_filter={suite}.*-{one}"),
            {(file, name) for file, name in chosen
             if name.startswith(f"{suite}.") and name != one})
        none = subprocess.run([program, OPTION + "none.cc"], text=True,
                              stderr=subprocess.PIPE)
        self.assertEqual(none.returncode, 1)
        self.assertIn("--file=none.cc: no test is in this file", none.stderr)


if __name__ == "__main__":
    if not any(len(files) > 1 for files in programs().values()):
        print("no such program is built")
        sys.exit(77)
    unittest.main()
