# SPDX-License-Identifier: Apache-2.0
"""The fenced blocks of the site's pages, and which test looks after each.

usage: blocks.py    prints each block with its test, and the counts

The pages are those of docs/site/conf.py. The first word behind a fence is the block's
language; more words say how the block is tested.
"""

import collections
import dataclasses
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/python/docs")]
import follow_page  # noqa: E402
import header_examples  # noqa: E402
import pages as page_runner  # noqa: E402

FENCE = re.compile(r"^( *)(```+|~~~+)(.*)$")
# scripts/docs does not copy these.
LEFT_OUT = re.compile(r"build.*|\..*|subprojects|__pycache__")
README = "README.md"


class FenceError(Exception):
    """A fence that the tests' regular expressions do not find."""


@dataclasses.dataclass(frozen=True)
class Block:
    page: str  # relative to the root
    line: int  # of its first line of content
    info: str  # the words behind the fence
    text: str

    @property
    def language(self):
        return self.info.split(" ")[0]

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def pages():
    """All pages of the site, relative to the root."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not LEFT_OUT.fullmatch(f))
        place = pathlib.Path(folder).relative_to(ROOT)
        of_docs = place.parts[:1] == ("docs",) and place.parts[:2] != ("docs", "site")
        for file in sorted(files):
            path = str(place / file)
            if file.endswith(".md") and (
                    of_docs or place == pathlib.Path() or file == README
                    or path == "tests/mutation/generated/results.md"):
                found.append(path)
    return sorted(found)


def blocks_in(page, text):
    """The blocks of a page's text. Raises FenceError for a fence that is indented, or of
    another form than three backticks."""
    found, opened, lines = [], None, []
    for number, line in enumerate(text.split("\n"), 1):
        match = FENCE.match(line)
        if match is None:
            lines.append(line)
            continue
        indent, mark, info = match.groups()
        if indent or mark != "```" or opened is not None and info.strip():
            raise FenceError(f"{page}:{number}: {line!r}")
        if opened is None:
            opened, lines = (number + 1, info.strip()), []
        else:
            found.append(Block(page, *opened, "".join(f"{x}\n" for x in lines)))
            opened = None
    if opened is not None:
        raise FenceError(f"{page}: the last block has no end")
    return found


def all_blocks():
    return [block for page in pages()
            for block in blocks_in(page, (ROOT / page).read_text(encoding="utf-8"))]


def programs_with_snippets():
    """The pages whose C++ program tests/docs/meson.build compiles and runs."""
    text = (HERE / "meson.build").read_text(encoding="utf-8")
    return re.findall(r"'(\S+\.md)'", text.split("docs_with_snippets = [")[1].split("]")[0])


def output_block(found):
    """The ```text block behind the C++ program among the blocks of a page, or None."""
    for before, block in zip(found, found[1:]):
        if before.info == "cpp" and block.info == "text":
            return block
    return None


def output_of_program(document):
    block = output_block(blocks_in(document.name, document.read_text(encoding="utf-8")))
    return block.text if block else None


def is_waivers(block):
    """A file for `devrt cts --xfail`. No language has a name for it."""
    return block.info == "" and " expected_failure " in block.text


class Tests:
    """Says which test looks after a block. Asks the runners themselves where it can."""

    def __init__(self):
        self.followed = {str(path.relative_to(ROOT)) for path in
                         page_runner.pages_that_run(ROOT)}
        self.snippets = programs_with_snippets()
        self.lines = {}

    def by_page_runner(self, block):
        """Returns true if test_tutorial.py runs, compiles or compares the block."""
        if block.page not in self.followed and block.page != README:
            return False
        if block.page not in self.lines:
            text = (ROOT / block.page).read_text(encoding="utf-8")
            self.lines[block.page] = {line for line, _, _ in page_runner.blocks(
                text, shell=block.page != README)}
        return block.line in self.lines[block.page]

    def by_follower(self, block):
        """Returns true if tests/install follows this block of the page."""
        return (block.page in follow_page.PAGES and " " not in block.info
                and block.language in ("sh", "cpp", "text")
                and (block.language != "cpp" or follow_page.FILE.match(block.text)))

    def by_snippet(self, block):
        """Returns true for the output of the program that meson.build runs."""
        if block.page not in self.snippets:
            return False
        text = (ROOT / block.page).read_text(encoding="utf-8")
        return block == output_block(blocks_in(block.page, text))

    def cpp(self, block):
        if block.page in self.snippets:
            return "run: the program of meson.build"
        examples = header_examples.page_examples(block.page, f"```cpp\n{block.text}```\n")
        if not (block.page == README or block.page.startswith("docs/")) or not examples:
            return None
        if examples[0].is_fragment:
            return "read: a fragment with its reason"
        return "compiled: header_examples"

    def of(self, block):
        """"run", "compiled", "compared", "parsed", "checked" or "read", with the test; or
        None for a block that no test looks after."""
        what = {"text": "compared", "python fragment": "compiled"}.get(block.info, "run")
        if self.by_page_runner(block):
            return f"{what}: test_tutorial"
        if self.by_snippet(block):
            return "compared: run_snippet"
        if self.by_follower(block):
            return f"{what}: tests/install, follow_page"
        return {
            "cpp": self.cpp,
            "sh": lambda _: "checked: commands_test",
            "meson": lambda _: "configured: tests/install",
            "cmake": lambda _: "configured: tests/install",
            "toml": lambda _: "parsed: data_blocks_test",
            "json": lambda _: "parsed: data_blocks_test",
            "text": lambda _: "read: text",
            "": lambda b: "parsed: data_blocks_test" if is_waivers(b) else "read: text",
            "{toctree}": lambda _: "read: Sphinx",
        }.get(block.language, lambda _: None)(block)


def commands_to_check():
    """The shell blocks that no test runs."""
    tests = Tests()
    return [block for block in all_blocks() if block.language == "sh"
            and tests.of(block).startswith("checked")]


def main():
    tests = Tests()
    counts = collections.Counter()
    for block in all_blocks():
        test = tests.of(block) or "no test"
        counts[block.language or "(none)", test] += 1
        print(f"{block.place} [{block.info}] {test}")
    for (language, test), count in sorted(counts.items()):
        print(f"{count:4}  {language:10} {test}")


if __name__ == "__main__":
    main()
