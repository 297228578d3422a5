# SPDX-License-Identifier: Apache-2.0
"""AMD's own libamdhip64 on a machine without a GPU of AMD's."""

import ctypes
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from tool import ToolTest  # noqa: E402


def has_real():
    for major in (7, 6, 5):
        try:
            ctypes.CDLL(f"libamdhip64.so.{major}")
        except OSError:
            continue
        return True
    return False


class RealRuntime(ToolTest):

    def list(self, **variables):
        """The entry of hip in `devrt list`, all the text, the other names."""
        text = self.run_tool("list", **variables)
        backends = self.run_json("list", **variables)["backends"]
        hip = next(b for b in backends if b["name"] == "hip")
        usable = {b["name"] for b in backends if b["usable"]}
        return hip, " ".join(text.stdout.split()), usable

    def test_no_device(self):
        for variables in ({}, {"HIP_VISIBLE_DEVICES": ""},
                          {"ROCR_VISIBLE_DEVICES": "nonsense"}):
            hip, text, usable = self.list(**variables)
            self.assertFalse(hip["usable"])
            for part in ("UNAVAILABLE", "the driver finds no device"):
                self.assertIn(part, str(hip["error"]))
                self.assertIn(part, text)
            self.assertIn("mtia", usable)


if __name__ == "__main__":
    if pathlib.Path("/dev/kfd").exists():
        print("skipped: this machine may have a GPU of AMD's")
        sys.exit(77)
    if not has_real():
        print("skipped: there is no libamdhip64")
        sys.exit(77)
    unittest.main()
