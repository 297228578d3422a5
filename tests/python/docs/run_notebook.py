#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a notebook's code cells without Jupyter, in one namespace.

usage: run_notebook.py NOTEBOOK

Prints JSON: for each code cell {"text": TEXT, "picture": SVG or null}. The text is
what the cell prints, the picture is what its last line makes.
"""

import ast
import contextlib
import io
import json
import pathlib
import sys


def execute(source, names, where):
    tree = ast.parse(source, where)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    printed, picture = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        value = eval(compile(last, where, "eval"), names) if last else None
        if hasattr(value, "_repr_svg_"):
            picture = value._repr_svg_()
        elif value is not None:
            print(repr(value))
    return {"text": printed.getvalue(), "picture": picture}


def main():
    path = pathlib.Path(sys.argv[1])
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names = {"__name__": "__main__"}
    sources = ["".join(cell["source"]) for cell in cells
               if cell["cell_type"] == "code"]
    outputs = [execute(source, names, f"{path.name}[{number}]")
               for number, source in enumerate(sources, 1)]
    json.dump(outputs, sys.stdout)


if __name__ == "__main__":
    main()
