# SPDX-License-Identifier: Apache-2.0
"""Help, usage errors and exit codes, which all commands share."""

import re
import unittest

from tool import (COMMANDS, FAILURE, NEEDED_ARGUMENTS, REPORTS, ROOT,
                  ToolTest)


def flags_in_help(text):
    """The flags of a help text: "--size=MiB"."""
    return set(re.findall(r"^  (?:-\w(?: \S+)?, )?(--\S+)", text, re.M))


def flags_in_document(command):
    """The flags of a command's section in docs/reference/cli.md."""
    text = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text.split(f"\n## devrt {command}\n")[1],
                       flags=re.M)[0]
    return set(re.findall(r"^\| (?:`-\w[^`]*`, )?`(--[^`]+)` \|", section, re.M))


def members_in_document(command):
    """The JSON members that a command's section names."""
    text = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    section = text.split(f"\n## devrt {command}\n")[1].split("\n## ")[0]
    paragraph = section.split("\nJSON: ")[1].split("\n\n")[0]
    return set(re.findall(r"`(\w+)`", paragraph))


class Json(ToolTest):

    def test_members_are_those_of_the_document(self):
        for command in REPORTS:
            members = set(self.run_json(
                command, *NEEDED_ARGUMENTS.get(command, []))) - {"devrt"}
            self.assertLessEqual(members, members_in_document(command))


class Help(ToolTest):

    def test_lists_every_command(self):
        for arguments in [["--help"], ["-h"], ["help"]]:
            text = self.run_tool(*arguments).stdout
            for command in COMMANDS:
                self.assertRegex(text, rf"(?m)^  {command} ")
            self.assert_narrow(text)

    def test_of_each_command(self):
        for command in COMMANDS:
            text = self.run_tool(command, "--help").stdout
            self.assertIn(f"usage: devrt {command}", text)
            self.assertIn("Exit codes: 0 success; 1 failure; 2 wrong", text)
            self.assert_narrow(text)
            self.assertEqual(text, self.run_tool("help", command).stdout)
            self.assertEqual(text, self.run_tool(command, "-h").stdout)

    def test_names_the_flags_of_the_document(self):
        for command in COMMANDS:
            text = self.run_tool(command, "--help").stdout
            self.assertEqual(flags_in_help(text), flags_in_document(command))

    def test_help_agrees_with_the_document(self):
        document = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
        for summary in re.findall(r"^  (?:%s) +(.*)$" % "|".join(COMMANDS),
                                  self.run_tool("--help").stdout, re.M):
            self.assertIn(f"| {summary} |", document)

    def test_wins_over_other_flags(self):
        self.run_tool("demo", "--size=1", "--help")


class Version(ToolTest):

    def test_is_the_one_of_the_project(self):
        project = (ROOT / "meson.build").read_text(encoding="utf-8")
        version = re.search(r"version: '([^']+)'", project).group(1)
        self.assertEqual(self.run_tool("--version").stdout,
                         f"devrt {version}\n")


class Usage(ToolTest):

    def test_no_command(self):
        self.assert_wrong_usage([], "no command given", "demo", "topo")

    def test_unknown_command(self):
        self.assert_wrong_usage(["lst"], 'unknown command "lst"',
                                'did you mean "list"?')
        self.assert_wrong_usage(["dmeo"], 'did you mean "demo"?')
        self.assert_wrong_usage(["--vresion"], 'unknown flag "--vresion"',
                                'did you mean "--version"?')
        result = self.assert_wrong_usage(["quite-another-thing"])
        self.assertNotIn("did you mean", result.stderr)
        self.assert_wrong_usage([""], 'unknown command ""')

    def test_unknown_flag(self):
        self.assert_wrong_usage(["demo", "--sise=4"], 'unknown flag "--sise"',
                                'did you mean "--size"?', "devrt demo --help")
        self.assert_wrong_usage(["demo", "--dev=2"],
                                'did you mean "--devices"?')
        for command in REPORTS:
            self.assert_wrong_usage([command, "--jsn"],
                                    'did you mean "--json"?')

    def test_flag_value(self):
        self.assert_wrong_usage(["demo", "--size"], "--size needs a value")
        self.assert_wrong_usage(["demo", "--size", "--json"],
                                "--size needs a value")
        self.assert_wrong_usage(["demo", "--size="], "--size needs a value")
        self.assert_wrong_usage(["list", "--json=yes"],
                                "--json takes no value")

    def test_wrong_numbers(self):
        for value in ["0", "-1", "1.5", "4MiB", "", " 4", "99999999999999999999"]:
            self.assert_wrong_usage(["demo", f"--size={value}"], "--size")
        self.assert_wrong_usage(["demo", "--devices=0"], "from 1 to 64",
                                'not "0"')

    def test_wrong_choices(self):
        self.assert_wrong_usage(["demo", "--times=event"],
                                "auto, simulator, events or host",
                                'did you mean "events"?')

    def test_unexpected_argument(self):
        self.assert_wrong_usage(["list", "mtia"], 'unexpected argument "mtia"')
        self.assert_wrong_usage(["info", "mtia:0", "mtia:1"],
                                'unexpected argument "mtia:1"')
        self.assert_wrong_usage(["list", "--", "--json"],
                                'unexpected argument "--json"')

    def test_hostile_words_are_printed_safely(self):
        result = self.assert_wrong_usage(["demo", "--\x1b[31m\n" + "x" * 9999])
        self.assertNotIn("\x1b", result.stderr)
        self.assertLess(len(result.stderr), 300)

    def test_full_disk(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = self.run_tool("--help", stdout=full, expect=FAILURE)
        self.assertIn("cannot write to standard output", result.stderr)


if __name__ == "__main__":
    unittest.main()
