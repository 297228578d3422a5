# SPDX-License-Identifier: Apache-2.0
"""devrt new-backend: names, folders, and what is written.

That it compiles and loads is shown in tests/install.
"""

import re
import subprocess
import unittest

from tool import FAILURE, ROOT, TOOL, ToolTest


class NewBackend(ToolTest):

    def files(self, folder):
        return {path.name: path.read_text(encoding="utf-8")
                for path in (self.folder / folder).iterdir()}

    def test_writes_the_template_under_the_name(self):
        result = self.run_tool("new-backend", "acme_x1")
        self.assertIn(str(self.folder / "acme_x1"), result.stdout)
        files = self.files("acme_x1")
        template = {path.name for path in (ROOT / "backends/template").iterdir()
                    if path.is_file()}
        self.assertEqual(set(files), template)
        for name, text in files.items():
            self.assertNotRegex(text, r"(?i)mybackend|@", name)
        self.assertIn("#ifndef ACME_X1_BACKEND_H_", files["backend.h"])
        self.assertIn('"acme_x1"', files["plugin.cc"])

    def test_writes_c(self):
        self.run_tool("new-backend", "acme", "there", "--language=c")
        files = self.files("there")
        own = {path.name for path in (ROOT / "backends/template/c").iterdir()}
        self.assertEqual(set(files), own | {"plugin.map", "test.cc"})
        for name, text in files.items():
            self.assertNotRegex(text, r"(?i)mybackend|@", name)

    def test_each_slot_is_in_the_file_of_one_name_in_all_backends(self):
        backends = ROOT / "backends"
        slots = re.findall(r"(?m)^DEVRT_SLOT\((\w+)",
                           (backends / "abi/devrt_slots.inc").read_text())
        # The text at the beginning of a slot, for each pattern of files.  cuda and hip
        # are made of gpu.
        forms = {"mtia/table/*.cc": r"devrt_status Backend::(\w+)\(",
                 "gpu/*.h": r"devrt_status \w+<Api>::(\w+)\(",
                 "template/*.cc": r"devrt_status Backend::(\w+)\(",
                 "template/c/*.c": r"devrt_status mybackend_(\w+)\("}
        inline = {("context_" + name, "mtia/table/*.cc")
                  for name in ["enter", "exit", "current"]}
        optional = slots[slots.index("alloc_async"):]
        files = {slot: {} for slot in slots}
        for pattern, form in forms.items():
            for path in backends.glob(pattern):
                for name in re.findall("(?m)^" + form, path.read_text()):
                    if name in files:
                        files[name][pattern] = path.stem
        for slot, found in files.items():
            self.assertEqual(len(set(found.values())), 1, (slot, found))
            missing = {pattern for pattern in forms if pattern not in found
                       and (slot, pattern) not in inline}
            self.assertLessEqual(
                missing, {"template/*.cc", "template/c/*.c"}
                if slot in optional else set(), slot)

    def test_wrong_names(self):
        for name, text in [("", "empty"), ("x" * 32, "31 are the most"),
                           ("Acme", 'how about "acme"?'),
                           ("my-chip", 'how about "my_chip"?'),
                           ("1st", "lower-case letters"), ("a.b", '"a_b"'),
                           ("a/b", '"a_b"'), ("../up", "lower-case letters"),
                           ("a__b", "C++ keeps"), ("a_", "C++ keeps"),
                           ("\x1b[31m", "lower-case letters"),
                           ("\u00e9t\u00e9", "lower-case letters")]:
            result = self.assert_wrong_usage(["new-backend", "--", name], text)
            self.assertNotIn("\x1b", result.stderr)
        self.assert_wrong_usage(["new-backend"], "needs a NAME")
        self.assert_wrong_usage(["new-backend", "a", "b", "c"],
                                'unexpected argument "c"')
        self.assert_wrong_usage(["new-backend", "a", "--language=rust"],
                                'c++ or c, not "rust"')
        self.assert_wrong_usage(["new-backend", "a", ""], "DIR is empty")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_words_of_the_language_are_names(self):
        for name in ["int", "time", "main", "x" * 31]:
            self.run_tool("new-backend", name)

    def test_macros_are_names(self):
        """The name alone is never a word of the code: it would be expanded."""
        for language in ["c++", "c"]:
            self.run_tool("new-backend", "errno", language,
                          f"--language={language}")
            for name, text in self.files(language).items():
                if not re.search(r"\.(c|cc|h)$", name):
                    continue
                code = re.sub(r'//.*|"[^"]*"|(?s:/\*.*?\*/)', "", text)
                code = code.replace("DEVRT_STATIC_PLUGIN(errno);", "")
                self.assertNotRegex(code, r"\berrno\b", name)
            build = self.files(language)["meson.build"]
            self.assertNotIn("=errno", build)

    def test_the_names_of_devrts_own_backends_are_taken(self):
        for name in ["mtia", "cuda", "hip"]:
            self.assert_wrong_usage(["new-backend", name],
                                    "devrt has one of that name")

    def test_next_steps_can_be_copied(self):
        folder = "it's a folder"
        steps = self.run_tool("new-backend", "acme", folder).stdout
        step = re.search(r"(?m)^  (cd .*)$", steps).group(1)
        where = subprocess.run(["sh", "-c", f"{step} && pwd"], text=True,
                               cwd=self.folder, stdout=subprocess.PIPE)
        self.assertEqual(where.stdout, f"{self.folder / folder}\n")

    def test_an_empty_folder_is_used(self):
        (self.folder / "empty").mkdir()
        (self.folder / "link").symlink_to("empty")
        self.run_tool("new-backend", "acme", "link")
        self.assertIn("plugin.cc", self.files("empty"))

    def test_what_is_there_stays(self):
        (self.folder / "full").mkdir()
        (self.folder / "full/mine").write_text("mine")
        (self.folder / "file").write_text("mine")
        for folder, text in [("full", "not empty"), ("file", "no folder"),
                             ("no/parent", "No such file")]:
            result = self.run_tool("new-backend", "acme", folder,
                                   expect=FAILURE)
            self.assertIn(f"{folder}: ", result.stderr)
            self.assertIn(text, result.stderr)
        self.assertEqual(self.files("full"), {"mine": "mine"})
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_nothing_is_left_of_a_failure(self):
        (self.folder / "empty").mkdir()
        for folder in ["new", "empty"]:
            # No file may grow beyond one KiB.
            result = subprocess.run(
                ["bash", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "bash",
                 TOOL, "new-backend", "acme", folder],
                cwd=self.folder, text=True, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE)
            self.assertEqual(result.returncode, FAILURE, result.stderr)
            self.assertRegex(result.stderr, re.compile("file too large", re.I))
        self.assertEqual([path.name for path in self.folder.rglob("*")],
                         ["empty"])


if __name__ == "__main__":
    unittest.main()
