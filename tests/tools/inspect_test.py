# SPDX-License-Identifier: Apache-2.0
"""devrt inspect: what it says about good files and about every bad one."""

import hashlib
import json
import os
import pathlib
import shutil
import stat
import subprocess
import unittest

from tool import FAILURE, PLUGIN, SUCCESS, TOOL, ToolTest

PLUGINS = pathlib.Path(os.environ["DEVRT_TEST_PLUGIN_DIR"])
RULES = ["path", "regular_file", "owner", "writers", "library", "plugin",
         "exports", "run_path", "bundled"]

# The first rule that each of tests/abi/plugins breaks; those that are not here
# are fit to be loaded, whatever becomes of it then.
BROKEN = {
    "empty": "library", "one_byte": "library", "truncated": "library",
    "truncated_dynamic": "library", "truncated_half": "library",
    "truncated_header": "library", "truncated_manifest": "library",
    "truncated_segments": "library", "truncated_strings": "library",
    "truncated_symbols": "library", "big_endian": "library",
    "elf32": "library", "elf_version": "library", "not_elf": "library",
    "not_shared": "library", "wrong_machine": "library",
    "no_segments": "library", "wild_dynamic": "library",
    "wild_load": "library", "wild_phentsize": "library",
    "wild_hash_bloom": "library", "wild_hash_buckets": "library",
    "zero_hash_buckets": "library",
    "wild_phnum": "library", "wild_phoff": "library",
    "wild_strsz": "library", "wild_strtab": "library",
    "wild_symtab": "library",
    "bad_magic": "plugin", "bad_name": "plugin", "foreign_major": "plugin",
    "huge_manifest": "plugin", "major_in_manifest": "plugin",
    "manifest_in_bss": "plugin", "no_manifest": "plugin", "no_open": "plugin",
    "short_manifest": "plugin", "unterminated_name": "plugin",
    "wild_manifest": "plugin", "wild_name": "plugin",
    "zero_manifest": "plugin",
    "reserved_symbol": "exports",
    "third_symbol": "exports",
    "relative_run_path": "run_path",
}


def plugin(name):
    return str(PLUGINS / f"libdevrt_{name}.so")


def first_broken(report):
    return next((rule["rule"] for rule in report["rules"]
                 if rule["verdict"] == "broken"), None)


class Kinds(ToolTest):

    def test_every_kind(self):
        """Each bad one breaks the rule it is made for, and nothing runs."""
        mark = self.folder / "ran"
        names = [path.stem.removeprefix("libdevrt_")
                 for path in PLUGINS.glob("libdevrt_*.so")]
        self.assertLessEqual(set(BROKEN), set(names))
        for name in names:
            with self.subTest(name):
                broken = BROKEN.get(name)
                report = self.run_json(
                    "inspect", plugin(name), DEVRT_TEST_RAN=str(mark),
                    expect=FAILURE if broken else SUCCESS)
                self.assertEqual(first_broken(report), broken)
                self.assertEqual([r["rule"] for r in report["rules"]], RULES)
                self.assertEqual(report["loadable"], broken is None)
                self.assertEqual(
                    report["sha256"], hashlib.sha256(
                        pathlib.Path(plugin(name)).read_bytes()).hexdigest())
                self.assertFalse(mark.exists())

    def test_what_could_be_read_is_shown(self):
        wrong = self.run_json("inspect", plugin("wrong_machine"),
                              expect=FAILURE)
        self.assertEqual(wrong["machine"], "AArch64")
        self.assertEqual(wrong["manifest"]["backend"], "good")
        self.assertEqual(len(wrong["exports"]), 2)
        third = self.run_json("inspect", plugin("third_symbol"),
                              expect=FAILURE)
        self.assertIn("acme_debug", third["exports"])
        self.assertIn("acme_debug", third["error"]["message"])
        foreign = self.run_json("inspect", plugin("major_in_manifest"),
                                expect=FAILURE)
        self.assertEqual(foreign["manifest"]["abi_major"], 9)
        self.assertEqual(foreign["error"]["code"], "FAILED_PRECONDITION")
        long = self.run_json("inspect", plugin("unterminated_name"),
                             expect=FAILURE)
        self.assertEqual(len(long["manifest"]["backend"]), 32)


class OpeningFails(ToolTest):

    def test_the_file_does_not_tell_if_opening_works(self):
        """inspect does not say "would load" of a plugin that devrt list refuses."""
        path = plugin("missing_required")
        self.run_tool("list", expect=FAILURE, DEVRT_PLUGINS=path)
        text = self.run_tool("inspect", path).stdout
        self.assertNotIn("would load", text)
        self.assertIn("devrt list shows whether opening it works", text)


class Huge(ToolTest):

    def test_is_not_read_to_its_end(self):
        huge = self.folder / "libdevrt_huge.so"
        for head in [b"", pathlib.Path(plugin("good")).read_bytes()]:
            with open(huge, "wb") as file:
                file.write(head)
                file.truncate(1 << 42)  # hours of zeros
            huge.chmod(0o666)
            report = self.run_json("inspect", str(huge), expect=FAILURE)
            self.assertEqual(report["size"], 1 << 42)
            self.assertIsNone(report["sha256"])
            self.assertIn("larger than 1 GiB", report["why_no_sha256"])
            text = self.run_tool("inspect", str(huge), expect=FAILURE).stdout
            self.assertRegex(text, "SHA-256 +none: the file is refused")


class Good(ToolTest):

    def test_text_has_the_manifest_and_the_rules(self):
        result = self.run_tool("inspect", PLUGIN)
        for text in [r"^  backend +mtia ", r"^  capabilities +.*host_func",
                     r"^  machine +\S", r"^  SHA-256 +[0-9a-f]{64}$",
                     r"^  met +writers +nobody else than root",
                     r"^devrt would open it\. devrt list shows whether opening it "
                     r"works\.$"]:
            self.assertRegex(result.stdout, "(?m)" + text)
        self.assertEqual(result.stderr, "")
        self.assert_narrow(result.stdout.split("What a plugin must be")[0])

    def test_json_has_the_manifest_and_the_rules(self):
        report = self.run_json("inspect", PLUGIN)
        self.assertEqual(report["manifest"]["backend"], "mtia")
        self.assertIn("host_func", report["manifest"]["capabilities"])
        self.assertEqual(sorted(report["exports"]),
                         ["devrt_plugin_manifest_v0", "devrt_plugin_open_v0"])
        self.assertEqual(report["export_count"], 2)
        self.assertTrue(any(n.startswith("libc.so") for n in report["needed"]))
        self.assertEqual({r["verdict"] for r in report["rules"]}, {"met"})
        self.assertIsNone(report["error"])

    def test_bundled_libraries(self):
        shutil.copy(plugin("bundled"), self.folder / "x.so")
        report = self.run_json("inspect", "x.so")
        self.assertEqual(report["bundled"], [])
        shutil.copy(PLUGINS / "libacme.so.1", self.folder)
        report = self.run_json("inspect", "x.so")
        self.assertEqual(report["bundled"], [
            {"name": "libacme.so.1",
             "path": str(self.folder.resolve() / "libacme.so.1")}])
        (self.folder / "libacme.so.1").chmod(0o666)
        report = self.run_json("inspect", "x.so", expect=FAILURE)
        self.assertEqual(first_broken(report), "bundled")

    def test_layers_are_inspected_too(self):
        layer = plugin("layer_one_slot")
        report = self.run_json("inspect", layer)
        self.assertEqual(report["kind"], "layer")
        self.assertEqual(report["manifest"]["backend"], "one_slot")
        text = self.run_tool("inspect", layer).stdout
        self.assertRegex(text, r"(?m)^  layer +one_slot 1\.0")
        self.assertRegex(text, r"(?m)^devrt would open it\. DEVRT_LAYERS=one_slot "
                         "devrt list shows")
        self.assertEqual(self.run_json("inspect", PLUGIN)["kind"], "plugin")

    def test_relative_paths_and_links(self):
        (self.folder / "link").symlink_to(PLUGIN)
        report = self.run_json("inspect", "./link")
        self.assertTrue(report["file"].endswith("/link"))
        self.assertEqual(report["real_path"], str(pathlib.Path(PLUGIN).resolve()))


class Untrusted(ToolTest):

    def check(self, path, rule, *texts):
        report = self.run_json("inspect", str(path), expect=FAILURE)
        self.assertEqual(first_broken(report), rule)
        result = self.run_tool("inspect", str(path), expect=FAILURE)
        self.assertIn("devrt would refuse it.", result.stdout)
        for text in texts:
            self.assertIn(text, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)
        return report

    def test_writable_by_others(self):
        path = self.folder / "x.so"
        shutil.copy(PLUGIN, path)
        path.chmod(0o666)
        report = self.check(path, "writers", "(mode 0666) can be written by "
                            "everybody", f"chmod o-w {path}")
        self.assertEqual(report["manifest"]["backend"], "mtia")  # read it was
        path.chmod(0o644)
        self.folder.chmod(0o777)
        self.check(path, "writers", f"chmod o-w {self.folder}")
        self.folder.chmod(0o1777)
        self.run_tool("inspect", str(path))

    def test_foreign_owner(self):
        if os.geteuid() != 0:
            self.skipTest("only root gives files away")
        path = self.folder / "x.so"
        shutil.copy(PLUGIN, path)
        os.chown(path, 65534, 65534)
        self.check(path, "owner", "belongs to uid 65534", "chown root")

    def test_no_files(self):
        missing = self.folder / "missing.so"
        self.check(missing, "path", "no such file")
        self.check(self.folder / "\n\x1b[31m.so", "path", "\\n\\033[31m.so",
                   "no such file")
        self.check("/" + "x/" * 2500, "path", "at most 4095 bytes")
        missing.symlink_to("nowhere")
        self.check(missing, "path", "no such file", "/nowhere)")
        circle = self.folder / "circle.so"
        circle.symlink_to(circle)
        self.check(circle, "path", "more than 40 symbolic links")

    def test_other_kinds_of_files(self):
        pipe = self.folder / "pipe.so"
        os.mkfifo(pipe)
        for path in [pipe, "/dev/null", "/dev/zero"]:
            report = self.check(path, "regular_file", "not a regular file")
            self.assertIsNone(report["sha256"])
        self.check(self.folder, "regular_file", "a directory, not a file")

    def test_unreadable_file(self):
        if os.geteuid() != 0:
            self.skipTest("only root becomes another user")
        path = self.folder / "x.so"
        shutil.copy(PLUGIN, path)
        path.chmod(0o600)
        self.folder.chmod(stat.S_IRWXU | stat.S_IXOTH)
        try:
            result = subprocess.run(
                [TOOL, "inspect", "--json", str(path)], user=65534, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
        except PermissionError:
            self.skipTest("the command is in a folder that nobody can enter")
        if not result.stdout:
            self.skipTest("the command itself is out of nobody's reach")
        report = json.loads(result.stdout)
        self.assertEqual(first_broken(report), "path")
        self.assertIn("Permission denied", result.stderr)

    def test_wrong_usage(self):
        self.assert_wrong_usage(["inspect"], "which FILE")
        self.assert_wrong_usage(["inspect", ""], "which FILE")
        self.assert_wrong_usage(["inspect", "a", "b"], "unexpected argument")


if __name__ == "__main__":
    unittest.main()
