# SPDX-License-Identifier: Apache-2.0
"""The stubs name what there is and how it is called, and all has a text."""

import ast
import inspect
import pathlib

import pytest

import devrt
from devrt import _arrays, _core

FOLDER = pathlib.Path(_arrays.__file__).parent
STUBS = ast.parse((FOLDER / "_arrays.pyi").read_text())
CORE = ast.parse((FOLDER / "_core.pyi").read_text())
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
def test_classes_have_the_names_of_their_stubs(name):
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


# ---- Signatures --------------------------------------------------------------

P = inspect.Parameter


def in_stub(node):
    """[(name, kind, default)] of a function; `...` is any default."""
    given = node.args
    positional = [(one, P.POSITIONAL_ONLY) for one in given.posonlyargs]
    positional += [(one, P.POSITIONAL_OR_KEYWORD) for one in given.args]
    defaults = [P.empty] * (len(positional) - len(given.defaults))
    defaults += [ast.literal_eval(value) for value in given.defaults]
    rows = [(one.arg, kind, default)
            for (one, kind), default in zip(positional, defaults)]
    if given.vararg:
        rows.append((given.vararg.arg, P.VAR_POSITIONAL, P.empty))
    for one, value in zip(given.kwonlyargs, given.kw_defaults):
        default = P.empty if value is None else ast.literal_eval(value)
        rows.append((one.arg, P.KEYWORD_ONLY, default))
    if given.kwarg:
        rows.append((given.kwarg.arg, P.VAR_KEYWORD, P.empty))
    return rows


def as_it_is(function):
    return [(one.name, one.kind, one.default)
            for one in inspect.signature(function).parameters.values()]


def same_signature(stub, there):
    return len(stub) == len(there) and all(
        a[:2] == b[:2] and (a[2] == b[2] or
                            (a[2] is ... and b[2] is not P.empty))
        for a, b in zip(stub, there))


def functions_in(body):
    """Those with one signature."""
    return [node for node in body
            if isinstance(node, ast.FunctionDef) and not node.decorator_list]


FUNCTIONS = [node for node in functions_in([*STUBS.body, *CORE.body])
             if getattr(getattr(_core, node.name, None), "__text_signature__",
                        None)]
METHODS = [
    (owner.name, node)
    for owner in [*STUBS.body, *CORE.body] if isinstance(owner, ast.ClassDef)
    for node in functions_in(owner.body)
    if node.name not in ("__new__", "__init__") and getattr(
        vars(getattr(_core, owner.name)).get(node.name), "__text_signature__",
        None)]


def test_there_are_signatures():
    names = {node.name for node in functions_in(STUBS.body)}
    assert names <= {node.name for node in FUNCTIONS}
    named = {node.name for owner, node in METHODS if owner == "Array"}
    assert {"sum", "to", "copy_", "fill", "__dlpack__"} <= named


@pytest.mark.parametrize("node", FUNCTIONS, ids=lambda node: node.name)
def test_signatures_of_functions(node):
    there = as_it_is(getattr(_core, node.name))
    assert same_signature(in_stub(node), there), (in_stub(node), there)


@pytest.mark.parametrize("owner,node", METHODS,
                         ids=lambda x: getattr(x, "name", x))
def test_signatures_of_methods(owner, node):
    there = as_it_is(vars(getattr(_core, owner))[node.name])
    # Its own name of self is nobody's.
    stub, there = in_stub(node)[1:], there[1:]
    # NumPy, Python and libraries of DLPack call the others as they are.
    if not node.name.startswith("__") or node.name == "__dlpack__":
        assert same_signature(stub, there), (stub, there)


class Nothing:
    """No argument of anything."""


@pytest.mark.parametrize("node", functions_in(STUBS.body),
                         ids=lambda node: node.name)
def test_forms_of_calls(node):
    function = getattr(devrt, node.name)

    def error(*arguments, **named):
        with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
            function(*arguments, **named)
        return str(caught.value)

    rows = in_stub(node)
    positional = [row for row in rows
                  if row[1] in (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)]
    assert "positional" not in error(*[Nothing()] * len(positional))
    assert "positional" in error(*[Nothing()] * (len(positional) + 1))
    assert "unexpected" in error(*[Nothing()] * len(positional), nothing=1)
    for name, kind, _ in rows:
        text = error(**{name: Nothing()})
        assert ("unexpected" in text) == (kind == P.POSITIONAL_ONLY), text
    required = [row for row in positional if row[2] is P.empty]
    assert "missing" in error(*[Nothing()] * (len(required) - 1))


def test_functions_have_texts_of_their_own():
    for name in ("sum", "prod", "min", "max", "mean", "any", "all"):
        text = getattr(devrt, name).__doc__
        assert "axes" in text and "Raises" in text, name


def test_out_by_position():
    x = devrt.ones(3, "float32")
    out = devrt.zeros(3, "float32")
    assert devrt.add(x, x, out) is out and out.tolist() == [2, 2, 2]
    assert devrt.negative(x, out) is out and out.tolist() == [-1, -1, -1]
    with pytest.raises(TypeError, match="'out'|as out"):
        devrt.add(x, x, 1)
