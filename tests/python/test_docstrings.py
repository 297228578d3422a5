# SPDX-License-Identifier: Apache-2.0
"""Every public name of the package has a docstring, from which the site's reference is.

What needs none is what a name says: special methods, and constants such as dtypes.
"""

import ast
import importlib
import inspect
import pathlib
import re

import pytest

import devrt

MODULES = ("devrt", "devrt.simulator", "devrt.testing", "devrt.interop",
           "devrt.accelerator", "devrt.cuda", "devrt.hip", "devrt.mtia")
STUBS = sorted(pathlib.Path(devrt.__file__).parent.glob("*.pyi"))


def is_of_devrt(entry):
    return (getattr(entry, "__module__", None) or "").partition(".")[0] == "devrt"


def members(owner, kind):
    """(name, docstring) of what a class has beyond special and private names."""
    for name, member in vars(kind).items():
        if not name.startswith("_") and (
                callable(member) or isinstance(member, (classmethod, staticmethod))
                or inspect.isdatadescriptor(member)):
            slots = kind.__dict__.get("__slots__")
            said = slots[name] if isinstance(slots, dict) and name in slots else \
                inspect.getdoc(getattr(kind, name))
            yield f"{owner}.{kind.__name__}.{name}", said


def documented(module):
    """(name, docstring) of each public function, class and member of a module."""
    yield module.__name__, module.__doc__
    for name in module.__all__:
        entry = getattr(module, name)
        if inspect.isclass(entry) and is_of_devrt(entry):
            yield f"{module.__name__}.{name}", vars(entry).get("__doc__")
            yield from members(module.__name__, entry)
        elif callable(entry) and not inspect.isclass(entry):
            yield f"{module.__name__}.{name}", entry.__doc__


def without_text(entries):
    return [name for name, text in entries if not (text or "").strip()]


@pytest.mark.parametrize("name", MODULES)
def test_public_names_have_docstrings(name):
    entries = list(documented(importlib.import_module(name)))
    assert len(entries) > 5
    assert without_text(entries) == []


def test_names_without_docstrings_are_found():
    class Told:
        """A class."""
        __slots__ = {"number": "A number.", "silent": ""}

        def method(self):
            pass

    assert sorted(without_text(members("module", Told))) == ["module.Told.method",
                                                             "module.Told.silent"]


def declared(stub):
    """(class, name) of the public functions, classes and attributes of a stub."""
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield None, node.name
        for child in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                yield node.name, child.name
            elif isinstance(child, ast.AnnAssign):
                yield node.name, child.target.id


def text_of(owner, name):
    """The docstring of a name of a stub. The classes of errors describe their attributes
    in their own docstrings."""
    module = devrt._core if hasattr(devrt._core, owner or name) else devrt
    if owner is None:
        return getattr(module, name).__doc__
    kind = getattr(module, owner)
    own = inspect.getattr_static(kind, name, None)
    if own is not None and not isinstance(own, (bool, type(None))):
        return inspect.getdoc(own) if not isinstance(own, property) else own.__doc__
    said = rf"\b{name}\b|\battributes of devrt\.Error\b"
    return next((one.__doc__ for one in kind.__mro__
                 if re.search(said, one.__doc__ or "")), None)


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: path.stem)
def test_names_of_the_stubs_have_docstrings(stub):
    public = [(owner, name) for owner, name in declared(stub)
              if not (owner or "").startswith("_") and not name.startswith("_")]
    assert len(public) > 50
    assert without_text((f"{owner}.{name}", text_of(owner, name))
                        for owner, name in public) == []
