# SPDX-License-Identifier: Apache-2.0
"""Verdicts of random programs on a backend whose streams are threads: no finding for a
right one, and the findings for one that was wrong for a while."""

import contextlib
import os
import re
import unittest

from suite import FAILURE, MTIA, SuiteTest, plugin

THREADS = plugin("stream_threads")
NOT_DETERMINISTIC = "not deterministic"


class CorrectBackend(SuiteTest):

    def test_every_seed_passes(self):
        """A wait may be over later than its event: no item says otherwise."""
        for seed in range(1, 5):
            report = self.run_cts(
                THREADS, "--groups=random", f"--seed={seed}",
                f"--programs={os.environ['DEVRT_TEST_PROGRAMS']}")
            self.assertEqual(report.names("failed"), set(), report.text)
            self.assertIn("random.programs", report.names("passed"))

    def test_the_statement_says_how_far_the_seed_decides(self):
        for path, deterministic in [(THREADS, False), (MTIA, True)]:
            report = self.run_cts(path, "--groups=random", "--programs=8")
            self.assertEqual(report.json["deterministic"], deterministic)
            self.assertEqual(NOT_DETERMINISTIC in report.text,
                             not deterministic)
        report = self.run_cts(THREADS, "--items=C24", "--groups=event")
        self.assertNotIn(NOT_DETERMINISTIC, report.text)


class FailureThatDoesNotRepeat(SuiteTest):

    def run_programs(self, bad_runs, expect):
        return self.run_bad("stream_threads", "--items=random.programs",
                            "--programs=40", expect=expect,
                            DEVRT_TEST_BAD_RUNS=str(bad_runs))

    def first_failing(self):
        """As few bad runs as a program fails in: it cannot fail again."""
        for bad_runs in range(1, 40):
            with contextlib.suppress(AssertionError):
                self.run_programs(bad_runs, FAILURE)
                return bad_runs
        self.fail("no program finds what is wrong")

    def check(self, bad_runs):
        """How many steps the program had and has; the step told is its."""
        report = self.run_programs(bad_runs, FAILURE)
        text = "\n".join(report.tests["random.programs"]["messages"])
        self.assertIn("The failure is not deterministic", text)
        found = re.search(r"made small \((\d+) steps to (\d+)\): "
                          r"step (\d+), (.*?): (?:in the host function: )?"
                          r"byte \d+ of the", text)
        self.assertTrue(found, text)
        before, after, step = (int(found[i]) for i in (1, 2, 3))
        listed = re.findall(r"^(\d+): (.*)$", text, re.MULTILINE)
        steps = {int(number): what for number, what in listed[:after]}
        self.assertEqual(len(steps), after, text)
        self.assertTrue(steps[step].endswith(found[4]), text)
        self.assertRegex(text, rf"// Finds: step {step}, ")
        return before, after

    def test_the_program_that_failed_is_told_with_its_step(self):
        before, after = self.check(self.first_failing())
        self.assertEqual(after, before)

    def test_a_smaller_program_that_failed_is_not_lost(self):
        before, after = self.check(bad_runs=60)
        self.assertLess(after, before)


if __name__ == "__main__":
    unittest.main()
