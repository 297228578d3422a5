#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the C++ program that a Markdown document shows to a file.

usage: extract_snippet.py DOCUMENT OUTPUT

The document's one ```cpp block has to be a whole program, so that what a
reader copies is what the test compiles and runs. Compiler messages name the
document and its line.
"""

import pathlib
import re
import sys

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.M | re.S)


def extract(document):
    text = document.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    if len(blocks) != 1:
        sys.exit(f"{document.name}: {len(blocks)} ```cpp blocks, expected one")
    program = blocks[0].group(1)
    if not re.search(r"^int main\(", program, re.M):
        sys.exit(f"{document.name}: the ```cpp block has no main function")
    line = text.count("\n", 0, blocks[0].start(1)) + 1
    return f'#line {line} "{document.name}"\n{program}'


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    document, output = map(pathlib.Path, sys.argv[1:])
    output.write_text(extract(document), encoding="utf-8")


if __name__ == "__main__":
    main()
