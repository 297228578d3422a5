# SPDX-License-Identifier: Apache-2.0
"""The stubs of arrays name what there is, and everything has a text."""

import ast
import pathlib

import pytest

import devrt
from devrt import _arrays

STUBS = ast.parse(
    pathlib.Path(_arrays.__file__).with_suffix(".pyi").read_text())
# Methods that Python makes of type slots, or that nobody calls.
IMPLICIT = {"__doc__", "__module__", "__new__", "__repr__", "__str__",
            "__hash__", "__reduce__", "__reduce_ex__", "__getattribute__",
            "__delitem__", "__buffer__", "__release_buffer__"}


def names_in(body):
    names = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    return names


@pytest.mark.parametrize("name", ["Array", "DType"])
def test_classes(name):
    (stub,) = [n for n in STUBS.body
               if isinstance(n, ast.ClassDef) and n.name == name]
    there = set(vars(getattr(devrt, name))) - IMPLICIT
    if name == "DType":  # a slot for == brings those that it refuses
        there -= {"__lt__", "__le__", "__gt__", "__ge__"}
    assert names_in(stub.body) - IMPLICIT == there


def test_functions_and_constants():
    assert names_in(STUBS.body) == set(_arrays.__all__)


def test_everything_has_a_text():
    for name in _arrays.__all__:
        assert getattr(devrt, name).__doc__, name
    for name, member in vars(devrt.Array).items():
        if not name.startswith("_"):
            assert member.__doc__, name
            if callable(member):
                assert member.__text_signature__, name
