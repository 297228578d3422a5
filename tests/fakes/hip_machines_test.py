# SPDX-License-Identifier: Apache-2.0
"""Output for a user on machines with a missing or broken HIP.

The plugin for HIP over the fake runtime: none, one of an unknown version, one
that lacks functions, no device.  Whatever it is, the other backends work on.
"""

import os
import pathlib
import signal
import unittest

from machines import CRASHES, HANGS, MachineTest, entries, hidden

FAKE = pathlib.Path(os.environ["DEVRT_FAKE_HIP_FOLDER"])
# Of the fake driver for CUDA, where there is one.
OTHERS = os.environ.get("DEVRT_FAKE_DRIVER", "")
PROGRAM = os.environ.get("DEVRT_THREE_BACKENDS")
LOST_PROGRAM = os.environ["DEVRT_LOST_PROGRAM"]
LIBRARY = FAKE / "libamdhip64.so.7"
MAJORS = [7, 6, 5]
ENTRIES = entries("backends/hip/entries.inc", "DEVRT_HIP_ENTRY")


class HipMachines(MachineTest):

    def variables(self, folder, switches, **others):
        path = ":".join(str(f) for f in (folder, OTHERS) if f)
        return {"LD_LIBRARY_PATH": path, "DEVRT_FAKE_HIP": switches, **others}

    def list(self, switches, usable=True, folder=FAKE, **others):
        """The entry of hip in `devrt list`, and all the text.

        All the other backends are usable in every case.
        """
        variables = self.variables(folder, switches, **others)
        text = self.run_tool("list", **variables)
        report = self.run_json("list", **variables)
        backends = {b["name"]: b for b in report["backends"]}
        self.assertEqual(backends["hip"]["usable"], usable, backends["hip"])
        self.assertTrue(backends["mtia"]["usable"])
        if OTHERS:
            self.assertTrue(backends["cuda"]["usable"])
        if PROGRAM:
            self.check_others(usable, variables)
        return backends["hip"], " ".join(text.stdout.split())

    def check_others(self, usable, variables):
        """They work in a process that has also tried hip."""
        result = self.run_program([PROGRAM], **variables)
        self.assertIn("mtia:1", result.stdout)
        if OTHERS:
            self.assertIn("cuda:1", result.stdout)
        self.assertEqual("without hip" not in result.stdout, usable,
                         result.stdout)

    def assert_refused(self, switches, *texts, **options):
        hip, text = self.list(switches, usable=False, **options)
        for part in texts:
            self.assertIn(part, hip["error"]["message"])
            self.assertIn(part, text)

    def library_as(self, name, change=None):
        """A folder with the fake as `name`, its bytes changed."""
        folder = self.folder / "library"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        if change is None:
            (folder / name).symlink_to(LIBRARY)
        else:
            (folder / name).write_bytes(change(LIBRARY.read_bytes()))
        return folder

    def library_without(self, *functions):
        # Under another name nobody finds it.
        def rename(data):
            for function in functions:
                old = b"\0" + function.encode() + b"\0"
                self.assertIn(old, data)
                data = data.replace(old, old.upper())
            return data
        return self.library_as(LIBRARY.name, rename)

    def test_a_working_machine(self):
        hip, text = self.list("")
        self.assertEqual(hip["device_count"], 2)
        self.assertIn("hip:1 fake HIP device", text)

    def test_every_known_version_works(self):
        for major in MAJORS:
            with self.subTest(major=major):
                folder = self.library_as(f"libamdhip64.so.{major}")
                hip, _ = self.list(f"version={major}0000000", folder=folder)
                self.assertEqual(hip["device_count"], 2)

    def test_unknown_version(self):
        for version in [40300000, 80000000]:
            self.assert_refused(f"version={version}",
                                f"is HIP {version // 10000000}.")

    def test_library_of_an_unknown_major(self):
        folder = self.library_as("libamdhip64.so.8")
        known = [f"libamdhip64.so.{major}" for major in MAJORS]
        self.assert_refused("", "there is no HIP runtime", folder=folder,
                            **hidden(*known))

    def test_no_library(self):
        known = [f"libamdhip64.so.{major}" for major in MAJORS]
        self.assert_refused("", "there is no HIP runtime", "libamdhip64.so.",
                            folder=None, **hidden(*known))

    def test_library_that_is_none(self):
        folder = self.folder / "library"
        folder.mkdir()
        for major in MAJORS:
            (folder / f"libamdhip64.so.{major}").write_text("no library")
        self.assert_refused("", "there is no HIP runtime", "libamdhip64.so.",
                            folder=folder)

    def test_library_without_an_entry_point(self):
        for name, needed_by in ENTRIES:
            with self.subTest(name=name):
                folder = self.library_without(name)
                if needed_by == "kAlways":
                    self.assert_refused("", f"has no {name}", folder=folder)
                    continue
                hip, _ = self.list("", folder=folder)
                self.assertEqual(hip["device_count"], 2)
                capability = needed_by.replace("DEVRT_CAP_", "").lower()
                self.assertNotIn(capability, hip["capabilities"])

    def test_library_with_required_functions_only(self):
        """No call goes to a function that is not there."""
        folder = self.library_without(*(
            name for name, needed_by in ENTRIES if needed_by != "kAlways"))
        hip, _ = self.list("", folder=folder)
        self.assertEqual(hip["capabilities"], [])
        self.run_tool("cts", "--plugin=" + hip["path"], "--programs=200",
                      DEVRT_MTIA="mode=threaded", ASAN_OPTIONS="detect_leaks=0",
                      **self.variables(folder, ""))

    def test_number_of_devices(self):
        self.assertEqual(self.list("devices=3")[0]["device_count"], 3)

    def test_visible_devices(self):
        for variables, count in [
                ({"HIP_VISIBLE_DEVICES": "2,0"}, 2),
                ({"HIP_VISIBLE_DEVICES": ""}, 3),  # as if it were not set
                ({"HIP_VISIBLE_DEVICES": "0,nonsense,1"}, 1),
                ({"ROCR_VISIBLE_DEVICES": "0,1"}, 2),
                ({"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "1"},
                 1)]:
            with self.subTest(**variables):
                hip, _ = self.list("devices=3", **variables)
                self.assertEqual(hip["device_count"], count)

    def test_no_visible_device(self):
        for variables in [{"ROCR_VISIBLE_DEVICES": ""},
                          {"ROCR_VISIBLE_DEVICES": "9"},
                          {"HIP_VISIBLE_DEVICES": "9"},
                          {"HIP_VISIBLE_DEVICES": "-1"},
                          {"HIP_VISIBLE_DEVICES": "nonsense"},
                          {"ROCR_VISIBLE_DEVICES": "0",
                           "HIP_VISIBLE_DEVICES": "1"}]:
            with self.subTest(**variables):
                self.assert_refused("", "finds no device", **variables)

    def test_no_device(self):
        self.assert_refused("no_device", "finds no device")

    def test_runtime_that_does_not_start(self):
        for code, name in [(3, "NotInitialized"), (719, "LaunchFailure"),
                           (999, "Unknown")]:
            self.assert_refused(f"init={code}", f"hipError{name}")


    def test_runtime_that_never_comes_back(self):
        variables = self.variables(FAKE, "init=hang")
        self.check_left_out({"hip": HANGS}, variables)
        # A program that names the other backends does not wait for HIP.
        if PROGRAM:
            others = ["mtia", "cuda"] if OTHERS else ["mtia"]
            self.run_program([PROGRAM, *others], **variables)

    def test_runtime_that_crashes(self):
        self.check_left_out({"hip": CRASHES},
                            self.variables(FAKE, "init=crash"))

    @unittest.skipUnless(OTHERS, "there is no backend for CUDA")
    def test_everything_is_broken(self):
        self.check_left_out(
            {"cuda": CRASHES, "hip": HANGS},
            self.variables(FAKE, "init=hang", DEVRT_FAKE_CUDA="init=crash"))


class LostDevice(MachineTest):

    def run_lost(self, *arguments, switches="", **others):
        """Its lines: first, later, free."""
        result = self.run_program(
            [LOST_PROGRAM, "hip:0", *arguments], expect=None,
            LD_LIBRARY_PATH=str(FAKE), DEVRT_FAKE_HIP=switches, **others)
        lines = dict(line.split(": ", 1) for line in result.stdout.splitlines())
        return result, lines

    def test_nothing_is_lost(self):
        result, lines = self.run_lost()
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual(lines, {"first": "OK", "later": "OK", "free": "OK"})

    def test_error_of_one_call(self):
        _, lines = self.run_lost(switches="fail=hipMemsetAsync@3:2")
        self.assertIn("RESOURCE_EXHAUSTED", lines["first"])
        self.assertIn("hipErrorOutOfMemory", lines["first"])
        self.assertEqual(lines["later"], "OK")
        self.assertEqual(lines["free"], "OK")

    def test_lost_device_is_quarantined(self):
        for code, name, status in [(719, "LaunchFailure", "INTERNAL"),
                                   (999, "Unknown", "UNKNOWN")]:
            result, lines = self.run_lost(
                switches=f"lost=hipMemsetAsync@3:{code}")
            self.assertEqual(result.returncode, 1, result)
            for line in ["first", "later"]:
                self.assertIn(status, lines[line])
                self.assertIn(f"hipError{name}", lines[line])
            self.assertIn("quarantine", lines["later"])
            self.assertEqual(lines["free"], "OK")

    def test_fault_that_is_reported(self):
        result, lines = self.run_lost("fault")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("INTERNAL", lines["first"])
        self.assertIn("quarantine", lines["later"])
        self.assertEqual(lines["free"], "OK")

    def test_fault_that_ends_the_process(self):
        """fault_delivery=abort is what the backend declares."""
        info = self.run_json("info", "hip:0", LD_LIBRARY_PATH=str(FAKE))
        self.assertEqual(info["devices"][0]["fault_delivery"], 1)
        result, _ = self.run_lost("fault", DEVRT_MTIA="fault_delivery=abort")
        self.assertEqual(result.returncode, -signal.SIGABRT, result)
        self.assertIn("fault_delivery=abort: kernel", result.stderr)
        # The next process knows nothing of it.
        self.assertEqual(self.run_lost()[0].returncode, 0)


if __name__ == "__main__":
    unittest.main()
