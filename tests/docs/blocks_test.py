# SPDX-License-Identifier: Apache-2.0
"""A test looks after each fenced block of the site's pages: it runs it, compiles it,
compares it, parses it or checks what it names. blocks.py lists all of them."""

import re
import sys
import unittest

sys.dont_write_bytecode = True
import blocks  # noqa: E402

# Text to read only: output, trees of files, drawings and pseudocode. Not what looks like
# a command or code.
LOOKS_LIKE_CODE = re.compile(
    r"^(?:\$ |\./|(?:\w+=\S+ )*(?:cd|cmake|devrt|export|meson|ninja|pip|pytest|python3?) |"
    r"import |from \w+ import |#include |int main|#!/)", re.M)


class BlocksTest(unittest.TestCase):

    def test_each_block_has_a_test(self):
        tests = blocks.Tests()
        found = blocks.all_blocks()
        self.assertGreater(len(found), 300)
        for block in found:
            with self.subTest(block.place):
                self.assertIsNotNone(
                    tests.of(block),
                    f"no test looks after a block in {block.info!r}; what is to be read "
                    "only has no language")

    def test_text_is_no_code(self):
        tests = blocks.Tests()
        for block in blocks.all_blocks():
            if tests.of(block) == "read: text":
                with self.subTest(block.place):
                    self.assertNotRegex(block.text, LOOKS_LIKE_CODE)

    def test_few_blocks_are_only_read(self):
        """Output that is not compared, and fragments, are few."""
        tests = blocks.Tests()
        for info, least in (("text", 3), ("cpp", 1)):
            found = [block.place for block in blocks.all_blocks() if block.info == info
                     and tests.of(block).startswith("read")]
            self.assertLessEqual(len(found), least, found)

    def test_what_has_no_test(self):
        tests = blocks.Tests()
        for info, text in {"sql": "SELECT 1\n", "python": "x = 1\n",
                           "cpp": "int a;\n", "c": "int a;\n"}.items():
            with self.subTest(info):
                self.assertIsNone(tests.of(blocks.Block("tests/README.md", 1, info, text)))

    def test_pages_are_those_of_the_site(self):
        found = blocks.pages()
        for page in ("README.md", "CONTRIBUTING.md", "docs/index.md", "bench/README.md",
                     "docs/reference/cli.md", "tests/mutation/generated/results.md"):
            self.assertIn(page, found)
        self.assertFalse([page for page in found if page.startswith("build")])

    def test_fences_of_other_forms_are_refused(self):
        good = "a\n```sh by hand\nls\n```\n\n```\nb\n\nc\n```\n"
        self.assertEqual(
            [(b.line, b.info, b.text) for b in blocks.blocks_in("a.md", good)],
            [(3, "sh by hand", "ls\n"), (7, "", "b\n\nc\n")])
        for bad in ("  ```sh\n  ls\n  ```\n", "~~~\na\n~~~\n", "````\n```\n````\n",
                    "```sh\nls\n", "```\n```sh\nls\n```\n"):
            with self.subTest(bad):
                with self.assertRaises(blocks.FenceError):
                    blocks.blocks_in("a.md", bad)


if __name__ == "__main__":
    unittest.main()
