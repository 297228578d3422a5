#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the C++ program that a Markdown document shows, and compares its output.

usage: run_snippet.py DOCUMENT PROGRAM

The program is the one that extract_snippet.py took from the document. A ```text block
that is the next block of the document has the program's output.
"""

import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
import blocks  # noqa: E402


def main():
    document, program = sys.argv[1:]
    wanted = blocks.output_of_program(pathlib.Path(document))
    done = subprocess.run([program], text=True, stdout=subprocess.PIPE)
    print(done.stdout)
    if done.returncode == 0 and wanted not in (None, done.stdout):
        sys.exit(f"{document} shows another output:\n{wanted}")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
