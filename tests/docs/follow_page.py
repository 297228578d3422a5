# SPDX-License-Identifier: Apache-2.0
"""Does what a page says, to the letter.

  ```sh    is typed into one shell, block by block; a command that fails ends it
  ```cpp   begins with "// FILE" and is that file's content, or with
           `// FILE, instead of "WORDS":` and replaces the line that has WORDS; one
           without a file is compiled by header_examples_test.py
  ```text  stands in the output of the ```sh block before it, line by line,
           whatever the blanks

Blocks without a language and those of more than one word (```sh by hand) are to be read
only.
"""

import os
import pathlib
import re
import subprocess
import sys

# The pages that tests/install follows.
PAGES = [
    "docs/how-to/layers.md",
    "docs/tutorials/0-first-program.md",
    "docs/tutorials/5-write-a-backend.md",
    "docs/tutorials/6-finish-a-backend.md",
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r'// ([\w.]+\.\w+)(?:, instead of "(.*)":)?\n')


class PageError(Exception):
    pass


def replace_line(path, words, text):
    if not path.exists():
        raise PageError(f"no block before has made {path.name}")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    found = [i for i, line in enumerate(lines) if words in line]
    if len(found) != 1:
        raise PageError(f"{path.name}: {len(found)} lines have {words!r}")
    lines[found[0]] = text
    path.write_text("".join(lines), encoding="utf-8")


def write_block(folder, block):
    head = FILE.match(block)
    name, words = head.groups()
    if words is None:
        (folder / name).write_text(block, encoding="utf-8")
    else:
        replace_line(folder / name, words, block[head.end():])


def squeezed(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def check_output(said, expected):
    output = squeezed(said)
    for line in squeezed(expected):
        if line and not any(line in given for given in output):
            raise PageError(f"not in the output: {line!r}\n{said}")


class Shell:
    """One shell: folders and variables last from block to block."""

    END = "-- end of block --"

    def __init__(self, folder, environment):
        self.shell = subprocess.Popen(
            ["bash", "-eu"], cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)

    def type(self, block):
        """Returns the block's output and the shell's folder after it."""
        self.shell.stdin.write(f"{{\n{block}}} </dev/null\n"
                               f"printf '%s\\n' \"$PWD\" '{self.END}'\n")
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line.rstrip("\n") == self.END:
                return "".join(lines[:-1]), pathlib.Path(lines[-1].rstrip("\n"))
            lines.append(line)
        raise PageError(f"failed:\n{block}\n{''.join(lines)}")

    def close(self):
        self.shell.stdin.close()
        self.shell.stdout.read()
        self.shell.stdout.close()
        return self.shell.wait()


def follow(page, folder, environment):
    """Raises PageError where the page is wrong; returns how many blocks ran."""
    shell = Shell(folder, environment)
    said = ""
    blocks = [(language, block) for language, block in
              BLOCK.findall(page.read_text(encoding="utf-8"))
              if language != "cpp" or FILE.match(block)]
    try:
        for language, block in blocks:
            if language == "sh":
                said, folder = shell.type(block)
            elif language == "cpp":
                write_block(folder, block)
            elif language == "text":
                check_output(said, block)
            else:
                raise PageError(f"a block in {language!r}")
    finally:
        shell.close()
    return len(blocks)


def main():
    page, folder = map(pathlib.Path, sys.argv[1:])
    print(follow(page, folder, dict(os.environ)), "blocks")


if __name__ == "__main__":
    main()
