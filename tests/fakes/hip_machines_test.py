# SPDX-License-Identifier: Apache-2.0
"""What a user sees of machines whose HIP is not as it should be.

The plugin for HIP over the fake runtime: none, one of an unknown version, one
that lacks functions, no device.  Whatever it is, the other backends work on.
"""

import ctypes
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from tool import ROOT, ToolTest  # noqa: E402

FAKE = pathlib.Path(os.environ["DEVRT_FAKE_HIP_FOLDER"])
# Of the fake driver for CUDA, where there is one.
OTHERS = os.environ.get("DEVRT_FAKE_DRIVER", "")
PROGRAM = os.environ.get("DEVRT_THREE_BACKENDS")
LIBRARY = FAKE / "libamdhip64.so.6"
MAJORS = [7, 6, 5]


def has_real():
    for major in MAJORS:
        try:
            ctypes.CDLL(f"libamdhip64.so.{major}")
        except OSError:
            continue
        return True
    return False


def entries():
    """(name, whether there is no backend without it) of all of HIP's."""
    text = (ROOT / "backends/hip/entries.inc").read_text(encoding="utf-8")
    found = re.findall(r"^DEVRT_HIP_ENTRY\((\w+), (\w+)\)", text, re.MULTILINE)
    return [(name, needed_by == "kAlways") for name, needed_by in found]


class HipMachines(ToolTest):

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

    def library_without(self, function):
        # Under another name nobody finds it.
        old = b"\0" + function.encode() + b"\0"
        new = b"\0" + function.upper().encode() + b"\0"

        def rename(data):
            self.assertIn(old, data)
            return data.replace(old, new)
        return self.library_as(LIBRARY.name, rename)

    def test_as_it_should_be(self):
        hip, text = self.list("")
        self.assertEqual(hip["device_count"], 2)
        self.assertIn("hip:1 fake HIP device", text)

    def test_versions(self):
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
        self.list("", usable=False, folder=folder)

    @unittest.skipIf(has_real(), "there is a runtime")
    def test_no_library(self):
        self.assert_refused("", "there is no HIP runtime", folder=None)

    def test_library_that_is_none(self):
        folder = self.folder / "library"
        folder.mkdir()
        for major in MAJORS:
            (folder / f"libamdhip64.so.{major}").write_text("no library")
        self.assert_refused("", "there is no HIP runtime", "libamdhip64.so.",
                            folder=folder)

    def test_library_without_an_entry_point(self):
        for name, is_needed in entries():
            with self.subTest(name=name):
                folder = self.library_without(name)
                if is_needed:
                    self.assert_refused("", f"has no {name}", folder=folder)
                else:
                    hip, _ = self.list("", folder=folder)
                    self.assertEqual(hip["device_count"], 2)

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


if __name__ == "__main__":
    unittest.main()
