# SPDX-License-Identifier: Apache-2.0
"""Odd arguments for everything that can be called: documented exceptions only.

Those are few for all, and by name for those functions that have others.  What an
argument itself raises comes through.

Each object is called in a process of its own, so that a crash is a failure of
that test; the seed is one, or DEVRT_TEST_SEED.
"""

import os

import pytest

SEED = int(os.environ.get("DEVRT_TEST_SEED", 20240601))

TARGETS = {
    "functions": "[getattr(devrt, n) for n in devrt.__all__]",
    "mtia": "[getattr(devrt.mtia, n) for n in devrt.mtia.__all__ if n != 'simulator']",
    "accelerator": "[getattr(devrt.accelerator, n) for n in devrt.accelerator.__all__]",
    "simulator": "[getattr(devrt.simulator, n) for n in devrt.simulator.__all__]",
    "core": "list(vars(devrt._core).values())",
    "device": "methods(devrt.device('mtia:1'))",
    "stream": "methods(devrt.Stream('mtia:1'))",
    "event": "methods(devrt.Event('mtia:1'))",
    "others": "methods(devrt.StreamPool('mtia:1', 2)) + methods(devrt.testing.Flag())"
              " + methods(devrt.ThreadContext.capture())"
              " + methods(devrt.get_device_properties())",
    "testing": "[devrt.testing.spin]",
    "array": "methods(devrt.ones((2, 3), 'float32'))",
    "number": "methods(devrt.array(2))",
    "host": "methods(devrt.ones((3, 2), device='cpu'))",
    "pinned": "methods(devrt.ones(4, 'uint8', pinned=True))",
    "dtype": "methods(devrt.float32) + [devrt.DType]",
    "interop": "[getattr(devrt.interop, n) for n in devrt.interop.__all__]",
    "cuda": "[getattr(devrt.cuda, n) for n in devrt.cuda.__all__]",
    "hip": "[getattr(devrt.hip, n) for n in devrt.hip.__all__]",
}

PROGRAM = """
import faulthandler, gc, os, random, sys
faulthandler.enable()
faulthandler.dump_traceback_later(50, exit=True)  # says where it hangs
import devrt, devrt.testing

# Calls that end the process's use of devrt or wait for ever, and names that are no
# calls of it.
LEFT_OUT = {"shutdown", "_next_host_call", "_set_backend_finder", "_set_helpers",
            "_commit_fault", "commit_fault", "inject_fault", "HostFuture",
            "wait_on", "replay", "__class__", "__init_subclass__",
            "__subclasshook__", "__getattribute__", "__setattr__",
            "__delattr__", "poke", "Machine", "_launch_host_call"}
ALLOWED = (devrt.Error, TypeError, ValueError, BufferError, MemoryError)
OTHERS = {
    # As getattr and the interpreter's own protocols do.
    "from_dlpack": AttributeError,
    "from_cuda_array_interface": AttributeError,
    "__getitem__": IndexError,
    "__setitem__": IndexError,
    # The interpreter's, before devrt is asked: numbers that are too large.
    "__buffer__": OverflowError,
    "__reduce_ex__": OverflowError,
    # The called function raises this error: int(inf).
    "run": OverflowError,
    # Other libraries, and a file, that are not there.
    "cuda_core_memory_resource": ImportError,
    "cupy_allocator": ImportError,
    "cupy_malloc": ImportError,
    "torch_allocator": ImportError,
    "torch_pool_allocator": ImportError,
    "torch_allocator_path": FileNotFoundError,
}


class Lie(Exception):
    pass


def methods(thing):
    return [getattr(thing, n) for n in dir(thing)
            if callable(getattr(thing, n, None))]


class Lies:
    def __index__(self): return "no int"
    def __int__(self): raise Lie("int")
    def __float__(self): return 1
    def __str__(self): return 3
    def __len__(self): return -1
    def __bool__(self): raise Lie("bool")
    def __eq__(self, other): raise Lie("eq")
    def __hash__(self): return 7
    def __cuda_stream__(self): return (0, "x")


class Text(str):
    pass


class Number(int):
    pass


seed = int(sys.argv[1])
dice = random.Random(seed)
stream, event, device = devrt.Stream("mtia:1"), devrt.Event(), devrt.device("mtia:1")
ODD = [None, True, False, 0, 1, -1, 2, 2**45, 2**63, -2**63, 2**64, 2**200, 0.0,
       -1.5, float("nan"), float("inf"), 1j, "", "mtia:1", "mtia", "mtia:99",
       "\\ud800", "x" * 10000, "\\0", b"", b"mtia:1", bytearray(3), (), [], {}, set(),
       (1, 2), [None], {"a": 1}, object(), Lies(), Text("mtia:1"), Number(1), int,
       len, lambda *a, **k: None, stream, event, device, devrt, range(3),
       memoryview(b"abc"), Ellipsis, NotImplemented, devrt.float32, slice(None, 1),
       devrt.ones((2, 3), "float32"), devrt.arange(3), devrt.array(1),
       devrt.ones((0, 2)), devrt.ones(3, "uint8", device="cpu"),
       devrt.ones(2, pinned=True), devrt.ones(3, device="mtia:1").as_read_only(),
       devrt.full(2, 1j), devrt.ones((3, 2))[::-1].T]
if "cuda" in os.environ.get("DEVRT_BACKENDS", ""):
    # As the handle of a stream the driver reads what a number points at.
    ODD = [thing for thing in ODD if thing is True or not isinstance(thing, int)
           or thing <= 2 or thing >= 2**64]
NAMES = ["device", "stream", "size", "pointer", "backend", "priority", "index",
         "enabled", "config", "x", "function", "dtype", "out", "axis",
         "shape", "copy"]
targets = [t for t in %s
           if callable(t) and getattr(t, "__name__", "") not in LEFT_OUT
           and not (isinstance(t, type) and issubclass(t, (BaseException, int)))]
assert targets
first = dice.sample(targets, len(targets))
calls = 0
for target in first:
    for _ in range(60):
        args = [dice.choice(ODD) for _ in range(dice.choice([0, 1, 1, 1, 2, 2, 3, 5, 9]))]
        keywords = {dice.choice(NAMES): dice.choice(ODD)
                    for _ in range(dice.choice([0, 0, 0, 1, 2]))}
        try:
            target(*args, **keywords)
        except (*ALLOWED, OTHERS.get(getattr(target, "__name__", None), Lie), Lie):
            pass
        except BaseException as error:
            raise SystemExit(
                f"seed {seed}: {target} {args} {keywords}: {error!r}") from error
        calls += 1
del args, keywords
gc.collect()
for d in devrt.devices("mtia"):
    with d:
        devrt.set_stream(devrt.default_stream(d))
s = devrt.Stream("mtia:1")
s.record().synchronize()
print("ok", calls)
"""


@pytest.mark.parametrize("target", TARGETS)
def test_odd_arguments(run_program, target):
    print("seed", SEED)
    done = run_program(PROGRAM % TARGETS[target], str(SEED))
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("ok"), (
        f"seed {SEED} (DEVRT_TEST_SEED): exit code {done.returncode}\n"
        + done.stdout[-1000:] + done.stderr[-3000:])
