# SPDX-License-Identifier: Apache-2.0
"""Parts that the tests of broken machines share."""

import concurrent.futures
import os
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from tool import FAILURE, ROOT, TOOL, ToolTest, main_at_once  # noqa: E402, F401

HIDE = os.environ.get("DEVRT_HIDE_LIBRARIES")
LIMIT = 3  # seconds that a backend may take to open
BOUND = 40  # that `devrt list` may take then, on a busy machine


def hidden(*libraries):
    """The variables of a machine that lacks these, whatever this one has."""
    if HIDE is None:
        raise unittest.SkipTest("a sanitizer's runtime is the first library")
    return {"LD_PRELOAD": HIDE, "DEVRT_TEST_HIDDEN": ":".join(libraries)}


def entries(file, macro):
    """The arguments of an entries.inc, as lists of words."""
    text = (ROOT / file).read_text(encoding="utf-8")
    found = re.findall(rf"^{macro}\((.*)\)", text, re.MULTILINE)
    return [[word.strip() for word in line.split(",")] for line in found]


class MachineTest(ToolTest):

    def check_left_out(self, broken, variables):
        """`devrt list` ends soon, names each of `broken` with its reason, and
        reports all others as usable."""
        arguments = ["list", f"--timeout={LIMIT}"]
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor() as pool:  # both mostly wait
            report = pool.submit(self.run_json, *arguments, expect=FAILURE, **variables)
            text = self.run_tool(*arguments, expect=FAILURE, **variables)
            report = report.result()
        self.assertLess(time.monotonic() - begin, BOUND)
        for backend in report["backends"]:
            name = backend["name"]
            reason = broken.get(name)
            self.assertEqual(backend["usable"], reason is None, backend)
            if reason is None:
                self.assertIn(f" {name}:0 ", text.stdout)
                continue
            self.assertIn(reason, backend["error"]["message"])
            for said in (text.stdout, text.stderr):
                self.assertIn(f'backend "{name}" {reason}',
                              " ".join(said.split()))
        self.assertLessEqual(set(broken) | {"mtia"},
                             {b["name"] for b in report["backends"]})


HANGS = f"did not open within {LIMIT} s"
CRASHES = "ended the process that used it by signal 11"
