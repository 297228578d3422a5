# SPDX-License-Identifier: Apache-2.0
"""Runs the blocks of a Markdown page, in order, as a reader would.

usage: pages.py PAGE FOLDER [--no-shell]; prints one JSON list: [line, result, said].

  ```python           runs in the page's one namespace; a first line "# FILE.py"
                      makes it that file's content instead
  ```python gpu       runs only where the backend cuda has devices
  ```python MODULE    runs only where MODULE is installed; "gpu" may stand with it
  ```python c++       runs only where a program can be compiled against devrt
  ```python fragment  is compiled, and not run: it uses names that are not shown.
                      Those that it takes from devrt's modules must be there
  ```cpp              is a file's content, if its first line is "// FILE.cc"
  ```toml             is a file's content, if its first line is "# FILE.toml"
  ```sh               is run in FOLDER, by bash: each of its commands has to succeed.
                      With --no-shell it is to be read only
  ```sh exit N        ends with exit code N instead
  ```sh MODULE        runs only where MODULE is installed
  ```text             is what the block before it prints; "..." is anything
  ```sh by hand       and everything else is to be read only

A Python block that is skipped is compiled, as a fragment is. Results are "ok", "skipped"
and "failed"; after a failure nothing more is run.
"""

import ast
import contextlib
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))
import follow_page  # noqa: E402

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.M | re.S)
CPP_FILE = re.compile(r"// (\w+\.cc)\n")
# Commands that are not on every machine, at the beginning of a line or behind a pipe.
COMMANDS = re.compile(r"(?:^|\| )(?:\w+=\S+ )*(devrt|jq) ", re.M)
FILE = re.compile(r"# ((?:[\w-]+/)*[\w.]+\.(?:py|toml))\n")
EXIT = re.compile(r" exit (\d+)$")


def blocks(text, shell=True):
    """(line, language, content) of every block that is run, compiled or compared."""
    found, before_is_run = [], False
    for match in FENCE.finditer(text):
        language, content = match.group(1).strip(), match.group(2)
        first = language.split(" ")[0]
        is_run = (first == "python"
                  or first == "sh" and shell and language != "sh by hand"
                  or language == "cpp" and CPP_FILE.match(content)
                  or language == "toml" and FILE.match(content))
        if is_run or language == "text" and before_is_run:
            line = text.count("\n", 0, match.start(2)) + 1
            found.append((line, language, content))
        before_is_run = is_run and language != "python fragment"
    return found


def pages_that_run(root):
    """The pages under docs/ that this program follows."""
    # tests/install follows the others from an installed tree.
    others = {root / page for page in follow_page.PAGES}
    return [page for page in sorted((root / "docs").rglob("*.md"))
            if page not in others and blocks(page.read_text(encoding="utf-8"))]


def can_compile():
    """Returns True if there are a C++ compiler and devrt's headers."""
    return (shutil.which("c++") is not None and shutil.which("pkg-config") is not None
            and subprocess.run(["pkg-config", "--exists", "devrt"]).returncode == 0)


def missing(language, needs, source):
    """Returns a need of the block that this machine lacks, or None."""
    if language == "sh":
        for command in COMMANDS.findall(source):
            if not shutil.which(command):
                return f"needs the command {command}"
    if language == "sh" and "pkg-config" in source:
        needs = [*needs, "c++"]
    for need in needs:
        if need == "gpu":
            import devrt

            if not devrt.is_available("cuda"):
                return "needs a GPU of the backend cuda"
        elif need == "c++":
            if not can_compile():
                return "needs a C++ compiler and devrt's headers"
        elif not is_installed(need):
            return f"needs the module {need}"
    return None


def is_installed(module):
    """Returns True if there is such a module; "a.b" imports the package a."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def imported(tree):
    """{name: object} of what the source imports from devrt."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "devrt":
                    module = importlib.import_module(name.name)
                    found[name.asname or "devrt"] = (
                        module if name.asname else importlib.import_module("devrt"))
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "devrt":
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
                found[name.asname or name.name] = getattr(module, name.name)
    return found


def check_names(source, name):
    """Raises AttributeError or ImportError for a name that devrt does not have.

    A source that imports nothing may use `devrt` and `interop`."""
    tree = ast.parse(source, name)
    import devrt.interop

    known = {"devrt": devrt, "interop": devrt.interop, **imported(tree)}
    stored = {node.id for node in ast.walk(tree)
              if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        names = []
        while isinstance(node, ast.Attribute):
            names.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in known.keys() - stored:
            found = known[node.id]
            for attribute in names:
                found = getattr(found, attribute)


def equal(wanted, got):
    wanted, got = ("".join(line.rstrip() + "\n" for line in t.rstrip().split("\n"))
                   for t in (wanted, got))
    if wanted == got:
        return True
    import doctest  # takes longer than most pages

    return doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS)


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

    def file(self, source):
        """Writes a block whose first line names its file; returns False without one."""
        match = FILE.match(source)
        if match is not None:
            path = pathlib.Path(match.group(1))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
        return match is not None

    def python(self, line, source):
        if self.file(source):
            return
        # So that messages and timelines name the page's line.
        code = compile("\n" * (line - 1) + source, self.path.name, "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, self.names)
        self.output = printed.getvalue()

    def shell(self, source, code):
        done = subprocess.run(["bash", "-euc", source], capture_output=True,
                              text=True, timeout=120)
        self.output = done.stdout + done.stderr
        if done.returncode != code:
            return "failed", f"exit code {done.returncode}:\n{self.output}"
        return "ok", ""

    def run(self, line, language, source):
        code = EXIT.search(language)
        language, *needs = EXIT.sub("", language).split(" ")
        if needs == ["fragment"]:
            check_names(source, self.path.name)
            return "ok", ""
        lacking = missing(language, needs, source)
        # A skipped block's output is not compared either.
        self.skipped = lacking or (self.skipped if language == "text" else None)
        if self.skipped:
            if language == "python":
                check_names(source, self.path.name)
            return "skipped", self.skipped
        if "gpu" in needs:
            self.prepare()
        if language == "python":
            self.python(line, source)
        elif language == "sh":
            return self.shell(source, int(code[1]) if code else 0)
        elif language == "toml":
            self.file(source)
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
