# SPDX-License-Identifier: Apache-2.0
"""Runs the devrt command for the tests of this folder.

DEVRT_TOOL is the command's path; tests/tools/meson.build sets it.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = os.environ["DEVRT_TOOL"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Those with --json.
REPORTS = ["bench", "demo", "list", "info", "topo", "inspect"]
COMMANDS = [*REPORTS, "check", "cts", "memory", "new-backend", "trace"]
PLUGIN = str(pathlib.Path(TOOL).parents[1] / "lib/devrt/libdevrt_mtia.so")
# Arguments without which a command does nothing.
NEEDED_ARGUMENTS = {"bench": ["memory", "--quick"], "inspect": [PLUGIN]}

SUCCESS = 0
FAILURE = 1
USAGE = 2


class ToolTest(unittest.TestCase):
    """Each test runs in an empty directory of its own."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tool(self, *arguments, expect=SUCCESS, stdout=subprocess.PIPE,
                 **variables):
        """Runs `devrt ARGUMENTS`; variables are added to the environment."""
        return self.run_program([TOOL, *arguments], expect, stdout, **variables)

    def start_tool(self, *arguments, **variables):
        """Starts the tool and does not wait for its end."""
        return self.start_program([TOOL, *arguments], **variables)

    def start_program(self, command, **variables):
        process = subprocess.Popen(
            command, cwd=self.folder, text=True,
            env=self.environment(variables), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    @staticmethod
    def environment(variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("DEVRT_") and name != "NO_COLOR"}
        environment["LC_ALL"] = "C.UTF-8"
        environment.update(variables)
        return environment

    def run_program(self, command, expect=SUCCESS, stdout=subprocess.PIPE,
                    **variables):
        """Runs another program; any exit code passes if `expect` is None."""
        result = subprocess.run(command, cwd=self.folder,
                                env=self.environment(variables),
                                text=True, stdout=stdout,
                                stderr=subprocess.PIPE, errors="replace")
        if expect is None:
            return result
        self.assertEqual(result.returncode, expect,
                         f"{' '.join(command)}\n{result.stdout}\n"
                         f"{result.stderr}")
        return result

    def run_json(self, *arguments, **options):
        return json.loads(self.run_tool(*arguments, "--json", **options).stdout)

    def assert_wrong_usage(self, arguments, *texts):
        """Exit code 2, nothing on stdout, and all `texts` on stderr."""
        result = self.run_tool(*arguments, expect=USAGE)
        self.assertEqual(result.stdout, "")
        for text in texts:
            self.assertIn(text, result.stderr)
        self.assertNotIn("\t", result.stderr)
        return result

    def assert_narrow(self, text, columns=80):
        """No line is too long, but those that hold one long word (a path)."""
        for line in text.splitlines():
            if len(line.split()) > 1 and "/" not in line:
                self.assertLessEqual(len(line), columns, line)


def main_at_once(threads=8, modules=("__main__",)):
    """unittest.main for a script whose tests mostly wait: they wait beside each other.

    With arguments it is unittest.main, which runs the tests that are named: those of
    other modules as MODULE.CLASS.TEST."""
    if len(sys.argv) > 1:
        if modules == ("__main__",):
            unittest.main()
        # Options alone, as -k, choose among all of them.
        of = modules if sys.argv[1].startswith("-") else ()
        unittest.main(module=None, argv=[sys.argv[0], *of, *sys.argv[1:]])

    def run(test):
        result = unittest.TestResult()
        test.run(result)
        return result

    loader = unittest.defaultTestLoader
    tests = [test for name in modules
             for case in loader.loadTestsFromModule(sys.modules[name])
             for test in case]
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(run, tests))
    broken = [found for result in results
              for found in [*result.errors, *result.failures]]
    for test, text in broken:
        print(f"FAILED {test.id()}\n{text}")
    ran = sum(result.testsRun for result in results)
    skipped = sum(len(result.skipped) for result in results)
    print(f"{ran} tests, {len(broken)} failed, {skipped} skipped")
    sys.exit(bool(broken) or ran == 0)
