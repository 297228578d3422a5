# SPDX-License-Identifier: Apache-2.0
"""Plugins that crash, hang, leave or lie: each is named, as what it did, and
takes nothing with it."""

import re
import time
import unittest

from suite import EVENTS, FAILURE, NOTHING_RAN, SUCCESS, SuiteTest, plugin
from tool import main_at_once  # tests/tools, on PYTHONPATH

QUICK = "--timeout=2"


class InACall(SuiteTest):

    def check_once(self, name, how, *texts, flags=()):
        """One test fails in that way, the others of its group run."""
        report = self.run_bad(name, "--groups=event,load", QUICK, *flags,
                              DEVRT_TEST_ONCE=str(self.folder / "once"))
        broken = [t for t in report.failures() if t["how"] == how]
        self.assertEqual(len(broken), 1, report.text)
        self.assertEqual(report.names("not_run"), set())
        self.assertGreaterEqual(len(report.tests), 4)
        for text in texts:
            self.assertIn(text, "\n".join(broken[0]["messages"]))
        self.assertIn(f"FAILED  {broken[0]['name']}", report.text)
        self.assertEqual(report.outcome("load.process_ends_well"), "passed")
        return broken[0]

    def check_calls(self, test):
        """The last call is the one that it did not come back from."""
        self.assertRegex(test["calls"][-1],
                         r"^event_create\(\d+, \d+\) has not returned$")

    def test_crash_is_reported_with_its_signal(self):
        test = self.check_once("crashes_in_call", "crash", "the process ended",
                               "signal 11 (Segmentation fault)")
        self.check_calls(test)
        # Written without a newline, and without a core file.
        self.assertEqual(test["log"], "about to crash, core limit 0")

    def test_hang_ends_at_the_timeout(self):
        test = self.check_once("hangs_in_call", "hang",
                               "it did not end within 2 s")
        self.check_calls(test)
        self.assertGreaterEqual(test["seconds"], 2)

    def test_exit_is_reported_with_its_code(self):
        test = self.check_once("exits_in_call", "exit", "exit code 0")
        self.check_calls(test)

    def test_a_child_that_stays(self):
        """A crash is told as one, though the child holds the pipe, and the
        child does not live on."""
        pids = self.folder / "pids"
        report = self.run_bad("forks_in_call", *EVENTS, "--timeout=60",
                              DEVRT_TEST_PID=str(pids))
        self.assertEqual({t["how"] for t in report.failures()}, {"crash"})
        for pid in pids.read_text().split():
            self.wait_for_end_of(pid)

    def test_closed_pipe(self):
        test = self.check_once("closes_files", "hang",
                               "the process closed its pipe", "was ended")
        self.check_calls(test)

    def test_many_tests_hang(self):
        """After three of them the rest gets less time, and the text says so:
        where everything hangs, the run still ends."""
        begin = time.monotonic()
        report = self.run_bad("hangs_in_call", "--groups=event,order",
                              "--items=C24,C29,C35", "--timeout=3")
        hung = [t for t in report.failures() if t["how"] == "hang"]
        self.assertGreater(len(hung), 3)
        self.assertLess(time.monotonic() - begin, 3 * (len(hung) + 10))
        for i, test in enumerate(hung):
            text = test["messages"][0]
            self.assertIn(f"within {3 if i < 3 else 2} s", text)
            self.assertEqual("less than others" in text, i >= 3)


class Lies(SuiteTest):

    def check_all(self, name, *texts):
        """Every test that makes an event says so, by a check."""
        report = self.run_bad(name, *EVENTS)
        self.assertEqual({t["name"] for t in report.failures()}, report.ran())
        self.assertTrue(report.ran())
        for test in report.failures():
            self.assertEqual(test["how"], "check")
            for text in texts:
                self.assertIn(text, "\n".join(test["messages"]))
        return report

    def test_null_handle_with_ok(self):
        self.check_all("null_handles", "handle is not NULL")

    def test_handle_with_an_error(self):
        """No test uses the handle."""
        report = self.check_all("fails_with_handle", "event creation: INTERNAL: "
                                "no, but there you are")
        for test in report.failures():
            self.assertRegex(test["calls"][-1], r"^event_create\(.*\): INTERNAL$")

    def test_wrong_word(self):
        """Neither 0 nor 1: no test takes it for one of them."""
        report = self.run_bad("answers_seven", *EVENTS)
        self.assertIn("event_query answered 7, not 0 or 1",
                      report.failures()[0]["messages"][0])

    def test_repeated_calls_are_one_line(self):
        report = self.run_bad("never_idle", *EVENTS, "--device=0", QUICK)
        calls = report.failures()[0]["calls"]
        self.assertRegex(calls[-1], r"^stream_query\(.*\) -> 0 \(\d+ times\)$")
        self.assertLess(len(calls), 10)
        self.assertIn("event_create(0, 0) -> event 1", calls)

    def test_wild_count(self):
        report = self.run_bad("wild_count")
        self.assertIn("4294967295 devices",
                      report.tests["load.opens"]["messages"][0])

    def test_wild_properties(self):
        """Text without an end, sizes of 2^64 - 1: no reason to crash."""
        report = self.run_bad("wild_props", *EVENTS, expect=SUCCESS)
        self.assertTrue(all(len(d) < 200 for d in report.json["devices"]))

    def test_much_and_broken_text(self):
        report = self.check_all("writes_much", "event creation: INTERNAL: bytes")
        for test in report.failures():
            self.assertIn("line 0 ", test["log"])
            self.assertIn("bytes more]", test["log"])
            self.assertIn("line 99999 ", test["log"])
            self.assertLess(len(test["log"]), 20000)
        self.assertNotIn("\x1b", report.text)

    def test_no_devices(self):
        report = self.run_bad("no_devices", expect=NOTHING_RAN)
        self.assertIn("NOTHING RAN", report.text)
        self.assertIn("the backend has no device", report.text)


class NotWrittenYet(SuiteTest):
    """A slot that answers UNIMPLEMENTED is told once, not by each test that
    met it."""

    def test_one_slot(self):
        report = self.run_bad("lacks_mem_info", "--groups=memory,event")
        failed = report.failures()
        self.assertGreater(len(failed), 3)
        self.assertTrue(report.text.startswith("Conformance statement: FAILED"))
        self.assertEqual(report.json["unwritten"],
                         [{"slot": "mem_info",
                           "answer": "not yet, see memory.c"}])
        self.assertNotIn("mem_info", report.json["never_called"])
        self.assertRegex(
            report.text, rf"(?m)^  mem_info +{len(failed)} +{len(failed)} "
            r"+not yet, see memory\.c$")
        for test in failed:
            self.assertEqual(test["unwritten"], ["mem_info"])
            self.assertIn(test["name"], report.text)
            self.assertEqual(
                test["messages"][-1], "mem_info answered UNIMPLEMENTED: the "
                "test says nothing of the rest")

    def test_what_is_not_promised_is_named(self):
        report = self.run_cts(plugin("good"), "--groups=event,peer")
        reasons = {m for t in report.tests.values() for m in t["messages"]
                   if t["outcome"] == "unsupported"}
        self.assertLessEqual(
            {"not promised: EVENT_TIMING", "not promised: PEER_ACCESS"}, reasons)
        self.assertFalse([reason for reason in reasons if "0x" in reason])

    def test_a_missing_extension_is_unsupported(self):
        """Whichever extension is missing."""
        names = {"memory.virtual_wrong_calls": "virtual_memory",
                 "extension.elementwise_fill": "elementwise",
                 "extension.reduce_operations": "reduce",
                 "collectives.every_operation": "collectives"}
        report = self.run_cts(plugin("good"), "--items=" + ",".join(names),
                              expect=NOTHING_RAN)
        for name, extension in names.items():
            self.assertEqual(report.outcome(name), "unsupported")
            self.assertEqual(report.tests[name]["messages"],
                             [f"there is no devrt.{extension}/0"])

    def test_a_probe_without_faults(self):
        """Tests that cause faults are unsupported, and call no NULL."""
        report = self.run_cts(plugin("probe_lacks_fault"),
                              "--groups=error")
        reasons = [t["messages"] for t in report.tests.values()
                   if t["outcome"] == "unsupported"]
        self.assertGreater(reasons.count(["devrt.probe/0 has no fault"]), 20)

    def test_other_failures_are_told_as_ever(self):
        """Also where a slot may answer UNIMPLEMENTED: foreign streams."""
        report = self.run_bad("null_handles", "--groups=event,identity")
        self.assertEqual(report.json["unwritten"], [])
        for test in report.failures():
            self.assertIn(f"FAILED  {test['name']}", report.text)
        self.assertNotIn("Not written yet", report.text)


class OpenAndExit(SuiteTest):

    def check_not_opened(self, name, how, *texts, flags=(), expect=FAILURE):
        report = self.run_bad(name, QUICK, *flags, expect=expect)
        opens = report.tests["load.opens"]
        self.assertEqual(opens["outcome"], "failed")
        self.assertEqual(opens["how"], how)
        for text in texts:
            self.assertIn(text, opens["messages"][0])
            self.assertIn(text, " ".join(report.text.split()))
        self.assertEqual(report.names("not_run"),
                         set(report.tests) - {"load.opens"})
        self.assertEqual(report.text.count("FAILED  load.opens"), 1)
        self.check_not_run_text(report)
        return opens

    def check_not_run_text(self, report):
        """Few tests by their names, many as a count."""
        names = report.names("not_run")
        text = report.text.partition("\nNot run\n")[2]
        told = set(re.findall(r"\w+\.\w+", text)) & names
        many = len(names) > 50
        self.assertTrue(told == (set() if many else names), text[:500])
        self.assertEqual(f"{len(names)} tests, named by" in text, many)

    def test_crash_in_open(self):
        test = self.check_not_opened("crashes_in_open", "crash",
                                     "signal 11 (Segmentation fault)")
        self.assertIn("about to crash", test["log"])
        self.check_not_opened("opens_abort", "crash", "signal 6 (Aborted)")

    def test_a_probe_that_lacks_a_function(self):
        """It may lack faults, and nothing else."""
        self.check_not_opened("probe_lacks_flag_wait", "check",
                              "the table of devrt.probe/0 has NULL for flag_wait")

    def test_whatever_was_chosen(self):
        self.check_not_opened("crashes_in_open", "crash", flags=EVENTS)

    def test_exit_in_open(self):
        self.check_not_opened("opens_exit", "exit", "exit code 3")

    def test_hang_in_open(self):
        self.check_not_opened("hangs_in_open", "hang",
                              "opening it took more than 2 s")

    def test_refused_files(self):
        for name, text in [
                ("not_elf", "not an ELF file"),
                ("foreign_major", "FAILED_PRECONDITION"),
                ("missing_required", "alloc"),
                ("third_symbol", "acme_debug"),
        ]:
            with self.subTest(name):
                self.check_not_opened(name, "check", text)

    def test_hardware_that_is_not_here(self):
        report = self.run_bad("open_fails", expect=NOTHING_RAN)
        self.assertEqual(report.outcome("load.opens"), "skipped")
        self.assertIn("UNAVAILABLE", report.text)
        self.assertIn("NOTHING RAN", report.text)

    def test_crash_at_exit(self):
        for chosen in [["--groups=event,load"], EVENTS]:
            report = self.run_bad("crashes_at_exit", *chosen)
            self.assertEqual(report.names("failed"), {"load.process_ends_well"})
            test = report.tests["load.process_ends_well"]
            self.assertEqual(test["how"], "crash")
            self.assertIn("signal 11", test["messages"][0])
            self.assertIn("about to crash", test["log"])
            self.assertIn("FAILED  load.process_ends_well by crash",
                          report.text)

    def test_hang_at_exit(self):
        pids = self.folder / "pids"
        report = self.run_bad("hangs_at_exit", *EVENTS, QUICK,
                              DEVRT_TEST_PID=str(pids))
        test = report.tests["load.process_ends_well"]
        self.assertEqual(test["how"], "hang")
        self.assertIn("did not end within 2 s", test["messages"][0])
        for pid in pids.read_text().split():
            self.wait_for_end_of(pid)

    def test_good_plugins_end_well(self):
        report = self.run_cts(plugin("good"), *EVENTS)
        self.assertEqual(report.names("failed"), set())


if __name__ == "__main__":
    main_at_once()
