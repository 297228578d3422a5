# SPDX-License-Identifier: Apache-2.0
"""Checks that what comments and documents cite exists, under one number.

A citation has one of these forms:

    C27, F5, R4, E8, P19, S3   an item of a page in PAGES
    docs/reference/semantics.md 2.4      a numbered section of a document
    docs/reference/waits.md              a document
    decision 12                docs/decisions/0012-*.md
    docs/evidence/results/2026-11-30-5-d9089e42.json     a result

Reads comments, docstrings and Markdown, but no code, strings and examples.
"""

import io
import pathlib
import re
import tokenize

import checks

# How each page begins the line that defines an item.
PAGES = [
    ("docs/reference/semantics.md", r"#### (C\d+) "),
    ("docs/reference/semantics.md", r"\| (F\d+) \|"),
    ("docs/reference/semantics.md", r"\* (R\d+) "),
    ("docs/reference/exchange-rules.md", r"\*\*(E\d+)\*\* "),
    ("docs/reference/plugin-contract.md", r"\| (P\d+) \|"),
    ("docs/reference/simulator-rules.md", r"\| ([GHQSTV]\d+) \|"),
]
PAGE_OF = {letter: page for page, begin in PAGES
           for letter in re.search(r"([A-Z]+)\]?\\d", begin).group(1)}
# Letters without a page, of items that were removed.
GONE = "DLO"

HEADING = re.compile(r"^#+ (\d+(?:\.\d+)?)\.? ", re.M)

ITEM = re.compile(
    r"(?<![\w.#/+=<>:'\"-])(?:{0}-)?{0}(?!\w|[./+'\"]+\w)".format(
        rf"(C\d{{1,3}}|[{''.join(PAGE_OF)}{GONE}]\d{{1,2}})"))
SECTIONS = r"(\d+(?:\.\d+)?(?:(?:,\s+|\s+and\s+|\s+to\s+|-)\d+\.\d+)*)"
DOCUMENT = re.compile(rf"(?<![\w/.<*-])((?:[\w.-]+/)*[\w-]+\.md)\b(?:\]\([^)]*\))?"
                      rf"(?:\s+{SECTIONS}(?![\w.]*\w))?")
DECISION = re.compile(r"\b[Dd]ecisions?\s+(\d+)\b")
RESULT = re.compile(r"\bdocs/evidence/results/[\w.-]+\.json\b")
UNKNOWN = [
    (re.compile(r"\b[Rr]ules?[ ]+\d+\b"),
     "rules have letters: E8 of docs/reference/exchange-rules.md, say"),
    (re.compile(r"(?<![/\w])(?:semantics|simulator|interop)"
                r"\s+\d+\.\d+\b"),
     "write the document with its folder: docs/reference/semantics.md 2.4, say"),
]
# A section without a document.  In a document it is a section of its own.
BARE = (re.compile(r"\(\d\.\d{1,2}(?=[,);:])"),
        "name the document: docs/reference/semantics.md 2.4, say")

CODE_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.[^'\n]{0,3}|[^'\\\n])'", re.S)
EXAMPLE = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)


def blank(text):
    """Returns as many lines as the text has, all empty."""
    return "\n" * text.count("\n")


def comments_of_code(text):
    """Returns the text with everything blanked but the comments."""
    parts, end = [], 0
    for token in CODE_TOKEN.finditer(text):
        found = token.group()
        is_comment = found.startswith(("//", "/*"))
        parts += [blank(text[end:token.start()]),
                  found if is_comment else blank(found)]
        end = token.end()
    return re.sub(r"(?m)^\s*(?://+|\*(?!\*)|/\*+)", "", "".join(parts))


def comments_of_python(text):
    lines = [""] * (text.count("\n") + 2)
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and before in (
            tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if token.type == tokenize.COMMENT or is_docstring:
            for i, line in enumerate(token.string.split("\n")):
                lines[token.start[0] - 1 + i] += " " + line.lstrip("#")
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    return re.sub(r"noqa[^\n]*", "", "\n".join(lines))


def comments_of_script(text):
    return re.sub(r"(?m)^(?:[^#\n'\"]*|[^#\n]*\s)#|^[^#\n]*$", "", text)


def read(path):
    """Returns what people read in a file, at its lines."""
    text = (checks.ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".md":
        return EXAMPLE.sub(lambda found: blank(found.group()) or "``", text)
    if path.suffix in checks.CODE | {".inc"}:
        return comments_of_code(text)
    if path.suffix == ".py" or text.startswith("#!/usr/bin/env python"):
        return comments_of_python(text)
    return comments_of_script(text)


def items():
    """Returns where each item is defined: its pages, with repetitions."""
    found = {}
    for page, begin in PAGES:
        path = checks.ROOT / page
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for item in re.findall("^" + begin, text, re.M):
            found.setdefault(item, []).append(page)
    return found


def document(name, path):
    """Returns the document of a citation in a file, or None."""
    for folder in ["", *checks.ROOT.glob("docs/*/"), path.parent]:
        found = checks.ROOT / folder / name
        if found.exists():
            return found
    return None


def wrong_document(name, sections, path):
    """Returns why a document cannot be cited, or None."""
    found = document(name, path)
    if found is None:
        return f"there is no {name}"
    known = HEADING.findall(found.read_text(encoding="utf-8"))
    missing = [section for section in re.findall(r"\d+(?:\.\d+)?", sections or "")
               if section not in known]
    return f"{name} has no section {missing[0]}" if missing else None


def wrong_in(text, path, defined):
    """Returns (offset, finding) of each citation that leads nowhere."""
    for found in ITEM.finditer(text):
        for item in filter(None, found.groups()):
            page = PAGE_OF.get(item[0], "any page in scripts/citations.py")
            if item not in defined:
                yield found.start(), f"{item} is no item of {page}"
    for found in DOCUMENT.finditer(text):
        reason = wrong_document(*found.groups(), path)
        if reason:
            yield found.start(), reason
    for found in DECISION.finditer(text):
        number = int(found.group(1))
        if not list(checks.ROOT.glob(f"docs/decisions/{number:04}-*.md")):
            yield found.start(), f"there is no decision {number}"
    for found in RESULT.finditer(text):
        if not (checks.ROOT / found.group()).exists():
            yield found.start(), f"there is no {found.group()}: cite a newer result"
    for form, remedy in UNKNOWN + ([] if path.suffix == ".md" else [BARE]):
        for found in form.finditer(text):
            shown = " ".join(found.group().split())
            yield found.start(), f'"{shown}" is no form of citation: {remedy}'


def check_citations():
    defined = items()
    findings = [f"{item} is defined more than once: {', '.join(pages)}"
                for item, pages in defined.items() if len(pages) > 1]
    files = checks.sources(checks.CODE | {".inc"}) + checks.scripts() + [
        path.relative_to(checks.ROOT) for path in checks.documents()]
    for path in sorted(set(files)):
        text = read(path)
        findings += [f"{path}:{text.count(chr(10), 0, at) + 1}: {reason}"
                     for at, reason in sorted(wrong_in(text, path, defined))]
    return findings
