# SPDX-License-Identifier: Apache-2.0
"""devrt cts as a command: what it is asked, and how it can be ended."""

import os
import pty
import re
import signal
import subprocess
import unittest

from suite import EVENTS, MTIA, SuiteTest, plugin
from tool import FAILURE, TOOL


class Usage(SuiteTest):

    def check_wrong(self, *flags, texts):
        return self.assert_wrong_usage(["cts", *flags], *texts)

    def check_mtia(self, *flags, texts):
        return self.check_wrong(f"--plugin={MTIA}", *flags, texts=texts)

    def test_missing_plugin(self):
        self.check_wrong(texts=["--plugin=FILE is missing"])
        self.check_wrong("--plugin=x.so",
                         texts=[f"{self.folder}/x.so: no such file"])
        self.check_wrong("--plugin=/no/such.so",
                         texts=["/no/such.so: no such file"])

    def test_wrong_devices(self):
        self.check_mtia("--device=7", texts=[
            'device 7 does not exist: backend "mtia" has 2, 0 to 1'])
        self.check_mtia("--device=0,0", texts=["device 0 is given twice"])
        self.check_mtia("--device=-1", texts=['not "-1"'])
        self.check_mtia("--device=first", texts=['not "first"'])
        self.check_mtia("--device=,", texts=["names no device"])

    def test_unknown_names(self):
        self.check_mtia("--groups=evnt", texts=['unknown group "evnt"',
                                                "there are: load, "])
        self.check_mtia("--items=C9999", texts=['no test shows "C9999"'])
        self.check_mtia("--seeds=1", texts=['did you mean "--seed"?'])

    def test_wrong_numbers(self):
        for flag in ["--seed", "--programs", "--timeout"]:
            self.check_mtia(f"{flag}=x", texts=[flag, 'not "x"'])

    def test_wrong_reports(self):
        self.check_mtia("--report=xml:x", texts=["json:FILE or junit:FILE"])
        self.check_mtia("--report=json", texts=["json:FILE or junit:FILE"])
        self.check_mtia("--report=json:/no/where", texts=[
            'cannot write "/no/where": No such file or directory'])
        self.check_mtia(f"--report=json:{self.folder}",
                        texts=["Is a directory"])
        self.check_mtia("--report=json:a", "--report=junit:./a",
                        texts=["two reports in one file"])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_wrong_usage_touches_no_report(self):
        kept = self.folder / "kept.json"
        kept.write_text("what was there")
        for wrong in ["--device=7", "--groups=no", "--xfail=/no/such"]:
            self.check_mtia(f"--report=json:{kept}",
                            f"--report=junit:{self.folder}/new", wrong,
                            texts=[""])
            self.assertEqual(kept.read_text(), "what was there")
            self.assertEqual(list(self.folder.iterdir()), [kept])

    def test_report_to_a_full_disk(self):
        result = self.run_tool("cts", f"--plugin={MTIA}", "--groups=load",
                               "--report=json:/dev/full", expect=FAILURE)
        self.assertIn('cannot write "/dev/full"', result.stderr)
        self.assertIn("Conformance statement: PASSED", result.stdout)

    def test_devices_that_exist(self):
        report = self.run_cts(MTIA, *EVENTS, "--device=1")
        self.assertEqual(len(report.json["devices"]), 1)
        self.assertIn("mtia:1", report.json["devices"][0])

    def test_json_says_whether_all_passed(self):
        report = self.run_json("cts", f"--plugin={MTIA}", *EVENTS)
        self.assertTrue(report["passed"])
        report = self.run_json("cts", f"--plugin={plugin('null_handles')}",
                               *EVENTS, expect=FAILURE)
        self.assertFalse(report["passed"])


class Texts(SuiteTest):

    def test_help_names_the_exit_codes(self):
        text = self.run_tool("cts", "--help").stdout
        self.assert_narrow(text)
        self.assertIn("77: nothing ran", text)

    def test_list_has_every_test_and_its_promise(self):
        text = self.run_tool("cts", "--list").stdout
        self.assert_narrow(text)
        tests = self.run_json("cts", "--list")["tests"]
        groups = []
        for test in tests:
            self.assertTrue(test["name"].startswith(test["group"] + "."))
            self.assertRegex(text, rf"(?m)^  {re.escape(test['name'])}\b")
            self.assertIn(test["promise"].split()[0], text)
            self.assertRegex(test["promise"], r"\.$")
            for item in test["items"]:
                self.assertRegex(item, r"^(K-)?[CR]\d+$")
            if test["group"] not in groups:
                groups.append(test["group"])
        self.assertEqual(re.findall(r"(?m)^(\w+)$", text), groups)
        self.assertEqual(len({t["name"] for t in tests}), len(tests))

    def test_statement_has_the_run_and_its_result(self):
        report = self.run_cts(MTIA, *EVENTS, "--seed=7")
        for text in ["Conformance statement: PASSED", "mtia", "seed          7",
                     report.json["sha256"], "event_timing"]:
            self.assertIn(text, report.text)
        self.assert_narrow(report.text)
        self.assertRegex(report.text, r"GROUP +PASSED +FAILED +UNSUPPORTED")
        self.assertRegex(report.json["time"], r"^\d{4}-\d\d-\d\dT[\d:]{8}Z$")

    def test_file_that_cannot_be_opened(self):
        """In all three forms, with the reason and the status."""
        report = self.run_cts(plugin("not_shared"), expect=FAILURE)
        (message,) = report.tests["load.opens"]["messages"]
        self.assertRegex(message, r"^[A-Z_]+: .*shared")
        self.assertIn("FAILED  load.opens", report.text)
        self.assertIn("Conformance statement: FAILED", report.text)
        failure = report.junit.find("testsuite/testcase/failure")
        self.assertIn(message, failure.text)
        counts = report.json["counts"]
        self.assertEqual(counts["failed"], 1)
        self.assertEqual(counts["not_run"], len(report.tests) - 1)
        self.assertRegex(report.text, r"(?m)^  GROUP .* NOT RUN$")
        not_run = report.json["groups"]["load"]["not_run"]
        self.assertRegex(report.text, rf"(?m)^  load +0 +1 +0 +0 +{not_run}$")

    def test_a_failure_shows_the_calls(self):
        report = self.run_cts(plugin("fails_with_handle"), *EVENTS,
                              expect=FAILURE)
        first = report.failures()[0]
        self.assertIn(first["promise"].split(".")[0][:40], report.text)
        self.assertIn("  Its last calls:\n", report.text)
        self.assertRegex(report.text, r"event_create\(0, \d+\): INTERNAL")


class Interrupted(SuiteTest):

    def start(self, *flags, **variables):
        """A run that hangs in a test, and the worker's process."""
        pids = self.folder / "pids"
        os.mkfifo(pids)
        environment = {**os.environ, "DEVRT_TEST_PID": str(pids), **variables}
        run = subprocess.Popen(
            [TOOL, "cts", f"--plugin={plugin('hangs_in_call')}", *EVENTS,
             *flags], env=environment, cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with open(pids, encoding="utf-8") as file:
            worker = int(file.readline())
        return run, worker

    def test_by_a_signal(self):
        for number in [signal.SIGINT, signal.SIGTERM]:
            run, worker = self.start()
            run.send_signal(number)
            output, errors = run.communicate(timeout=20)
            self.assertEqual(run.returncode, 128 + number)
            # Where: the signal may be faster than what the worker says.
            self.assertRegex(errors, r"interrupted( in [\w. ]+)?; the process "
                                     r"that ran the plugin was ended")
            self.assertNotIn("statement", output)
            self.wait_for_end_of(worker)
            (self.folder / "pids").unlink()

    def test_killed_supervisor_leaves_no_worker(self):
        """No worker outlives a supervisor that could do nothing more."""
        run, worker = self.start()
        run.kill()
        run.communicate(timeout=20)
        self.wait_for_end_of(worker)

    def test_an_interrupted_run_keeps_the_old_report(self):
        kept = self.folder / "kept.json"
        kept.write_text("what was there")
        run, _ = self.start(f"--report=json:{kept}")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=20)
        self.assertEqual(kept.read_text(), "what was there")


class OnATerminal(SuiteTest):

    def run_on_terminal(self, **variables):
        """Returns the text of standard error on a terminal."""
        try:
            ours, theirs = pty.openpty()
        except OSError as error:  # a root without /dev/pts
            self.skipTest(f"no pseudo-terminal: {error}")
        run = subprocess.Popen(
            [TOOL, "cts", f"--plugin={MTIA}", *EVENTS], stderr=theirs,
            stdout=subprocess.DEVNULL, env={**os.environ, **variables})
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:
            pass  # the other end is closed
        os.close(ours)
        self.assertEqual(run.wait(), 0)
        return shown.decode()

    def test_what_runs_is_shown_and_taken_away(self):
        shown = self.run_on_terminal(TERM="xterm")
        self.assertIn(f"0 done, 0 failed; {self.first_event_tests()[0]}",
                      shown)
        self.assertTrue(shown.endswith("\r\x1b[K"))

    def test_a_terminal_that_cannot(self):
        self.assertEqual(self.run_on_terminal(TERM="dumb"), "")

    def test_no_terminal(self):
        self.run_cts(MTIA, *EVENTS)  # which looks at standard error


if __name__ == "__main__":
    unittest.main()
