# SPDX-License-Identifier: Apache-2.0
"""--xfail and --verify-xfail: what a backend declares not to keep."""

import unittest

from suite import (EVENTS, FAILURE, ITEM, MTIA, NOTHING_RAN, SUCCESS, SuiteTest,
                   plugin)


class Files(SuiteTest):

    def check_wrong(self, content, *texts):
        (self.folder / "waivers").write_bytes(content)
        self.assert_wrong_usage(
            ["cts", f"--plugin={MTIA}", "--xfail=waivers"], *texts)

    def test_unknown_names(self):
        self.check_wrong(b"# fine\n\n  C9999 unsupported nothing\n",
                         'waivers:3:3: no test shows "C9999"')
        self.check_wrong(b"event.no_such_test unsupported nothing\n",
                         'waivers:1:1: no test shows "event.no_such_test"')

    def test_item_that_no_test_has_first(self):
        """Such a waiver would cover nothing, and say so to nobody."""
        tests = self.run_json("cts", "--list")["tests"]
        first = {t["items"][0] for t in tests
                 if t["items"] and t["group"] != "random"}
        later = {item for t in tests for item in t["items"]} - first
        # Each item of the table can be waived as a whole.
        self.assertEqual([item for item in later if item[0] == "C"], [])
        for item in later:
            self.check_wrong(f"{item} unsupported nothing\n".encode(),
                             f"waivers:1:1: no test has {item} as its first "
                             "item; waive the tests that fail by their names")

    def test_duplicate_line_is_refused(self):
        self.check_wrong(b"%s unsupported a\n%s expected_failure b\n" %
                         ((ITEM.encode(),) * 2),
                         f"waivers:2:1: {ITEM} stands in line 1 already")

    def test_wrong_syntax_is_refused_with_its_place(self):
        item = ITEM.encode()
        self.check_wrong(item + b"  xfail why\n",
                         f"waivers:1:{len(ITEM) + 3}: expected unsupported or "
                         f'expected_failure after {ITEM}, not "xfail"')
        self.check_wrong(item + b"\n", f"waivers:1:{len(ITEM) + 1}: expected")
        self.check_wrong(b"\r\n" + item + b" unsupported \r\n",
                         f"waivers:2:{len(ITEM) + 15}: a reason is missing")
        self.check_wrong(b"\x00\xff\x1b[31m", "waivers:1:1: no test shows")

    def test_not_everything_can_be_waived(self):
        self.check_wrong(b"load.opens expected_failure later\n",
                         "waivers:1:1: load.opens cannot be waived")

    def test_unreadable_file_is_named(self):
        for path, reason in [("no/such", "No such file or directory"),
                             (".", "Is a directory")]:
            self.assert_wrong_usage(
                ["cts", f"--plugin={MTIA}", f"--xfail={path}"],
                f'cannot read "{path}": {reason}')


class Runs(SuiteTest):

    def of_item(self, is_first):
        """Tests of events with ITEM as their first item, or as a later one."""
        return [t["name"] for t in self.run_json("cts", "--list")["tests"]
                if t["group"] == "event" and ITEM in t["items"]
                and (t["items"][0] == ITEM) == is_first]

    def first_ones(self):
        """Flags that choose what a waiver of ITEM covers."""
        return ["--groups=event",
                "--items=" + ",".join(self.of_item(True))]

    def run_waived(self, name, text, *flags, expect=SUCCESS):
        (self.folder / "waivers").write_text(text)
        path = MTIA if name == "mtia" else plugin(name)
        return self.run_cts(path, f"--xfail={self.folder}/waivers", *flags,
                            expect=expect)

    def test_expected_failure(self):
        report = self.run_waived(
            "null_handles",
            f"{ITEM} expected_failure no events yet -- https://acme.test/1\n",
            *self.first_ones())
        self.assertEqual(report.names("expected_failure"), report.ran())
        self.assertTrue(report.ran())
        self.assertNotIn("FAILED", report.text.replace("PASSED  FAILED", ""))
        self.assertIn(f"{ITEM}, expected failure: no events yet, "
                      "https://acme.test/1", " ".join(report.text.split()))
        self.assertEqual(report.json["waivers"], [
            {"what": ITEM, "kind": "expected_failure",
             "reason": "no events yet", "reference": "https://acme.test/1"}])

    def test_expected_crash(self):
        report = self.run_waived("crashes_in_call",
                                 f"{ITEM} expected_failure crashes\n",
                                 *self.first_ones())
        self.assertEqual({report.tests[name]["how"] for name in report.ran()},
                         {"crash"})

    def test_unexpected_pass(self):
        waived = f"{ITEM} expected_failure it seems\n"
        report = self.run_waived("mtia", waived, *self.first_ones())
        passed = report.names("unexpected_pass")
        self.assertEqual(passed, report.ran())
        self.assertTrue(passed)
        self.assertIn("passed unexpectedly: line 1 of the waivers",
                      report.text)
        report = self.run_waived("mtia", waived, *self.first_ones(),
                                 "--verify-xfail", expect=FAILURE)
        self.assertEqual(report.names("unexpected_pass"), passed)
        self.assertIn("Conformance statement: FAILED", report.text)

    def test_unsupported_item_is_not_run(self):
        """Its tests do not even run, or they would crash."""
        report = self.run_waived("crashes_in_call",
                                 f"{ITEM} unsupported never\n",
                                 *self.first_ones(), "--verify-xfail",
                                 expect=NOTHING_RAN)
        self.assertEqual(report.names("unsupported"),
                         set(self.of_item(True)))
        self.assertIn("unsupported: waived: never", report.text)

    def test_tests_that_have_the_item_later(self):
        """They are about another one, and run."""
        later = self.of_item(False)
        self.assertTrue(later)
        report = self.run_waived("mtia", f"{ITEM} unsupported never\n", *EVENTS)
        self.assertEqual(report.names("unsupported"),
                         set(self.of_item(True)))
        self.assertEqual(report.names("passed"), set(later))
        report = self.run_waived("mtia", f"{ITEM} expected_failure so far\n",
                                 *EVENTS)
        self.assertEqual(report.names("unexpected_pass"),
                         set(self.of_item(True)))
        self.assertEqual(report.names("passed"), set(later))

    def test_random_programs(self):
        """By their names only: a program mixes many items."""
        (item, *_), name = next(
            (t["items"], t["name"])
            for t in self.run_json("cts", "--list")["tests"]
            if t["group"] == "random")
        flags = [f"--items={name}", "--programs=2"]
        report = self.run_waived("mtia", f"{item} unsupported never\n", *flags)
        self.assertEqual(report.names("passed"), {name})
        report = self.run_waived("mtia", f"{name} unsupported never\n", *flags,
                                 expect=NOTHING_RAN)
        self.assertEqual(report.names("unsupported"), {name})

    def test_one_test(self):
        """The other ones of its item are not waived."""
        tests = self.run_json("cts", "--list")["tests"]
        group = [t["name"] for t in tests if t["group"] == "event"]
        plain = self.run_waived("mtia", "", "--groups=event")
        report = self.run_waived("mtia", f"{group[0]} unsupported never\n",
                                 "--groups=event")
        self.assertEqual(report.names("unsupported"),
                         plain.names("unsupported") | {group[0]})
        self.assertIn(group[1], report.names("passed", "skipped"))

    def test_the_end_of_a_process(self):
        report = self.run_waived(
            "crashes_at_exit",
            "load.process_ends_well expected_failure driver 12 -- \n",
            "--groups=event,load", "--items=load.process_ends_well," + ITEM)
        self.assertEqual(report.outcome("load.process_ends_well"),
                         "expected_failure")


if __name__ == "__main__":
    unittest.main()
