# SPDX-License-Identifier: Apache-2.0
"""Capsules that devrt makes, and their deleters (E27 to E32)."""

import ctypes
import gc
import pathlib
import sys
import threading

import pytest

np = pytest.importorskip("numpy")

import devrt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402

V1 = (1, 0)


def arange(n=12, dtype="float32", device="cpu"):
    return devrt.array(np.arange(n).astype(dtype), device=device)


@pytest.fixture(params=["cpu", "mtia:0", "mtia:1", "pinned"])
def x(request):
    if request.param == "pinned":
        x = devrt.empty((12,), "float32", device="mtia:0", pinned=True)
        np.asarray(x)[...] = np.arange(12)
        return x
    return arange(device=request.param)


# ---- Capsules and deleters (E28-E32, E27) ------------------------------------


# E31
def test_unused_capsule_frees_itself():
    a = devrt.zeros((1024,), "float32", device="mtia:0")
    before = devrt.memory_allocated("mtia:0")
    for asked in (None, V1):
        capsule = a.__dlpack__(max_version=asked, copy=True)
        assert devrt.memory_allocated("mtia:0") > before
        del capsule
        devrt.synchronize("mtia:0")
        devrt.zeros((1,), "float32", device="mtia:0")
        assert devrt.memory_allocated("mtia:0") == before


# E33, E7
def test_export_keeps_the_memory():
    a = arange(1 << 12)
    capsule = a.__dlpack__(max_version=V1)
    del a
    gc.collect()
    for _ in range(4):
        devrt.zeros((1 << 12,), "float32", device="cpu")
    assert (devrt.from_dlpack(capsule).numpy() == np.arange(1 << 12)).all()


# E31
def test_capsule_is_taken_once(x):
    for asked in (None, V1):
        capsule = x.__dlpack__(max_version=asked)
        devrt.from_dlpack(capsule)
        assert stubs.name_of(capsule).startswith("used_dltensor")
        with pytest.raises(ValueError, match="used_dltensor"):
            devrt.from_dlpack(capsule)


# E27
@pytest.mark.parametrize("asked", [None, V1])
def test_destructor_keeps_a_raised_exception(run_program, asked):
    """Which is set, and not yet caught, while the interpreter drops what the
    expression that failed has made so far.  One that is lost may end it."""
    done = run_program(f"""
        import devrt
        def fail():
            raise KeyError("kept")
        x = devrt.zeros(3, device="mtia:0")
        for _ in range(3):
            try:
                [x.__dlpack__(max_version={asked}), fail()]
            except KeyError as error:
                print(error)
    """)
    assert done.stdout == "'kept'\n" * 3, (done.returncode, done.stderr)


def deleter_of(struct):
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(struct.deleter)


@pytest.mark.parametrize("asked", [None, V1])
def test_deleter_on_any_thread_without_the_gil(asked):
    """ctypes lets the GIL go for the call."""
    before = devrt.memory_allocated("mtia:0")
    a = devrt.zeros((4096,), "float32", device="mtia:0")
    capsule = a.__dlpack__(max_version=asked)
    name = stubs.name_of(capsule)
    struct = stubs.tensor_of(capsule)
    ctypes.pythonapi.PyCapsule_SetName(
        ctypes.py_object(capsule), ctypes.c_char_p(KEPT[name]))
    address = ctypes.addressof(struct)
    call = deleter_of(struct)
    del a
    worker = threading.Thread(target=lambda: call(address))
    worker.start()
    worker.join()
    devrt.synchronize("mtia:0")
    devrt.zeros((1,), "float32", device="mtia:0")
    assert devrt.memory_allocated("mtia:0") == before


KEPT = {"dltensor": b"used_dltensor", "dltensor_versioned": b"used_dltensor_versioned"}


def test_deleter_after_the_interpreter(run_program):
    """A consumer lets go when Python has ended (E30)."""
    ended = run_program(
        """
        import atexit, ctypes, sys
        sys.path.insert(0, sys.argv[1])
        import stubs, devrt
        a = devrt.zeros((64,), "float32", device="mtia:0")
        capsule = a.__dlpack__(max_version=(1, 0))
        struct = stubs.tensor_of(capsule)
        name = b"used_dltensor_versioned"
        ctypes.pythonapi.PyCapsule_SetName(
            ctypes.py_object(capsule), ctypes.c_char_p(name))
        libc = ctypes.CDLL(None)
        libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
        libc.__cxa_atexit(struct.deleter, ctypes.addressof(struct), None)
        sys.modules["kept"] = (a, capsule, name)
        print("ok")
        """,
        str(pathlib.Path(stubs.__file__).parent),
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "ok\n"


def test_threads_and_collections(two):
    failures = []

    def body(device):
        try:
            for i in range(50):
                y = devrt.from_dlpack(arange(64, device=device))
                if i % 10 == 0:
                    gc.collect()
                assert (y.numpy() == np.arange(64)).all()
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=body, args=(two[i % 2].name,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert not failures, failures[0]
