#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the plain comments of a header into Doxygen's, on standard output.

Doxygen reads only comments with its own marks, and has no option for others. The first
comment of a file describes the file. A comment on lines of its own describes the
declaration behind it. A comment behind code describes that code.
"""

import re
import sys

# A comment on lines of its own, and one behind code, in C++ and in C. A rule of dashes
# divides a file, and describes nothing.
OWN = re.compile(r"^(\s*)//(?: (?!-{4})(.*))?$")
BEHIND = re.compile(r"^(\s*[^\s/#].*[;,{})])(\s+)// (.*)$")
C_OWN = re.compile(r"^(\s*)/\* (?!-{2})(.*)$")
C_BEHIND = re.compile(r"^(\s*[^\s/].*?)(\s+)/\* (.*)$")


def example(text):
    """The text, with an example indented as Markdown wants it, and no HTML entities."""
    text = re.sub(r"&(?=\w+;)", "&amp;", text)
    return "  " + text if text.startswith("  ") else text


def converted(lines):
    column = None  # of the comment behind the code of the line before
    in_c = False   # inside a comment of several lines
    in_specialization = False
    for line in lines:
        if in_c:
            in_c = "*/" not in line
            yield re.sub(r"^(\s*\* )( {2})", r"\1  \2", line)
            continue
        own = OWN.match(line)
        if line.startswith("// SPDX"):
            yield "/// \\file"
        elif line.startswith("/* SPDX"):
            yield "/** \\file"
            in_c = "*/" not in line
        elif own:
            mark = "///<" if len(own[1]) == column else "///"
            yield f"{own[1]}{mark} {example(own[2] or '')}"
            continue
        elif behind := BEHIND.match(line):
            yield f"{behind[1]}{behind[2]}///< {behind[3]}"
            column = len(behind[1] + behind[2])
            continue
        elif c := C_OWN.match(line):
            yield f"{c[1]}/** {c[2]}"
            in_c = "*/" not in line
        elif c := C_BEHIND.match(line):
            yield f"{c[1]}{c[2]}/**< {c[3]}"
            in_c = "*/" not in line
        elif line == "template <>":  # of std::hash, which the reference leaves out
            in_specialization = True
            yield "/// \\cond"
            yield line
        else:
            yield line
            if in_specialization and line == "};":
                in_specialization = False
                yield "/// \\endcond"
        column = None


def main():
    with open(sys.argv[1], encoding="utf-8") as header:
        print("\n".join(converted(header.read().splitlines())))


if __name__ == "__main__":
    main()
