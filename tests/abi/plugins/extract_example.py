#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the worked example of devrt_plugin_helper.h to a source file, so that
what an author copies is what the tests compile and load.

usage: extract_example.py HEADER OUTPUT
"""

import pathlib
import sys

FIRST = "//   #include "
LAST = "//   DEVRT_DEFINE_PLUGIN("


def extract(header):
    lines = header.read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(FIRST))
    last = next(i for i, line in enumerate(lines) if line.startswith(LAST))
    code = [line.removeprefix("//").removeprefix("   ")
            for line in lines[first:last + 1]]
    return f'#line {first + 1} "{header}"\n' + "\n".join(code) + "\n"


def main():
    header, output = map(pathlib.Path, sys.argv[1:])
    output.write_text(extract(header), encoding="utf-8")


if __name__ == "__main__":
    main()
