#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a notebook's code cells without Jupyter, in one namespace.

usage: run_notebook.py NOTEBOOK          and keeps their outputs in it
       run_notebook.py --check NOTEBOOK  and compares: text must be equal, pictures
                                         must have the same boxes

A cell's output is what it prints, and the picture that its last line makes.
"""

import ast
import contextlib
import io
import json
import pathlib
import re
import sys

BOX = re.compile(r"<title>([^\n<]*)")


def execute(source, names, where):
    """[(kind, text)] of one cell."""
    tree = ast.parse(source, where)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        if last is not None:
            value = eval(compile(last, where, "eval"), names)
    outputs = []
    if printed.getvalue():
        outputs.append(("text", printed.getvalue()))
    if hasattr(value, "_repr_svg_"):
        outputs.append(("picture", value._repr_svg_()))
    elif value is not None:
        outputs.append(("text", repr(value) + "\n"))
    return outputs


def as_output(kind, text):
    lines = text.splitlines(keepends=True)
    if kind == "text":
        return {"name": "stdout", "output_type": "stream", "text": lines}
    return {"data": {"image/svg+xml": lines}, "metadata": {},
            "output_type": "display_data"}


def as_pair(output):
    if output["output_type"] == "stream":
        return "text", "".join(output["text"])
    return "picture", "".join(output["data"]["image/svg+xml"])


def comparable(output):
    """Text, or a picture's boxes: when they ran may change."""
    kind, text = as_pair(output)
    return (kind, text) if kind == "text" else (kind, BOX.findall(text))


def run(path, check):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names, wrong = {"__name__": "__main__"}, 0
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        where = f"{path.name}[{number}]"
        outputs = [as_output(*pair)
                   for pair in execute("".join(cell["source"]), names, where)]
        kept = [comparable(output) for output in cell["outputs"]]
        if check and kept != [comparable(output) for output in outputs]:
            print(f"{where}: other outputs than the notebook has: {outputs}")
            wrong += 1
        cell.update(outputs=outputs, execution_count=number)
    if not check:
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")
    print(f"{len(cells)} cells, {wrong} wrong")
    return 1 if wrong else 0


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    paths = [a for a in arguments if a != "--check"]
    if len(paths) != 1:
        sys.exit(__doc__)
    return run(pathlib.Path(paths[0]), check)


if __name__ == "__main__":
    sys.exit(main())
