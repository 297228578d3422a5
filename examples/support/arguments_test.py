#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an example says to a command line: arguments_test.py PROGRAM"""

import pathlib
import subprocess
import sys

REFUSED = {
    "halo_exchange": ["--rows=2", "--columns=2", "--steps=0", "--at_least=101"],
    "pipeline": ["--chunks=0", "--chunks=4294967296", "--kibibytes=0"],
    "ring_allreduce": [
        "--mebibytes=0", "--mebibytes=9007199254740993", "--runs=0",
        "--piece_kibibytes=0", "--at_least=-1", "--hidden_at_least=x",
    ],
}  # fmt: skip
OF_ALL = ["--devices=0", "--devices=many", "--device=2", "--rows", "word"]


def run(program, *words):
    return subprocess.run([program, "--timeline=", *words], text=True,
                          capture_output=True, timeout=60, check=False)


def main():
    program = sys.argv[1]
    name = pathlib.Path(program).name
    for word in REFUSED[name] + OF_ALL:
        made = run(program, word)
        known = word.startswith("--") and not word.startswith("--device=")
        says = word if known and "=" in word else "the options are --"
        if made.returncode != 2 or says not in made.stderr or made.stdout:
            sys.exit(f"{name} {word}: {made}")
    made = run(program, "--help")
    if made.returncode != 0 or "--devices=2" not in made.stdout or made.stderr:
        sys.exit(f"{name} --help: {made}")
    made = run(program, "--backend=none")
    if made.returncode != 1 or "none" not in made.stderr or made.stdout:
        sys.exit(f"{name} --backend=none: {made}")


main()
