# SPDX-License-Identifier: Apache-2.0
"""Runs the whole suite on the simulator, in the mode that is the argument, or
on stream_threads: nothing fails and nothing needs a waiver, and the reports can
be read."""

import os
import sys
import unittest

from suite import MTIA, SuiteTest, plugin

MODE = sys.argv.pop()


class Whole(SuiteTest):

    def test_every_test_passes_or_is_skipped(self):
        threads = MODE == "stream_threads"
        report = self.run_cts(
            plugin(MODE) if threads else MTIA, "--timeout=120",
            f"--programs={os.environ['DEVRT_TEST_PROGRAMS']}",
            **({} if threads else {"DEVRT_MTIA": f"mode={MODE}"}))
        self.assertEqual(report.names("passed", "skipped", "unsupported"),
                         set(report.tests))
        print(f"{len(report.names('passed'))} tests passed in "
              f"{report.json['seconds']:.1f} s")


if __name__ == "__main__":
    unittest.main()
