# SPDX-License-Identifier: Apache-2.0
"""Runs the blocks of a Markdown page, in order, as a reader would.

usage: pages.py PAGE FOLDER [--no-shell]; prints one JSON list: [line, result, said].

  ```python           runs in the page's one namespace; a first line "# FILE.py"
                      makes it that file's content instead
  ```python gpu       runs only where the backend cuda has devices
  ```python MODULE    runs only where MODULE is installed; "gpu" may stand with it
  ```python c++       runs only where a program can be compiled against devrt
  ```python fragment  is compiled, and not run: it uses names that are not shown
  ```cpp              is a file's content, if its first line is "// FILE.cc"
  ```sh               is run in FOLDER, by bash; what it returns is not looked at;
                      with --no-shell it is to be read only
  ```text             is what the block before it prints; "..." is anything
  ```sh by hand       and everything else is to be read only

Results are "ok", "skipped" and "failed"; after a failure nothing more is run.
"""

import contextlib
import doctest
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import traceback

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.M | re.S)
CPP_FILE = re.compile(r"// (\w+\.cc)\n")
CALLS_DEVRT = re.compile(r"^(?:\w+=\S+ )*devrt ", re.M)
FILE = re.compile(r"# ([\w.]+\.py)\n")


def blocks(text, shell=True):
    """(line, language, content) of every block that is run, compiled or compared."""
    found, before_is_run = [], False
    for match in FENCE.finditer(text):
        language = match.group(1).strip()
        is_run = (language.split(" ")[0] == "python" or language == "sh" and shell
                  or language == "cpp" and CPP_FILE.match(match.group(2)))
        if is_run or language == "text" and before_is_run:
            line = text.count("\n", 0, match.start(2)) + 1
            found.append((line, language, match.group(2)))
        before_is_run = is_run and language != "python fragment"
    return found


def can_compile():
    """Returns True if there are a C++ compiler and devrt's headers."""
    return (shutil.which("c++") is not None and shutil.which("pkg-config") is not None
            and subprocess.run(["pkg-config", "--exists", "devrt"]).returncode == 0)


def missing(language, needs, source):
    """What a block needs and this machine lacks, or None."""
    if language == "sh" and CALLS_DEVRT.search(source) and not shutil.which("devrt"):
        return "needs the command devrt"
    if language == "sh" and "pkg-config" in source:
        needs = ["c++"]
    for need in needs:
        if need == "gpu":
            import devrt

            if not devrt.is_available("cuda"):
                return "needs a GPU of the backend cuda"
        elif need == "c++":
            if not can_compile():
                return "needs a C++ compiler and devrt's headers"
        elif importlib.util.find_spec(need) is None:
            return f"needs the module {need}"
    return None


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
        self.skipped = None

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
        language, *needs = language.split(" ")
        if needs == ["fragment"]:
            compile(source, self.path.name, "exec")
            return "ok", ""
        lacking = missing(language, needs, source)
        # What a block that was skipped would print is not compared either.
        self.skipped = lacking or (self.skipped if language == "text" else None)
        if self.skipped:
            return "skipped", self.skipped
        if "gpu" in needs:
            self.prepare()
        if language == "python":
            self.python(line, source)
        elif language == "sh":
            self.shell(source)
        elif language == "cpp":
            pathlib.Path(CPP_FILE.match(source).group(1)).write_text(
                source, encoding="utf-8")
        elif not equal(source, self.output):
            return "failed", f"shown:\n{source}printed:\n{self.output}"
        return "ok", ""

    def try_to_run(self, line, language, source):
        try:
            return self.run(line, language, source)
        except Exception:
            return "failed", traceback.format_exc()


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    os.chdir(sys.argv[2])
    sys.path.insert(0, sys.argv[2])
    page, results = Page(path), []
    text = path.read_text(encoding="utf-8")
    for line, language, source in blocks(text, "--no-shell" not in sys.argv):
        result, said = page.try_to_run(line, language, source)
        results.append([line, result, said])
        if result == "failed":
            break
    print(json.dumps(results))


if __name__ == "__main__":
    main()
