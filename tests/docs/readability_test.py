# SPDX-License-Identifier: Apache-2.0
"""The pages of the site keep to the limits of the documents: no paragraph above 80 words
and no table cell above 40. The first sentence says what the page is, and the first
paragraph who it is for.

The pages are those of docs/, the README files of all folders, and the pages of the root.
A decision says what was decided instead of who it is for. A list item counts as a paragraph. Code blocks do not count. The target of a link is no
word, and neither is a mark without a letter or a digit, such as a dash.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARAGRAPH_WORDS = 80
CELL_WORDS = 40
FENCE = re.compile(r"^ *(```+|~~~+)")
ITEM = re.compile(r"^ *(?:[-*+]|\d+[.)]) +")
CELL_END = re.compile(r"(?<!\\)\|")
LINK = re.compile(r"\]\([^)]*\)")
# The sentence names the page, its folder or, on the front page, the project. It may end in
# a closing mark behind the full stop.
SENTENCE = re.compile(r"^(?:This (?:page|site|folder|decision)|These (?:pages|programs)"
                      r"|devrt is)\b[^\n]*?[.:?][)*`\"]*(?:\s|$)", re.S)
WHO = re.compile(r"\b(?:is|are) for\b")
DECISION = re.compile(r"docs/decisions/\d")


def count_words(text):
    return sum(1 for word in LINK.sub("]", text).split()
               if re.search(r"\w", word))


def blocks(text):
    """(kind, line, text) of each heading, row of a table and paragraph of a page."""
    found, lines, first, fence = [], [], 0, None

    def end():
        if lines:
            found.append(("paragraph", first, " ".join(lines)))
            lines.clear()

    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text,
                  flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        mark = FENCE.match(line)
        if fence is not None:
            fence = None if mark and mark[1] == fence else fence
        elif mark:
            end()
            fence = mark[1]
            found.append(("code", number, ""))
        elif not line.strip():
            end()
        elif line.startswith("#"):
            end()
            found.append(("heading", number, line.lstrip("#").strip()))
        elif line.lstrip().startswith("|"):
            end()
            found.append(("row", number, line.strip()))
        else:
            if ITEM.match(line):
                end()
            if not lines:
                first = number
            lines.append(line.strip())
    end()
    return found


def cells(row):
    return [cell.strip() for cell in CELL_END.split(row.strip().strip("|"))]


def complaints_about_the_beginning(page, all_blocks):
    """Returns the faults of the paragraph that follows the title."""
    if len(all_blocks) < 2 or all_blocks[0][0] != "heading":
        return [f"{page}: no text follows a title"]
    kind, _, text = all_blocks[1]
    if kind != "paragraph" or not SENTENCE.match(text):
        return [f"{page}: the first sentence does not say what the page is"]
    if not WHO.search(text) and not DECISION.match(page):
        return [f"{page}: the first paragraph does not say who the page is for"]
    return []


def pages_of_the_tree():
    """The pages of the site that are in the tree, without copies in build folders."""
    found = set((ROOT / "docs").rglob("*.md")) | set(ROOT.glob("*.md"))
    found.add(ROOT / "tests/mutation/generated/results.md")
    for folder in ROOT.iterdir():
        if folder.is_dir() and not folder.name.startswith(
                (".", "build", "subprojects", "venv")):
            found |= set(folder.rglob("README.md"))
    return sorted(found)


def complaints(page, text):
    found = []
    all_blocks = blocks(text)
    found += complaints_about_the_beginning(page, all_blocks)
    for kind, line, content in all_blocks:
        if kind == "paragraph":
            words = count_words(content)
            if words > PARAGRAPH_WORDS:
                found.append(f"{page}:{line}: a paragraph of {words} words")
        elif kind == "row":
            for cell in cells(content):
                words = count_words(cell)
                if words > CELL_WORDS:
                    found.append(f"{page}:{line}: a cell of {words} words: "
                                 f"{cell[:40]}")
    return found

FIRST = "This page lists things. It is for readers."


class ReadabilityTest(unittest.TestCase):

    def test_every_page_is_readable(self):
        pages = pages_of_the_tree()
        self.assertGreater(len(pages), 90)
        self.assertIn(ROOT / "bench/README.md", pages)
        found = []
        for path in pages:
            name = str(path.relative_to(ROOT))
            found += complaints(name, path.read_text(encoding="utf-8"))
        if found:
            self.fail("\n".join(["", *found]))

    def test_a_good_page(self):
        self.assertEqual(complaints("a.md", "# A\n\n" + FIRST + "\n"
                                    "\n```sh\n" + "word " * 100 + "\n```\n\n"
                                    "| A | B |\n|---|---|\n| a\\|b | c |\n"), [])

    def test_a_long_paragraph(self):
        text = f"# A\n\n{FIRST}\n\n" + "word " * 50 + "\n" + "word " * 31
        self.assertEqual(complaints("a.md", text),
                         ["a.md:5: a paragraph of 81 words"])

    def test_items_are_paragraphs(self):
        item = "- " + "word " * 50 + "\n"
        self.assertEqual(complaints("a.md", f"# A\n\n{FIRST}\n\n" + item * 2), [])
        self.assertEqual(len(complaints(
            "a.md", f"# A\n\n{FIRST}\n\n" + item + "  " + "word " * 31)), 1)

    def test_a_long_cell(self):
        text = f"# A\n\n{FIRST}\n\n| A | B |\n|---|---|\n| a | " + "b " * 41 + "|\n"
        self.assertEqual(complaints("a.md", text),
                         ["a.md:7: a cell of 41 words: " + ("b " * 20)])

    def test_the_first_text(self):
        for text in ("# A\n", "Text.\n"):
            with self.subTest(text=text):
                self.assertEqual(complaints("a.md", text),
                                 ["a.md: no text follows a title"])
        for text in (f"# A\n\n## B\n\n{FIRST}\n", "# A\n\n- An item.\n",
                     "# A\n\nThis page has no end\n", "# A\n\nThe text is for you.\n",
                     "# A\n\n| A |\n|---|\n", "# A\n\n```sh\nls\n```\n"):
            with self.subTest(text=text):
                self.assertEqual(
                    complaints("a.md", text),
                    ["a.md: the first sentence does not say what the page is"])

    def test_who_a_page_is_for(self):
        text = "# A\n\nThis page lists things.\n"
        self.assertEqual(complaints("a.md", text),
                         ["a.md: the first paragraph does not say who the page is for"])
        self.assertEqual(complaints("docs/decisions/0001-a.md", text), [])

    def test_words_are_counted_without_markup(self):
        self.assertEqual(count_words("a - b [c d](e/f.md#g) `h`"), 5)


if __name__ == "__main__":
    unittest.main()
