#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the plain comments of a header into Doxygen's, on standard output.

Doxygen reads only comments with its own marks, and has no option for others. The first
comment of a file describes the file. A comment on lines of its own describes the
declaration behind it. A comment behind code describes that code.

Text that is indented by two blanks is an example, or a list: its items begin with a
dash, a number, or a term and two blanks. Both become Markdown. Each line stays one line,
so that the line numbers of Doxygen's output are those of the header.
"""

import re
import sys

# A comment on lines of its own, and one behind code, in C++ and in C. A rule of dashes
# divides a file, and describes nothing.
OWN = re.compile(r"^(\s*)//(?: (?!-{4}|NOLINT)(.*))?$")
BEHIND = re.compile(r"^(\s*[^\s/#*].*[;,{})])(\s+)// (.*)$")
C_OWN = re.compile(r"^(\s*)/\* (?!-{2})(.*)$")
C_LINE = re.compile(r"^(\s*\*(?: |$))(.*)$")
C_BEHIND = re.compile(r"^(\s*[^\s/].*?)(\s+)/\* (.*)$")
# Marks where the text behind code begins; reference_xml.py takes it away.
BEHIND_CODE = "\u2063"
SPECIAL = re.compile(r"(?<![`\w])__\w+__(?![`\w])")  # Markdown would make it bold
# The items of a list. A term ends without a mark, in contrast to a sentence or code.
ITEM = re.compile(r"^( +)(- |\d+\. )(.*)$")
TERM = re.compile(r"^( *)(\S(?:.*?[^.;:,\s/])?) {2,}([^\s/].*)$")
COLUMNS = re.compile(r"\S {2,}\S.* {2,}\S")


def list_item(line, in_list):
    """The line as an item of a Markdown list; None if it is no item."""
    if marked := ITEM.match(line):
        indent, mark, text = marked.groups()
        if term := TERM.match(text):
            text = f"**{term[2]}**: {term[3]}"
        return f"{indent}{mark}{text}"
    term = TERM.match(line)
    if term and len(term[1]) in in_list:
        return f"{term[1]}- **{term[2]}**: {term[3]}"
    return None


def without_entities(text):
    """`&name;` is an address, and no entity of HTML."""
    return re.sub(r"&(?=\w+;)", "&amp;", text)


def indented(lines):
    """A paragraph of indented lines: a list, or an example as Markdown wants it."""
    first = len(lines[0]) - len(lines[0].lstrip())
    table = sum(bool(COLUMNS.search(line)) for line in lines) > 1
    if table or list_item(lines[0], {first}) is None:
        return ["  " + line for line in lines]
    lines = [without_entities(line) for line in lines]
    out, depth, starts = [], first, {first}
    for line in lines:
        start = len(line) - len(line.lstrip())
        if out and out[-1].endswith(":"):
            starts.add(start)  # a list inside the item
        item = list_item(line, starts)
        if item is not None:
            mark = ITEM.match(item)
            depth = len(mark[1] + mark[2])
            out.append(item)
        else:
            out.append(" " * depth + line.lstrip())
    return out


def markdown(texts):
    """The lines of a comment as Markdown."""
    out, block = [], []
    for text in [*texts, ""]:
        if text.startswith("  "):
            block.append(text)
            continue
        if block:
            out += indented(block)
            block = []
        out.append(SPECIAL.sub(r"`\g<0>`", without_entities(text)))
    return out[:-1]


def own_comments(lines):
    """The lines with `//` comments on lines of their own as Doxygen's."""
    block, column = [], None

    def flush():
        texts = markdown([text for _, _, text in block])
        yield from (f"{indent}{mark} {text}"
                    for (indent, mark, _), text in zip(block, texts))
        block.clear()

    for line in lines:
        own = OWN.match(line)
        if own and not line.startswith("// SPDX"):
            mark = "///<" if len(own[1]) == column else "///"
            block.append((own[1], mark, own[2] or ""))
            continue
        yield from flush()
        column = None
        if line.startswith("// SPDX"):
            yield "/// \\file"
        elif behind := BEHIND.match(line):
            yield f"{behind[1]}{behind[2]}///< {BEHIND_CODE}{behind[3]}"
            column = len(behind[1] + behind[2])
        else:
            yield line
    yield from flush()


def c_comments(lines):
    """The lines with `/* */` comments as Doxygen's."""
    block = None  # the lines of a comment of several lines behind its first one

    def flush():
        heads = [C_LINE.match(line) for line in block]
        texts = markdown([head[2] if head else "" for head in heads])
        yield from (head[1] + text if head else line
                    for head, line, text in zip(heads, block, texts))

    for line in lines:
        if block is not None:
            block.append(line)
            if "*/" in line:
                yield from flush()
                block = None
            continue
        if line.startswith("/* SPDX"):
            yield "/** \\file"
        elif own := C_OWN.match(line):
            yield f"{own[1]}/** {own[2]}"
        elif behind := C_BEHIND.match(line):
            yield f"{behind[1]}{behind[2]}/**< {BEHIND_CODE}{behind[3]}"
            continue_in_text = "*/" not in line
            if not continue_in_text:
                continue
        else:
            yield line
            continue
        if "*/" not in line:
            block = []


def without_specializations(lines):
    """The lines without those of std::hash, which the reference leaves out."""
    inside = False
    for line in lines:
        if line == "template <>":
            inside = True
            yield "/// \\cond"
        yield line
        if inside and line == "};":
            inside = False
            yield "/// \\endcond"


def converted(lines):
    return without_specializations(c_comments(own_comments(lines)))


def main():
    with open(sys.argv[1], encoding="utf-8") as header:
        print("\n".join(converted(header.read().splitlines())))


if __name__ == "__main__":
    main()
