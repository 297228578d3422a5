# SPDX-License-Identifier: Apache-2.0
"""Pages followed to the letter with an installed tree: docs/how-to/layers.md and the tutorials
in C++, the sixth in the folder that the fifth leaves. Then the program of the first tutorial
on the backend that comes of it."""

import json
import shlex
import sys
import unittest

from tree import InstallTest, ROOT

sys.path.insert(0, str(ROOT / "tests/docs"))
import follow_page  # noqa: E402


class FollowedPages(InstallTest):

    def follow(self, *names):
        """Follows installed pages in one folder, and returns the folder."""
        folder = self.tree.path("DATADIR") / "doc/devrt"
        return self.follow_files(*[folder / name for name in names])

    def follow_files(self, *pages):
        if not (self.tree.path("LIBDIR") / "libdevrt.so").exists():
            # Its programs would be told where backends and layers are.
            self.skipTest("the page counts on the shared library")
        work = self.folder / pages[-1].name
        work.mkdir()
        for page in pages:
            # The files and commands of the page give no compiler warning.
            follow_page.follow(page, work, self.tree.environment(
                CFLAGS="-Werror -g0", CXXFLAGS="-Werror -g0"))
        return work

    def test_page_of_layers_can_be_followed(self):
        self.follow("layers.md")

    def test_first_program_can_be_followed(self):
        self.follow_files(ROOT / "docs/tutorials/0-first-program.md")

    def test_writing_a_backend_then_a_program(self):
        work = self.follow("5-write-a-backend.md", "6-finish-a-backend.md")

        report = json.loads(self.run_command("devrt", "list", "--json"))
        backends = {b["name"]: b for b in report["backends"]}
        # Installing a backend changes nobody's default device.
        names = [b["name"] for b in report["backends"]]
        self.assertLess(names.index("mtia"), names.index("acme"))
        self.assertNotEqual(report["default_device"], "acme:0")
        # Those of the installation are there as well, cuda among them where a
        # toolkit was.
        self.assertLessEqual({"acme", "mtia"}, set(backends))
        self.assertEqual(backends["acme"]["capabilities"], ["event_timing"])
        self.assertEqual(backends["acme"]["path"],
                         str(self.tree.plugins / "libdevrt_acme.so"))

        self.write_first_program(work / "main.cc", device="acme:0")
        libraries = self.pkg_config("--variable=libdir")[0]
        self.run_command(
            *shlex.split(self.tree.environment()["CXX"]), "-std=c++17",
            "main.cc", "-o", "program", *self.pkg_config("--cflags", "--libs"),
            f"-Wl,-rpath,{libraries}", folder=work)
        self.assertEqual(self.run_command(work / "program"),
                         "acme:0 holds 42\n")


if __name__ == "__main__":
    unittest.main()
