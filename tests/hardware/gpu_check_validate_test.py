# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/gpu-check that watch programs with the race detector."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from gpu_check import runner, validate  # noqa: E402


class RaceDetector(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.check = runner.Runner(pathlib.Path(os.environ["DEVRT_BUILD"]),
                                   pathlib.Path(folder.name), None)
        self.check.part = "validate"

    def test_costs_of_the_race_detector(self):
        made = validate.bench_row_of([1000, 900, 1100], [1060, 1150, 1040],
                                     {"memcheck": [5000]}, judged=True)
        self.assertEqual(
            (made["devrt"], made["peers"], made["bars"]),
            (1060, {"without": 1000, "memcheck": 5000}, {"1.1 of without": True}))
        made = validate.bench_row_of([1000], [1101], {}, judged=True)
        self.assertEqual(made["bars"], {"1.1 of without": False})
        made = validate.bench_row_of([1000], [1101], {}, judged=False)
        self.assertNotIn("bars", made)

    def test_races_in_correct_programs_are_failures(self):
        def use(line):
            return {"site": f"a.py:{line}"}
        race = {"kind": "read-after-write", "earlier": use(1), "later": use(2)}
        leak = {"kind": "leak"}
        for seen, said in [
                ([("a", None, []), ("b", None, [leak])],
                 ("passed", "tests: no findings in 2 programs")),
                ([("a", None, [race]), ("b", None, [])],
                 ("FAILED", "a: read-after-write: a.py:1 and a.py:2")),
                ([("a", None, []), ("c", None, None)],
                 ("FAILED", "c: the layer wrote no file")),
                ([("a", "ended by signal 9", [])], ("FAILED", "a: ended by signal 9")),
                ([], ("FAILED", "tests: no program ran"))]:
            self.check.rows.clear()
            validate.judge(self.check, "tests", seen)
            self.assertEqual(
                [(row.outcome, row.detail) for row in self.check.rows], [said])

    def test_tests_that_are_all_skipped_need_no_findings(self):
        for code, last, nothing in [
                (0, "24 skipped in 0.21s", True), (5, "no tests ran in 0.1s", True),
                (0, "1 passed, 24 skipped in 0.21s", False), (0, "", False),
                (-9, "24 skipped in 0.21s", False)]:
            command = runner.Command("a", [], code, f"...\n{last}\n", 1)
            self.assertEqual(validate.ran_nothing(command), nothing, last)

    def test_half_a_line_of_findings_is_a_failure(self):
        findings = self.check.file("findings.json")
        self.assertIsNone(validate.read(findings))
        findings.write_text('{"record": "begin"}\n{"kind": "read-af', encoding="utf-8")
        validate.judge(self.check, "tests", [("a", None, validate.read(findings))])
        row, = self.check.rows
        self.assertEqual((row.outcome, row.detail),
                         ("FAILED", 'a: a line that is no JSON: {"kind": "read-af'))


if __name__ == "__main__":
    unittest.main()
