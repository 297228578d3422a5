# SPDX-License-Identifier: Apache-2.0
"""The examples in the package's docstrings run, each in a process of its own.

An example is what the site shows as code (docs/site/python_reference.py). A value behind
the # of an expression is what the expression's repr has to be. An example that needs
another library is not run: the names that it takes from devrt have to exist. One with a
test is run by pytest.
"""

import ast
import importlib
import importlib.util
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("numpy")

from pages import check_names, equal  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
CODE = ".. code-block:: python"
LIBRARY = re.compile(r"\b(torch|cupy)\b")
VALUE = re.compile(r"  # (True|False|\[.*|array\(.*)$")
# Names that the examples use and do not define.
NAMES = """
import concurrent.futures
import numpy
import devrt
pool = concurrent.futures.ThreadPoolExecutor()
work = print
"""
# simulator.reset wants that there is none.
STREAMS = """
producer, consumer = devrt.Stream("mtia:0"), devrt.Stream("mtia:0")
"""
OF_THE_TEST = "import pytest\npipeline = len\nexpected = 4\n"


def site_module(name):
    """A module of docs/site; `pages` is the name of one beside this file too."""
    spec = importlib.util.spec_from_file_location(
        f"site_{name}", ROOT / f"docs/site/{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(ROOT / "docs/site"))  # for what the module imports
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "docs/site"))
    return module


def docstrings():
    """{text: name} of all public objects of the modules that the site shows."""
    found = {}

    def add(name, object_):
        text = getattr(object_, "__doc__", None)
        if isinstance(text, str):
            found.setdefault(inspect.cleandoc(text), name)

    for module in map(importlib.import_module, site_module("pages").MODULES):
        add(module.__name__, module)
        for name, object_ in vars(module).items():
            of_devrt = getattr(object_, "__module__", None) or "devrt"
            if (name.startswith("_") or not of_devrt.startswith("devrt")
                    or inspect.ismodule(object_)):
                continue
            add(f"{module.__name__}.{name}", object_)
            for member in vars(object_) if inspect.isclass(object_) else ():
                if not member.startswith("_"):
                    add(f"{module.__name__}.{name}.{member}", getattr(object_, member))
    return found


def examples():
    """(name, code) of each example."""
    as_rst = site_module("python_reference").as_rst
    found = []
    for text, name in docstrings().items():
        lines = as_rst(text.split("\n"))
        for number, line in enumerate(lines):
            if line == CODE:
                code = []
                for behind in lines[number + 2:]:
                    if behind and not behind.startswith("    "):
                        break
                    code.append(behind[4:])
                found.append((name, "\n".join(code).strip() + "\n"))
    return found


EXAMPLES = examples()


def shown_values(code):
    """[code, value] of each piece: an expression with the value that it shows, or
    statements with None."""
    lines, found = code.split("\n"), []
    for node in ast.parse(code).body:
        value = VALUE.search(lines[node.end_lineno - 1])
        shown = value[1] if value and isinstance(node, ast.Expr) else None
        found.append([ast.unparse(node), shown])
    return found


def run(code, tmp_path):
    """The values that the example shows, and what it has printed."""
    if "@pytest.mark" in code:
        (tmp_path / "test_example.py").write_text(OF_THE_TEST + code, encoding="utf-8")
        command = ["-m", "pytest", "-q", "-p", "devrt.testing.plugin", "test_example.py"]
        wanted = ""
    else:
        pieces = shown_values(code)
        program = NAMES + ("" if "simulator.reset" in code else STREAMS) + "".join(
            f"print(repr({piece}))\n" if value else f"{piece}\n" for piece, value in pieces)
        command = ["-c", program]
        wanted = "".join(f"{value}\n" for _, value in pieces if value)
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{code}\n{done.stdout}"
    return wanted, done.stdout


def test_there_are_examples():
    assert len(EXAMPLES) >= 11
    assert sum(bool(LIBRARY.search(code)) for _, code in EXAMPLES) <= 3


@pytest.mark.parametrize("name,code", EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_example_runs(name, code, tmp_path):
    check_names(code, name)
    if LIBRARY.search(code):
        return
    wanted, printed = run(code, tmp_path)
    if wanted:
        assert equal(wanted, printed)


@pytest.mark.parametrize("code", [
    "devrt.no_such_name()\n", "1 + 1 == 3  # True\n", "raise SystemError\n"])
def test_a_wrong_example_fails(code, tmp_path):
    with pytest.raises((AssertionError, AttributeError)):
        test_example_runs("wrong", code, tmp_path)
