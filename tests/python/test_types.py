# SPDX-License-Identifier: Apache-2.0
"""The package's types, as mypy sees them."""

import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import devrt

pytest.importorskip("mypy")

PACKAGE = pathlib.Path(devrt.__file__).resolve().parents[1]
# mypy finds what is installed itself, and wants no path to it.
PATHS = ({} if PACKAGE.name == "site-packages" else
         {"MYPYPATH": str(PACKAGE), "PYTHONPATH": str(PACKAGE)})


def run_mypy(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **PATHS},
    )


def check_strictly(*arguments, cwd):
    """mypy --strict, with what it remembers from its last run in this build."""
    cache = (cwd.parent / "cache" if PACKAGE.name == "site-packages" else
             PACKAGE.parent / "mypy-cache")
    return run_mypy("mypy", "--strict", "--cache-dir", str(cache), *arguments, cwd=cwd)


def test_package_is_typed(tmp_path):
    done = check_strictly("-p", "devrt", cwd=tmp_path)
    # _numpy.py is called by NumPy alone, and is not typed.
    findings = [line for line in done.stdout.splitlines()
                if ": error:" in line and "/_numpy.py:" not in line]
    assert not findings, "\n".join(findings)
    assert "checked" in done.stdout or "Success" in done.stdout, done.stderr


# stubtest reports these for every type and function of nanobind.
OF_NANOBIND = re.compile(
    r"is not a function$|metaclass differs$|is a disjoint base at runtime"
    r"|stub does not have \*args parameter")


def test_stubs_match_the_module(tmp_path):
    done = run_mypy("mypy.stubtest", "devrt._core", "--concise", cwd=tmp_path)
    # The names of arrays are in a stub of their own, _arrays.pyi.
    arrays = {f"devrt._core.{name} is not present in stub"
              for name in vars(devrt._arrays)}
    findings = [line for line in done.stdout.splitlines()
                if line.startswith("devrt.") and not OF_NANOBIND.search(line)
                and line not in arrays]
    assert not findings, "\n".join(findings)
    assert "Traceback" not in done.stderr and "not checked" not in done.stdout


def parameters(function):
    """Names and kinds of a definition's parameters, without self."""
    args = function.args
    own = [a.arg for a in args.posonlyargs + args.args if a.arg != "self"]
    optional = len(args.defaults)
    return (own, [a.arg for a in args.kwonlyargs],
            own[len(own) - optional:] if optional else [])


def bound_by_nanobind(body, owner):
    """(definition of the stub, function of the module), of all there are."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from bound_by_nanobind(node.body, getattr(owner, node.name))
        elif isinstance(node, ast.FunctionDef):
            function = inspect.getattr_static(owner, node.name, None)
            if hasattr(function, "__nb_signature__"):
                yield node, function


def test_signatures_of_nanobind_match():
    stub = ast.parse((PACKAGE / "devrt/_core.pyi").read_text())
    count = 0
    for node, function in bound_by_nanobind(stub.body, devrt._core):
        text = re.sub(r"= \\\d+", "= None", function.__nb_signature__[0][0])
        while "[" in text:  # what a type is made of, as in dict[tuple[int, int], str]
            text = re.sub(r"\[[^\[\]]*\]", "", text)
        text = re.sub(r": [^,()=]+(\([^)]*\))?(?= =|,|\))", "", text)
        text = re.sub(r"->.*", "", text)
        runtime = ast.parse(text + ": ...").body[0]
        got, want = parameters(runtime), parameters(node)
        if node.name.startswith("__"):
            continue
        assert got == want, node.name
        count += 1
    assert count > 15


USES = '''
from typing import List
import devrt

d: devrt.Device = devrt.device("mtia:1")
with d as inside:
    reveal_type(inside)
s = devrt.Stream(d, priority=-1)
with devrt.stream(s):
    reveal_type(devrt.current_stream())
e: devrt.Event = s.record()
t: float = e.elapsed_time(e)

@d
def f(x: int) -> List[int]:
    return [x]

reveal_type(f)

@devrt.stream(s, also=("torch",))
@devrt.mtia.device(None)
def g(x: str) -> bytes:
    return x.encode()

reveal_type(g)
reveal_type(devrt.cuda.memory_allocated())
'''

WRONG = '''
import devrt

devrt.Stream(3.5)
devrt.device("mtia:1").record()
'''


def test_types_of_a_program_are_checked(said):
    assert not errors(said["uses"]), said["uses"]
    for expected in ("devrt._core.Device", "devrt._core.Stream",
                     "-> list[int]", 'type is "int"', "-> bytes"):
        assert expected in said["uses"]
    assert len(errors(said["wrong"])) == 2, said["wrong"]


STREAMS = '''
from typing import Optional
import devrt

def square(x: int) -> float:
    return x * x

s = devrt.Stream("mtia:0")
with devrt.stream(s) as q, devrt.cuda.stream(s) as p:
    reveal_type((q, p))
with devrt.stream(s, also=("torch",)) as q:
    q.synchronize()
with devrt.mtia.device(0) as d, devrt.mtia.device_index(1) as e:
    reveal_type((d, e))

def perhaps(t: Optional[devrt.Stream]) -> None:
    with devrt.stream(t) as q:
        reveal_type(q)

future = s.launch_host_func(square, 3)
reveal_type(future.result())

async def wait() -> float:
    return await future

def typed(future: "devrt.HostFuture[float]") -> float:
    return future.result(timeout=3)

typed(future)
reveal_type(devrt.ThreadContext.capture().run(square, x=3))
'''

# Each line an error of its own.
STREAMS_WRONG = '''
import devrt

def square(x: int) -> float:
    return x * x

s = devrt.Stream("mtia:0")
s.launch_host_func(square, "3")
text: str = s.launch_host_func(square, 3).result()
devrt.ThreadContext.capture().run(square)
with devrt.stream(s) as q:
    q.no_such_thing()
devrt.stream(3)
'''


def errors(text):
    return [line for line in text.splitlines() if ": error:" in line]


def test_contexts_and_futures_are_typed(said):
    assert not errors(said["streams"]), said["streams"]
    for expected in (
            '"tuple[devrt._core.Stream, devrt._core.Stream]"',
            '"tuple[devrt._core.Device, devrt._core.Device]"',
            '"devrt._core.Stream | None"', '"float"'):
        assert expected in said["streams"].replace(
            "Union[devrt._core.Stream, None]", "devrt._core.Stream | None"), said["streams"]
    assert len(errors(said["streams_wrong"])) == 5, said["streams_wrong"]


NUMBERS = '''
import numpy as np
import devrt
from typing import List

x = devrt.ones(3, "float32")
numbers: List[devrt.Array] = [
    x * np.float32(2), np.float32(2) * x, x + np.int64(1), x - np.uint8(1),
    x / np.float64(2), x * np.complex64(1j), x.fill(np.float32(3)),
    x.fill(np.bool_(True)), devrt.full(3, np.int8(1)),
    devrt.full_like(x, np.float16(1)), devrt.arange(np.int64(3)),
    devrt.arange(np.float32(0), np.float32(3), np.float32(0.5)),
    devrt.maximum(x, np.float32(3)), devrt.where(x > np.float32(0), x, np.float32(0)),
    x == np.float32(2), x.to(np.float32), x.to(float),
    x.to(np.dtype("f2")), x.squeeze((0,)), x.expand_dims((0, 1)),
]
x *= np.float32(2)
assert np.float32(2) in x
text: str = f"{x.sum():.2f}" + format(x.sum(), ".1f")
'''

NUMBERS_WRONG = '''
import numpy as np
import devrt

x = devrt.ones(3)
x + "2"
x.fill(np.ones(3))
x.fill(x)
devrt.full(3, "1")
devrt.maximum(x, None)
x.to(3.5)
'''


PROGRAMS = {"uses": USES, "wrong": WRONG, "streams": STREAMS, "streams_wrong": STREAMS_WRONG,
            "numbers_": NUMBERS, "numbers_wrong": NUMBERS_WRONG}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """{name: what mypy --strict says about the program}, of one run over all."""
    folder = tmp_path_factory.mktemp("programs")
    for name, source in PROGRAMS.items():
        (folder / f"{name}.py").write_text(source)
    done = check_strictly(*[f"{name}.py" for name in PROGRAMS], cwd=folder)
    # From 1.19 on mypy leaves the module of Python's own types away.
    lines = done.stdout.replace("builtins.", "").splitlines()
    found = {name: "\n".join(line for line in lines if line.startswith(f"{name}.py:"))
             for name in PROGRAMS}
    assert all(found[name] for name in PROGRAMS if name != "numbers_"), (
        done.stdout + done.stderr)
    return found


def test_numbers_of_numpy_are_typed(said):
    pytest.importorskip("numpy", "2.0")
    assert not errors(said["numbers_"]), said["numbers_"]
    assert len(errors(said["numbers_wrong"])) == 6, said["numbers_wrong"]


def test_numbers_without_numpy(tmp_path):
    """The stubs ask for nobody else's types."""
    for stub in ("_arrays.pyi", "_core.pyi", "_types.py"):
        imports = [node for node in ast.walk(ast.parse(
            (PACKAGE / "devrt" / stub).read_text()))
            if isinstance(node, (ast.Import, ast.ImportFrom))]
        for node in imports:
            names = [node.module] if isinstance(node, ast.ImportFrom) else [
                name.name for name in node.names]
            assert "numpy" not in names and "ml_dtypes" not in names, stub


def test_objects_name_their_device(two):
    assert repr(devrt.testing.Flag(two[1])) == "<devrt.testing.Flag of mtia:1>"
    context = devrt.ThreadContext.capture()
    assert repr(context).startswith("<devrt.ThreadContext of mtia:0")
