# SPDX-License-Identifier: Apache-2.0
"""Runs the whole suite on the simulator, in the mode that is the argument:
nothing fails and nothing needs a waiver, and the reports can be read."""

import os
import sys
import unittest

from suite import MTIA, SuiteTest

MODE = sys.argv.pop()


class Whole(SuiteTest):

    def test_mtia(self):
        report = self.run_cts(
            MTIA, "--timeout=120",
            f"--programs={os.environ['DEVRT_TEST_PROGRAMS']}",
            DEVRT_MTIA=f"mode={MODE}")
        self.assertEqual(report.names("passed", "skipped", "unsupported"),
                         set(report.tests))
        print(f"{len(report.names('passed'))} tests passed in "
              f"{report.json['seconds']:.1f} s")


if __name__ == "__main__":
    unittest.main()
