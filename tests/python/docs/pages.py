# SPDX-License-Identifier: Apache-2.0
"""Runs the blocks of a Markdown page, in order, as a reader would.

usage: pages.py PAGE FOLDER [--no-shell]; prints one JSON list: [line, result, said].

  ```python       runs in the page's one namespace; a first line "# FILE.py"
                  makes it that file's content instead
  ```python gpu   only where the backend cuda has devices
  ```sh           is run in FOLDER, by bash; what it returns is not looked at;
                  with --no-shell it is to be read only
  ```text         is what the block before it prints; "..." is anything
  ```sh by hand   and everything else is to be read only

Results are "ok", "skipped" and "failed"; after a failure nothing more is run.
"""

import contextlib
import doctest
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import traceback

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"# ([\w.]+\.py)\n")


def blocks(text):
    """(line, language, content) of every block that is run or compared."""
    found = []
    for match in FENCE.finditer(text):
        language = match.group(1).strip()
        if language in ("python", "python gpu", "sh", "text"):
            line = text.count("\n", 0, match.start(2)) + 1
            found.append((line, language, match.group(2)))
    return found


def equal(wanted, got):
    flags = doctest.ELLIPSIS
    trimmed = ["".join(line.rstrip() + "\n" for line in t.rstrip().split("\n"))
               for t in (wanted, got)]
    return doctest.OutputChecker().check_output(*trimmed, flags)


class Page:
    """One page that is being followed."""

    def __init__(self, path):
        self.path = path
        self.names = {"__name__": "__main__"}
        self.output = ""

    def has_gpu(self):
        import devrt

        return "cuda" in devrt.backends() and bool(devrt.devices("cuda"))

    def prepare(self):
        """numba-cuda up to 0.30 wants what NumPy has no more from 2.5 on."""
        import numpy

        if not hasattr(numpy, "row_stack"):
            numpy.row_stack = numpy.vstack

    def python(self, line, source):
        file = FILE.match(source)
        if file is not None:
            pathlib.Path(file.group(1)).write_text(source, encoding="utf-8")
            return
        # So that messages and timelines name the page's line.
        code = compile("\n" * (line - 1) + source, self.path.name, "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, self.names)
        self.output = printed.getvalue()

    def shell(self, source):
        done = subprocess.run(["bash", "-c", source], capture_output=True,
                              text=True, timeout=120)
        self.output = done.stdout + done.stderr

    def run(self, line, language, source):
        if language == "python gpu" and not self.has_gpu():
            return "skipped", "needs a GPU of the backend cuda"
        try:
            if language == "python gpu":
                self.prepare()
            if language.startswith("python"):
                self.python(line, source)
            elif language == "sh":
                self.shell(source)
            elif not equal(source, self.output):
                return "failed", f"shown:\n{source}printed:\n{self.output}"
        except Exception:
            return "failed", traceback.format_exc()
        return "ok", ""


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    os.chdir(sys.argv[2])
    sys.path.insert(0, sys.argv[2])
    page, results = Page(path), []
    for line, language, source in blocks(path.read_text(encoding="utf-8")):
        if language == "sh" and "--no-shell" in sys.argv:
            continue
        result, said = page.run(line, language, source)
        results.append([line, result, said])
        if result == "failed":
            break
    print(json.dumps(results))


if __name__ == "__main__":
    main()
