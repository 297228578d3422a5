# SPDX-License-Identifier: Apache-2.0
"""The data that pages show are what their readers in devrt take: snapshots of memory,
files of waivers and the metadata of Python packages."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import blocks  # noqa: E402

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None

GROUP = re.compile(r'^_GROUP = "(.*)"$', re.M)


class DataBlocksTest(unittest.TestCase):

    def blocks_of(self, language, least):
        found = [block for block in blocks.all_blocks() if block.language == language]
        self.assertGreaterEqual(len(found), least)
        return found

    def devrt(self, text, *words):
        """The exit code and the output of the command with the text in the file FILE."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "file"
            path.write_text(text, encoding="utf-8")
            done = subprocess.run(
                [os.environ["DEVRT_TOOL"],
                 *[word.replace("FILE", str(path)) for word in words]],
                text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def test_toml_names_the_group_of_entry_points(self):
        if tomllib is None:
            self.skipTest("needs Python 3.11 or later")
        backends = (blocks.ROOT / "python/devrt/_backends.py").read_text(encoding="utf-8")
        (group,) = GROUP.findall(backends)
        for block in self.blocks_of("toml", 2):
            with self.subTest(block.place):
                points = tomllib.loads(block.text)["project"]["entry-points"][group]
                self.assertEqual(points, {"acme": "devrt_acme:plugin_path"})

    def test_json_is_a_snapshot(self):
        for block in self.blocks_of("json", 1):
            with self.subTest(block.place):
                code, said = self.devrt(block.text, "memory", "FILE")
                self.assertEqual(code, 0, said)
                damaged = json.loads(block.text)
                damaged["segments"][0]["size"] = "no size"
                code, said = self.devrt(json.dumps(damaged), "memory", "FILE")
                self.assertEqual(code, 1, said)

    def test_waivers_are_read(self):
        found = [block for block in blocks.all_blocks() if blocks.is_waivers(block)]
        self.assertGreaterEqual(len(found), 2)
        words = ["cts", f"--plugin={os.environ['DEVRT_MTIA_PLUGIN']}", "--xfail=FILE",
                 "--items=load.opens"]
        for block in found:
            with self.subTest(block.place):
                code, said = self.devrt(block.text, *words)
                self.assertEqual(code, 0, said)
        self.assertEqual(self.devrt("C38 no_such_kind reason\n", *words)[0], 2)


if __name__ == "__main__":
    unittest.main()
