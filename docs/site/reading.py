# SPDX-License-Identifier: Apache-2.0
"""Finds what is hard to read in the pages of a built site that a tool has written.

The limits are those of tests/docs/readability_test.py: no paragraph above 80 words, no
cell of a table above 40. The first paragraph says what the page is and who it is for.
"""

import html.parser
import re

PARAGRAPH_WORDS = 80
CELL_WORDS = 40
GENERATED = ("docs/reference/cpp", "docs/reference/c", "docs/reference/python-api",
             "docs/reference/command-help.html", "docs/coming-from/statements.html")
BLOCKS = ("p", "li", "dd", "dt", "td", "th", "pre", "div", "ul", "ol", "dl", "table",
          "h1", "h2", "h3", "h4", "section")
FOR_WHOM = re.compile(r"^Th(?:is page|ese pages)\b.*?\. (?:It is|They are) for ", re.S)


class Article(html.parser.HTMLParser):
    """(tag, text) of each block of text in the article of a page."""

    def __init__(self, text):
        super().__init__()
        self.blocks, self._open, self._inside = [], [], False
        self.feed(text)

    def _end_block(self):
        if self._open:
            tag, words = self._open[-1]
            text = " ".join("".join(words).split())
            if text:
                self.blocks.append((tag, text))
            words.clear()

    def handle_starttag(self, tag, attributes):
        if tag == "article":
            self._inside = True
        if self._inside and tag in BLOCKS:
            self._end_block()
            self._open.append((tag, []))

    def handle_endtag(self, tag):
        if tag == "article":
            self._inside = False
        if self._inside and tag in BLOCKS:
            self._end_block()
            if any(tag == open_tag for open_tag, _ in self._open):
                while self._open.pop()[0] != tag:
                    pass

    def handle_data(self, data):
        if self._inside and self._open:
            self._open[-1][1].append(data)


def count_words(text):
    return sum(1 for word in text.split() if re.search(r"\w", word))


def complaints(name, text):
    """What is hard to read in one page."""
    found = []
    blocks = Article(text).blocks
    paragraphs = [text for tag, text in blocks if tag == "p"]
    if not paragraphs or not FOR_WHOM.match(paragraphs[0]):
        found.append(f"{name}: the first paragraph does not say what the page is and "
                     "who it is for")
    limits = {"p": PARAGRAPH_WORDS, "li": PARAGRAPH_WORDS, "dd": PARAGRAPH_WORDS,
              "td": CELL_WORDS}
    for tag, words in blocks:
        if count_words(words) > limits.get(tag, 10**6):
            found.append(f"{name}: {count_words(words)} words in one <{tag}>: "
                         f"{words[:60]}")
    return found


def hard_to_read(site):
    """One line for each place of the generated pages that is hard to read."""
    found = []
    for place in GENERATED:
        path = site / place
        pages = sorted(path.rglob("*.html")) if path.is_dir() else [path]
        for page in pages:
            found += complaints(str(page.relative_to(site)),
                                page.read_text(encoding="utf-8"))
    return found
