# SPDX-License-Identifier: Apache-2.0
"""The Python reference: signatures from the package's stubs, texts from its docstrings.

The extension module has no annotations, and the stubs have no texts; Sphinx reads the
module. The docstrings are plain text, which becomes reStructuredText here.
"""

import ast
import copy
import pathlib
import re

import devrt

ARGUMENT = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*): ")


def functions(node, prefix=""):
    """The functions of a stub by their qualified names, the first overload of each."""
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            yield prefix + child.name, child


def signatures():
    found = {}
    for stub in sorted(pathlib.Path(devrt.__file__).parent.glob("*.pyi")):
        for name, function in functions(ast.parse(stub.read_text(encoding="utf-8"))):
            if name.endswith(".__new__"):
                name = name[:-len(".__new__")]
            found.setdefault(name, function)
    return found


def signature_of(function, is_method):
    arguments = copy.deepcopy(function.args)
    if is_method and not any(isinstance(d, ast.Name) and d.id == "staticmethod"
                             for d in function.decorator_list):
        for names in (arguments.posonlyargs, arguments.args):
            if names and names[0].arg in ("self", "cls"):
                del names[0]
                break
    returned = ast.unparse(function.returns) if function.returns else None
    return f"({ast.unparse(arguments)})", returned


def paragraph(lines):
    """A paragraph as reStructuredText. Each argument that it describes is an item."""
    out, in_item = [], False
    for line in lines:
        # `name` is Markdown's for code; a star, a bar and a last _ have a meaning.
        text = re.sub(r"`([^`]+)`", r"``\1``", line)
        if "``" not in text:
            text = re.sub(r"([*|]|_(?!\w))", r"\\\1", text)
        if match := ARGUMENT.match(line):
            names = match[1].replace("*", r"\*")
            out += ["", f"* **{names}**: {text[match.end():]}"]
            in_item = True
        else:
            out.append("  " + text if in_item else text)
    return out


def as_rst(lines):
    """A plain docstring as reStructuredText."""
    out, block = [], []

    def flush():
        if block and all(line.startswith("    ") for line in block if line):
            out.extend([".. code-block:: python", "", *block])
        else:
            out.extend(paragraph(block))
        out.append("")
        block.clear()

    for line in lines:
        indented = line.startswith("    ")
        in_code = bool(block) and block[0].startswith("    ")
        if not line:
            if block and not in_code:
                flush()
            elif block:
                block.append("")
        else:
            if block and indented != in_code:
                flush()
            block.append(line)
    flush()
    return out


def setup(app):
    found = signatures()

    def process_docstring(app, what, name, object_, options, lines):
        lines[:] = as_rst(lines)

    def process_signature(app, what, name, object_, options, signature, returned):
        # The extension's classes name their module devrt or devrt._core.
        local = re.sub(r"^devrt\.(?:\w+\.)*?(?=[A-Z]\w*\.|\w+$)", "", name)
        function = found.get(local)
        if function is None or what in ("property", "attribute", "data"):
            return signature, returned
        return signature_of(function, is_method=what != "function")

    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("autodoc-process-signature", process_signature)
