# SPDX-License-Identifier: Apache-2.0
"""Where the interpreter's lock is let go, as those see it whom devrt calls:
E22 to E27 and decision 16."""

import os
import pathlib
import shlex
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

PROLOGUE = """
import ctypes, pathlib, sys, threading
import devrt
sys.path.insert(0, {interop!r})
import stubs
witness = ctypes.CDLL({library!r}, ctypes.RTLD_GLOBAL)
def seen(what):
    counts = (ctypes.c_int * 2).in_dll(witness, what)
    found = tuple(counts)
    counts[0] = counts[1] = 0
    return found
def lend(pointer, device=(1, 0), elements=4):
    ctypes.c_void_p.in_dll(witness, "lent_data").value = pointer
    ctypes.c_int32.in_dll(witness, "lent_type").value = device[0]
    ctypes.c_int32.in_dll(witness, "lent_id").value = device[1]
    ctypes.c_int64.in_dll(witness, "lent_elements").value = elements
table = stubs.ApiTable.in_dll(witness, "table")
name = b"dlpack_exchange_api"
capsule = stubs._new(ctypes.addressof(table), name, None)
Foreign = type("Foreign", (), dict(__dlpack_c_exchange_api__=capsule))
devrt.synchronize("mtia:0")
host = ctypes.create_string_buffer(64)
lend(ctypes.addressof(host))
WITH, WITHOUT = (0, 1), (1, 0)
"""


def compiler():
    named = os.environ.get("CC")
    if named:
        return shlex.split(named)
    return next(([c] for c in ("cc", "gcc", "clang") if shutil.which(c)), None)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Compiles the witness under a name, once."""
    if compiler() is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("witness")

    def made(name, *options):
        library = folder / name
        if not library.exists():
            subprocess.run(
                [*compiler(), "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror",
                 "-shared", "-fPIC", "-I", str(ROOT / "include"), *options,
                 str(HERE / "lock_witness.c"), "-o", str(library), "-ldl"],
                check=True)
        return str(library)

    return made


@pytest.fixture
def witnessed(build, run_program):
    """Runs a program under the witness, which is the library of that name."""

    def run(program, name="witness.so"):
        symbols = ROOT / "layers" / "layer.map"
        layer = build("layer.so", "-DLAYER", f"-Wl,--version-script={symbols}")
        text = PROLOGUE.format(library=build(name), interop=str(ROOT / "tests" / "interop"))
        done = run_program(text + program, env={"DEVRT_LAYERS": layer})
        assert done.returncode == 0, done.stderr

    return run


# E22
def test_a_pointer_query_of_the_only_thread_keeps_the_lock(witnessed):
    witnessed(
        """
x = devrt.from_dlpack(Foreign())
assert seen("pointer_queries") == WITH
assert x.ptr == ctypes.addressof(host)
"""
    )


# E22
def test_a_pointer_query_beside_other_threads_lets_the_lock_go(witnessed):
    witnessed(
        """
gate = threading.Event()
thread = threading.Thread(target=gate.wait)
thread.start()
devrt.from_dlpack(Foreign())
assert seen("pointer_queries") == WITHOUT
gate.set()
thread.join()
devrt.from_dlpack(Foreign())
assert seen("pointer_queries") == WITH
# A thread that others of this thread's started came before it.
def inner():
    devrt.from_dlpack(Foreign())
    seen_by.append(seen("pointer_queries"))
seen_by = []
thread = threading.Thread(target=inner)
thread.start()
thread.join()
assert seen_by == [WITHOUT]
"""
    )


# E22
def test_what_does_more_than_ask_lets_the_lock_go(witnessed):
    witnessed(
        """
devrt.from_dlpack(Foreign(), copy=True)
assert seen("pointer_queries") == WITHOUT
devrt.from_dlpack(Foreign(), device="mtia:0")
assert seen("pointer_queries")[1] == 0
s, e = devrt.Stream("mtia:0"), devrt.Event()
assert seen("records")[1] == 0  # of the copies
for _ in range(3):
    e.record(s)
assert seen("records") == (3, 0)
# Other ways in.
devrt.from_pointer(ctypes.addressof(host), (4,), "float32", owner=host, device="cpu")
assert seen("pointer_queries")[1] == 0
"""
    )


# E32
def test_foreign_deleters_run_without_the_lock(witnessed):
    witnessed(
        """
for how in ({}, dict(copy=True)):
    x = devrt.from_dlpack(Foreign(), **how)
    del x
    assert seen("ends") == WITHOUT
y = devrt.empty((4,), "float32", device="mtia:0")
lend(y.ptr, (12, 0))
x = devrt.from_dlpack(Foreign())
del x
assert seen("ends") == WITHOUT
"""
    )


# E32
def test_torchs_deleters_run_as_torchs_own(witnessed):
    """They free what `del tensor` frees, with the lock."""
    witnessed(
        """
x = devrt.from_dlpack(Foreign())
part = x[1:]
del x
assert seen("ends") == (0, 0)
del part
assert sum(seen("ends")) == 1
y = devrt.empty((4,), "float32", device="mtia:0")
lend(y.ptr, (12, 0))
x = devrt.from_dlpack(Foreign())
del x
assert seen("ends") == WITH
""",
        "libtorch_python.so",
    )


# E32
def test_deleters_of_others_after_torchs(witnessed):
    """Array objects lie where others ended: nothing of those is left."""
    witnessed(
        """
x = devrt.from_dlpack(Foreign())
del x
assert sum(seen("ends")) == 1
tensor = stubs.ExchangeApi(table).export(None)
capsule = stubs._new(ctypes.addressof(tensor.contents), stubs.VERSIONED_NAME, None)
x = devrt.from_dlpack(capsule)
del x
assert seen("ends") == WITHOUT
""",
        "libtorch_python.so",
    )


# E32, E36
def test_torchs_deleters_after_devrts_work(witnessed):
    """Behind work that is to be awaited nothing is done with the lock."""
    witnessed(
        """
y = devrt.empty((4,), "float32", device="mtia:0")
lend(y.ptr, (12, 0))
x = devrt.from_dlpack(Foreign())
x.fill(3)
del x
devrt.synchronize("mtia:0")
devrt.empty((1,), "float32", device="mtia:0")
assert seen("ends") == WITHOUT
assert (y.numpy() == 3).all()
""",
        "libtorch_python.so",
    )
