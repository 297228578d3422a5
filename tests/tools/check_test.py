# SPDX-License-Identifier: Apache-2.0
"""devrt check: what it prints and writes, and its exit codes."""

import json
import os
import re
import signal
import unittest
import xml.etree.ElementTree

from tool import FAILURE, ToolTest

# Does what its arguments say; check_program.cc has a list.
PROGRAM = os.environ["DEVRT_TEST_CHECK_PROGRAM"]
FINDINGS = 3
SVG = "{http://www.w3.org/2000/svg}"


class CheckTest(ToolTest):

    def check(self, *arguments, expect=0, flags=(), **variables):
        """Runs the program under devrt check."""
        return self.run_tool("check", *flags, "--", PROGRAM, *arguments,
                             expect=expect, **variables)

    def records(self, *arguments, expect=FINDINGS, **variables):
        """The lines of --json."""
        file = self.folder / "findings.jsonl"
        self.check(*arguments, expect=expect, flags=[f"--json={file}"],
                   **variables)
        lines = file.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def finding(self):
        found, = [record for record in self.records("once") if "id" in record]
        return found

    def lines(self, *marks):
        """The numbers of the program's lines with these comments."""
        with open(__file__.replace("check_test.py", "check_program.cc"),
                  encoding="utf-8") as file:
            text = file.read().splitlines()
        return [next(number for number, line in enumerate(text, 1)
                     if line.endswith(f"// the {mark}")) for mark in marks]


class Findings(CheckTest):

    def test_a_race(self):
        result = self.check("once", expect=FINDINGS)
        fill, copy = self.lines("fill", "copy")
        self.assertIn("devrt check: 1 finding\n", result.stderr)
        self.assertRegex(result.stderr, r"  race-[0-9a-f]{8} \[read-after-write\]\n")
        self.assertRegex(result.stderr, rf'earlier  write "fill" on stream \d+ of '
                                        rf"mtia:0 at .*check_program.cc:{fill}\n")
        self.assertRegex(result.stderr, rf'later    read "copy" on stream \d+ of '
                                        rf"mtia:0 at .*check_program.cc:{copy}\n")
        self.assertIn("to mend it: ", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_stacks(self):
        for variables in {}, {"DEVRT_RACE_STACKS": ""}:
            text = self.check("once", expect=FINDINGS, **variables).stderr
            self.assertRegex(text, r"\n    in .*\n    called by .*\n")
        finding = self.finding()
        for operation in ("earlier", "later"):
            stack = finding[operation]["stack"]
            self.assertEqual(stack[-1]["function"], "main")
            for frame in stack:
                self.assertLessEqual({"function", "file", "line"}, set(frame))
        for flags, variables in ((["--no-stacks"], {}),
                                 ([], {"DEVRT_RACE_STACKS": "off"})):
            text = self.check("once", expect=FINDINGS, flags=flags,
                              **variables).stderr
            self.assertNotIn("called by", text)
            self.assertIn(finding["id"], text)

    def test_the_mended_program(self):
        result = self.check("once", "mended")
        self.assertEqual(result.stderr, "devrt check: no findings\n")

    def test_kernels_that_declare_no_memory(self):
        line, = self.lines("launch")
        self.assertRegex(
            self.check("undeclared").stderr,
            r"devrt check: no findings\n  2 operations declared no memory, the first at "
            rf"\S*check_program.cc:{line}: what such work uses is not seen\n")

    def test_a_finding_is_printed_once_with_its_count(self):
        result = self.check("three_times", expect=FINDINGS)
        self.assertIn("devrt check: 1 finding\n", result.stderr)
        self.assertIn("[read-after-write], 3 times\n", result.stderr)

    def test_texts_that_the_log_leaves_out(self):
        for level in ("off", "error"):
            result = self.check("once", expect=FINDINGS, DEVRT_LOG=level)
            self.assertEqual(result.stderr.count("to mend it: "), 1)
            self.assertIn("nothing orders them", result.stderr)

    def test_throw(self):
        result = self.check("once", expect=99, flags=["--throw"])
        self.assertIn("FAILED_PRECONDITION", result.stderr)
        self.assertIn("devrt check: 1 finding\n", result.stderr)

    def test_processes_write_one_file(self):
        for _ in range(3):
            records = self.records("children")
            begun = [r for r in records if r.get("record") == "begin"]
            ended = [r for r in records if r.get("record") == "end"]
            self.assertEqual(len(begun), 4)
            self.assertEqual({r["pid"] for r in begun}, {r["pid"] for r in ended})
            self.assertEqual(len([r for r in records if "id" in r]), 4)
        result = self.check("children", expect=FINDINGS)
        self.assertIn("devrt check: 1 finding in 4 processes\n", result.stderr)
        self.assertIn("[read-after-write], 4 times\n", result.stderr)

    def test_programs_of_a_shell(self):
        script = f'"{PROGRAM}" once mended; cd /; "{PROGRAM}" once'
        file = self.folder / "f"
        result = self.run_tool("check", "--json=f", "--", "sh", "-c", script,
                               expect=FINDINGS)
        self.assertIn("1 finding in 2 processes", result.stderr)
        self.assertEqual(len(file.read_text(encoding="utf-8").splitlines()), 7)

    def test_other_layers_stay(self):
        result = self.check("once", expect=FINDINGS, DEVRT_LAYERS="trace",
                            DEVRT_TRACE=str(self.folder / "ring"))
        self.assertIn("1 finding\n", result.stderr)
        self.assertTrue((self.folder / "ring").exists())
        for layers in ("trace,validate", "validate", " validate , trace"):
            result = self.check("once", expect=FINDINGS, DEVRT_LAYERS=layers,
                                DEVRT_TRACE=str(self.folder / "ring2"),
                                DEVRT_RACE="off")
            self.assertIn("1 finding\n", result.stderr)


class ExitCodes(CheckTest):

    def test_code_of_findings(self):
        for code in (0, 9, 255):
            self.check("once", expect=code, flags=[f"--error-exitcode={code}"])
        self.check("once", "mended", flags=["--error-exitcode=9"])

    def test_code_of_the_program_wins(self):
        result = self.check("fail", expect=7)
        self.assertIn("1 finding\n", result.stderr)
        self.check("fail", "mended", expect=7)

    def test_a_signal(self):
        result = self.check("crash", expect=128 + signal.SIGKILL)
        self.assertIn("1 finding\n", result.stderr)
        self.assertIn("1 of 1 processes ended early", result.stderr)

    def test_nothing_was_checked(self):
        for program in ([PROGRAM, "nothing"], ["true"]):
            result = self.run_tool("check", "--", *program, expect=FAILURE)
            self.assertIn("nothing was checked: the program opened no devrt "
                          "backend", result.stderr)
        result = self.run_tool("check", "--", "sh", "-c", "exit 5", expect=5)
        self.assertIn("nothing was checked", result.stderr)

    def test_no_layer(self):
        result = self.check("once", expect=99, DEVRT_LAYERS="no_such_layer")
        self.assertIn("no_such_layer", result.stderr)
        self.assertIn("nothing was checked", result.stderr)

    def test_programs_that_cannot_be_run(self):
        script = self.folder / "script"
        script.write_text("", encoding="utf-8")
        other = self.folder / "other"
        other.write_text("#!/no/such/shell\n", encoding="utf-8")
        other.chmod(0o755)
        for program, code, *texts in [
                ("no-such-program", 127, "No such file", "in no folder of PATH"),
                ("/no/such/program", 127, "a file that exists"),
                (str(other), 127, "names an interpreter that does not exist"),
                (str(script), 126, "Permission denied", "chmod +x")]:
            result = self.run_tool("check", "--", program, expect=code)
            for text in ("devrt check: " + program, *texts):
                self.assertIn(text, result.stderr)

    def test_wrong_usage(self):
        self.assert_wrong_usage(["check"], "no program given")
        self.assert_wrong_usage(["check", "--error-exitcode=256", "true"],
                                "from 0 to 255")
        self.assert_wrong_usage(["check", "--host-order=none", "true"],
                                "--host-order is observed or exact, not")
        (self.folder / "known").write_text("# none\n", encoding="utf-8")
        for flags in (["--json=a", "--sarif=a"],
                      ["--json=./known", "--suppressions=known"],
                      ["--sarif=known", "--suppressions=known"]):
            self.assert_wrong_usage(["check", *flags, "true"],
                                    "name the same file")
        self.assertEqual((self.folder / "known").read_text(encoding="utf-8"),
                         "# none\n")

    def test_files_that_cannot_be_written(self):
        for flag in ("--json=/no/such/f", "--json=/dev/null", "--sarif=/no/f",
                     "--svg=/proc/no", "--suppressions=/no/such/file"):
            result = self.run_tool("check", flag, "--", "sh", "-c", "echo ran",
                                   expect=FAILURE)
            self.assertEqual(result.stdout, "", flag)
            self.assertIn(flag.split("=")[1], result.stderr)
        result = self.check("once", "mended", expect=FAILURE,
                            flags=["--sarif=/dev/full"])
        self.assertIn("/dev/full could not be written", result.stderr)

    def test_a_finding_that_could_not_be_written(self):
        result = self.check("full", expect=FAILURE)
        self.assertIn("cannot write the findings to", result.stderr)
        self.assertIn("1 line of the findings could not be read", result.stderr)


class Suppressions(CheckTest):

    def suppress(self, text, expect=0):
        (self.folder / "known").write_text(text, encoding="utf-8")
        return self.check("once", expect=expect, flags=["--suppressions=known"])

    def test_reasons_are_needed(self):
        finding = self.finding()
        result = self.suppress(f"id:{finding['id']} the reader guesses, BUG-1\n")
        self.assertEqual(result.stderr.splitlines()[-1],
                         "devrt check: no findings, 1 suppressed")
        result = self.suppress(f"id:{finding['id']}\n", expect=99)
        self.assertIn("a suppression needs a reason", result.stderr)

    def test_what_matched_nothing(self):
        result = self.suppress("site:*/other.cc:* gone?\n", expect=FINDINGS)
        self.assertIn("matched nothing: ", result.stderr)
        self.assertIn("site:*/other.cc:* gone?", result.stderr)


class Files(CheckTest):

    def test_json(self):
        first, backend, finding, last = self.records("once")
        self.assertEqual((first["record"], first["layer"], first["program"]),
                         ("begin", "validate", "check_program"))
        self.assertEqual((backend["record"], backend["name"]), ("backend", "mtia"))
        self.assertEqual(last["counts"], {finding["id"]: 1})
        miss, = finding["near_misses"]
        self.assertEqual(miss["kind"], "recorded-before")
        self.assertLess(miss["record"]["number"], finding["earlier"]["number"])
        self.assertLess(miss["wait"]["number"], finding["later"]["number"])

    def test_json_replaces_what_was_there(self):
        self.assertEqual(len(self.records("once")), 4)
        self.assertEqual(len(self.records("once")), 4)

    def sarif(self, *arguments, expect):
        file = self.folder / "f.sarif"
        self.check(*arguments, expect=expect, flags=[f"--sarif={file}"])
        log = json.loads(file.read_text(encoding="utf-8"))
        self.assertEqual(log["version"], "2.1.0")
        self.assertEqual(log["$schema"],
                         "https://json.schemastore.org/sarif-2.1.0.json")
        run, = log["runs"]
        return run

    def test_sarif(self):
        finding = self.finding()
        run = self.sarif("once", expect=FINDINGS)
        driver = run["tool"]["driver"]
        self.assertEqual(driver["name"], "devrt check")
        rule, = driver["rules"]
        self.assertEqual(rule["id"], "read-after-write")
        self.assertTrue(rule["shortDescription"]["text"])
        result, = run["results"]
        self.assertEqual(result["ruleId"], rule["id"])
        self.assertEqual(driver["rules"][result["ruleIndex"]], rule)
        self.assertEqual(result["level"], "error")
        self.assertIn('the read "copy"', result["message"]["text"])
        self.assertIn(finding["remedy"], result["message"]["text"])
        self.assertEqual(list(result["partialFingerprints"].values()),
                         [finding["id"]])
        self.assertEqual(
            [location["physicalLocation"]["region"]["startLine"]
             for location in result["locations"]], self.lines("copy", "fill"))
        for location in result["locations"] + result["relatedLocations"]:
            artifact = location["physicalLocation"]["artifactLocation"]
            self.assertRegex(artifact["uri"], r"check_program\.cc$")
            self.assertEqual(run["originalUriBaseIds"][artifact["uriBaseId"]],
                             {"uri": f"file://{self.folder}/"})
            self.assertTrue(location["message"]["text"])

    def test_sarif_stacks(self):
        finding = self.finding()
        result, = self.sarif("once", expect=FINDINGS)["results"]
        later, earlier = result["stacks"]
        self.assertIn('later: read "copy"', later["message"]["text"])
        self.assertIn('earlier: write "fill"', earlier["message"]["text"])
        known = finding["later"]["stack"]
        self.assertEqual(len(later["frames"]), len(known))
        for frame, place in zip(later["frames"], known):
            location = frame["location"]
            self.assertEqual(location["logicalLocations"][0]["fullyQualifiedName"],
                             place["function"])
            if place["file"]:
                self.assertEqual(location["physicalLocation"]["region"]["startLine"],
                                 place["line"])
            else:  # libdw is missing
                self.assertEqual(frame["module"], place["module"])

    def test_sarif_without_findings(self):
        run = self.sarif("once", "mended", expect=0)
        self.assertEqual(run["results"], [])
        self.assertEqual(run["tool"]["driver"]["rules"], [])
        self.assertTrue(run["invocations"][0]["executionSuccessful"])
        run = self.sarif("fail", "mended", expect=7)
        self.assertEqual(run["invocations"][0]["exitCode"], 7)

    def test_sarif_has_paths_of_the_checked_folder(self):
        """A path that the compiler noted from a build folder in it."""
        source = self.folder / "tests/tools/check_program.cc"
        source.parent.mkdir(parents=True)
        source.touch()
        uri = self.sarif("once", expect=FINDINGS)["results"][0]["locations"][0][
            "physicalLocation"]["artifactLocation"]["uri"]
        self.assertEqual(uri, "tests/tools/check_program.cc")

    def test_two_findings(self):
        self.check("both", "mended", flags=["--svg=pictures"])
        self.assertEqual(list((self.folder / "pictures").iterdir()), [])
        self.check("both", expect=FINDINGS, flags=["--svg=pictures"])
        ids = {path.stem for path in (self.folder / "pictures").iterdir()}
        run = self.sarif("both", expect=FINDINGS)
        self.assertEqual(ids, {list(result["partialFingerprints"].values())[0]
                               for result in run["results"]})
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        self.assertEqual(rules, ["read-after-write", "write-after-write"])
        self.assertEqual([rules[result["ruleIndex"]] for result in run["results"]],
                         [result["ruleId"] for result in run["results"]])

    def test_a_picture_has_a_lane_for_each_stream(self):
        self.check("both", expect=FINDINGS, flags=["--svg=pictures"])
        lanes = sorted(
            len(set(re.findall(r">(stream \d+)</text>",
                               path.read_text(encoding="utf-8"))))
            for path in (self.folder / "pictures").iterdir())
        self.assertEqual(lanes, [2, 3])

    def test_a_finding_that_no_wait_mends(self):
        self.check("other_device", "mended")
        run = self.sarif("other_device", expect=FINDINGS)
        result, = run["results"]
        self.assertEqual(result["ruleId"], "wrong-device")
        self.assertNotIn("nothing orders", result["message"]["text"])
        self.assertIn("To mend it: enable peer access", result["message"]["text"])
        self.assertEqual(result["relatedLocations"], [])
        self.check("other_device", expect=FINDINGS, flags=["--svg=pictures"])
        picture, = (self.folder / "pictures").iterdir()
        self.assertNotIn("missing wait", picture.read_text(encoding="utf-8"))

    def test_a_deadlock(self):
        self.check("deadlock", "mended")
        result = self.check("deadlock", expect=FINDINGS, flags=["--svg=pictures"])
        self.assertIn("[deadlock] a thread waits for what cannot go on", result.stderr)
        self.assertEqual(list((self.folder / "pictures").iterdir()), [])
        run = self.sarif("deadlock", expect=FINDINGS)
        found, = run["results"]
        self.assertEqual(found["ruleId"], "deadlock")
        places = found["locations"] + found["relatedLocations"]
        self.assertEqual(
            [place["physicalLocation"]["region"]["startLine"] for place in places],
            self.lines("wait", "held kernel"))
        wait, kernel = found["stacks"]
        self.assertIn("stream_sync", wait["message"]["text"])
        self.assertIn("kernel", kernel["message"]["text"])
        for stack in wait, kernel:
            function = stack["frames"][-1]["location"]["logicalLocations"][0]
            self.assertEqual(function["fullyQualifiedName"], "main")

    def test_a_leak(self):
        self.check("leak")
        self.check("leak", "mended", flags=["--leaks"])
        result = self.check("leak", expect=FINDINGS, flags=["--leaks"])
        self.assertIn("[leak] 1 block of mtia:0 with 4096 bytes is alive at the end",
                      result.stderr)
        line, = self.lines("leak")
        self.assertIn(f"check_program.cc:{line}", result.stderr)
        self.assertRegex(result.stderr, r"\n  made  .*\n    in .*"
                                        r"(\n    called by .*)*\bmain\b")

    def test_pictures(self):
        finding = self.finding()
        self.check("once", expect=FINDINGS, flags=["--svg=deep/pictures"])
        picture, = (self.folder / "deep/pictures").iterdir()
        self.assertEqual(picture.name, f"{finding['id']}.svg")
        root = xml.etree.ElementTree.parse(picture).getroot()
        words = [text.text for text in root.iter(f"{SVG}text")]
        for number in self.lines("fill", "copy"):
            self.assertIn(f"check_program.cc:{number}", words)
        for text in ("fill", "copy", "mtia:0", "missing wait",
                     "wait that does not help", "last common order"):
            self.assertIn(text, words)
        arrows = [path for path in root.iter(f"{SVG}path")
                  if path.get("marker-end") and path.find(f"{SVG}title") is not None]
        self.assertEqual(sorted(path.get("marker-end") for path in arrows),
                         ["url(#arrow)", "url(#faint)", "url(#missing)"])
        missing, = [path for path in arrows
                    if path.get("marker-end") == "url(#missing)"]
        self.assertEqual(missing.find(f"{SVG}title").text, finding["remedy"])


if __name__ == "__main__":
    unittest.main()
