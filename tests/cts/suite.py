# SPDX-License-Identifier: Apache-2.0
"""Runs `devrt cts` for the tests of this folder and reads what it reports."""

import collections
import json
import os
import pathlib
import select
import xml.etree.ElementTree

from tool import FAILURE, SUCCESS, ToolTest  # tests/tools, on PYTHONPATH

MTIA = os.environ["DEVRT_TEST_MTIA_PLUGIN"]
NOTHING_RAN = 77
# Some tests that make an event, on any backend.
ITEM = "C24"
EVENTS = ["--groups=event", f"--items={ITEM}"]

FOLDERS = [pathlib.Path(os.environ[name]) for name in
           ["DEVRT_TEST_CTS_PLUGIN_DIR", "DEVRT_TEST_PLUGIN_DIR"]]


def plugin(name):
    """A plugin of tests/cts/plugins or tests/abi/plugins."""
    return next(str(path) for path in
                (folder / f"libdevrt_{name}.so" for folder in FOLDERS)
                if path.exists())


class Report:
    """The reports of one run as text, JSON and JUnit, which must agree."""

    def __init__(self, test, text, json_path, junit_path):
        self.text = text
        self.json = json.loads(json_path.read_text(encoding="utf-8"))
        self.junit = xml.etree.ElementTree.parse(junit_path).getroot()
        self.tests = {t["name"]: t for t in self.json["tests"]}
        test.assertEqual(len(self.tests), len(self.json["tests"]))
        self.check_counts(test)
        self.check_junit(test)

    def check_counts(self, test):
        for group, counts in [("", self.json["counts"]),
                              *self.json["groups"].items()]:
            found = collections.Counter(
                t["outcome"] for t in self.tests.values()
                if group in ("", t["group"]))
            test.assertEqual({k: n for k, n in counts.items() if n}, found)

    def check_junit(self, test):
        cases = self.junit.findall("testsuite/testcase")
        test.assertEqual({c.get("name") for c in cases}, set(self.tests))
        failed = {c.get("name") for c in cases if c.find("failure") is not None}
        test.assertEqual(failed, {
            name for name, t in self.tests.items()
            if t["outcome"] == "failed" or (t["outcome"] == "unexpected_pass"
                                            and self.json["verify_waivers"])})
        for suite in self.junit.findall("testsuite"):
            of_suite = suite.findall("testcase")
            test.assertEqual(int(suite.get("tests")), len(of_suite))
            for attribute, tag in [("failures", "failure"),
                                   ("skipped", "skipped")]:
                test.assertEqual(
                    int(suite.get(attribute)),
                    sum(c.find(tag) is not None for c in of_suite))

    def outcome(self, name):
        return self.tests[name]["outcome"]

    def failures(self):
        return [t for t in self.json["tests"] if t["outcome"] == "failed"]

    def ran(self):
        """Names of the tests that this plugin has to pass."""
        return set(self.tests) - self.names("unsupported", "skipped", "not_run")

    def names(self, *outcomes):
        return {t["name"] for t in self.json["tests"]
                if t["outcome"] in outcomes}


class SuiteTest(ToolTest):

    def run_cts(self, path, *flags, expect=SUCCESS, **variables):
        """The report of a run; `path` is that of a plugin."""
        to = {form: self.folder / f"report.{form}" for form in
              ["json", "junit"]}
        for file in to.values():
            file.unlink(missing_ok=True)
        result = self.run_tool(
            "cts", f"--plugin={path}", *flags,
            *[f"--report={form}:{file}" for form, file in to.items()],
            expect=expect, **variables)
        self.assertEqual(result.stderr, "")
        return Report(self, result.stdout, to["json"], to["junit"])

    def run_bad(self, name, *flags, expect=FAILURE, **variables):
        return self.run_cts(plugin(name), *flags, expect=expect, **variables)

    def wait_for_end_of(self, pid):
        """Of a process that is no child of ours; a zombie has ended."""
        try:
            descriptor = os.pidfd_open(int(pid))
        except ProcessLookupError:
            return
        try:
            ready, _, _ = select.select([descriptor], [], [], 20)
            self.assertTrue(ready, f"process {pid} lives on")
        finally:
            os.close(descriptor)

    def first_event_tests(self):
        """Names of the tests of EVENTS."""
        listed = self.run_json("cts", "--list")["tests"]
        return [t["name"] for t in listed
                if t["group"] == "event" and ITEM in t["items"]]
