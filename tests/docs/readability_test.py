# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/ keep to the limits of the documents: no paragraph above 80 words,
no table cell above 40, and the first text behind the title is a sentence.

A list item counts as a paragraph. Code blocks do not count. The target of a link is no
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
# It may end in a closing mark behind the full stop.
SENTENCE = re.compile(r"^[`*\[(\"]*[A-Z0-9`][^\n]*?[.:?][)*`\"]*(?:\s|$)", re.S)


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


def starts_with_a_sentence(all_blocks):
    """Whether text that is one sentence at least follows the title."""
    if not all_blocks or all_blocks[0][0] != "heading":
        return False
    kind, _, text = all_blocks[1] if len(all_blocks) > 1 else ("", 0, "")
    return (kind == "paragraph" and not ITEM.match(text)
            and SENTENCE.match(text) is not None)


def complaints(page, text):
    found = []
    all_blocks = blocks(text)
    if not starts_with_a_sentence(all_blocks):
        found.append(f"{page}: no sentence follows the title")
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


class ReadabilityTest(unittest.TestCase):

    def test_every_page_is_readable(self):
        pages = sorted((ROOT / "docs").rglob("*.md"))
        self.assertGreater(len(pages), 40)
        found = []
        for path in pages:
            name = str(path.relative_to(ROOT))
            found += complaints(name, path.read_text(encoding="utf-8"))
        if found:
            self.fail("\n".join(["", *found]))

    def test_a_good_page(self):
        self.assertEqual(complaints("a.md", "# A\n\nThis page is short. It ends.\n"
                                    "\n```sh\n" + "word " * 100 + "\n```\n\n"
                                    "| A | B |\n|---|---|\n| a\\|b | c |\n"), [])

    def test_a_long_paragraph(self):
        text = "# A\n\nThis page is.\n\n" + "word " * 50 + "\n" + "word " * 31
        self.assertEqual(complaints("a.md", text),
                         ["a.md:5: a paragraph of 81 words"])

    def test_items_are_paragraphs(self):
        item = "- " + "word " * 50 + "\n"
        self.assertEqual(complaints("a.md", "# A\n\nA page.\n\n" + item * 2), [])
        self.assertEqual(len(complaints(
            "a.md", "# A\n\nA page.\n\n" + item + "  " + "word " * 31)), 1)

    def test_a_long_cell(self):
        text = "# A\n\nA page.\n\n| A | B |\n|---|---|\n| a | " + "b " * 41 + "|\n"
        self.assertEqual(complaints("a.md", text),
                         ["a.md:7: a cell of 41 words: " + ("b " * 20)])

    def test_the_first_text(self):
        for text in ("# A\n\n## B\n\nText.\n", "# A\n\n- An item.\n",
                     "# A\n\nno sentence\n", "# A\n", "Text.\n",
                     "# A\n\n| A |\n|---|\n", "# A\n\n```sh\nls\n```\n"):
            with self.subTest(text=text):
                self.assertEqual(complaints("a.md", text),
                                 ["a.md: no sentence follows the title"])

    def test_words_are_counted_without_markup(self):
        self.assertEqual(count_words("a - b [c d](e/f.md#g) `h`"), 5)


if __name__ == "__main__":
    unittest.main()
