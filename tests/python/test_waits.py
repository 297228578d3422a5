# SPDX-License-Identifier: Apache-2.0
"""Waits: Ctrl-C ends them, other threads run meanwhile."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import textwrap

import pytest

WAITS = {
    "stream": "s.synchronize()",
    "event": "s.record().synchronize()",
    "device": "devrt.synchronize('mtia:0')",
}

# Of calls that wait for an array.
ARRAY_WAITS = {
    "tolist": "x.tolist()",
    "copy to the host": "host.copy_(x)",
    "copy from the host": "x.copy_(host)",
    "comparison": "devrt.array_equal(x, host)",
    "dlpack": "x.__dlpack__(dl_device=(1, 0))",
}


# Stops in a wait of twenty seconds of the machine's steady clock.
@pytest.mark.parametrize("wait", [*WAITS, *ARRAY_WAITS])
def test_ctrl_c_ends_a_wait(wait):
    call = {**WAITS, **ARRAY_WAITS}[wait]
    program = textwrap.dedent(
        f"""
        import devrt, sys, time
        from devrt.testing import spin
        s = devrt.Stream("mtia:0")
        spin(20_000, s)
        with s:
            x = devrt.ones(8, device="mtia:0")
        host = devrt.zeros(8, device="cpu")
        start = time.monotonic()
        try:
            print("waiting", flush=True)
            {call}
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - start < 15, flush=True)
        import os
        os._exit(0)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "DEVRT_MTIA": "mode=threaded"},
    ) as process:
        assert process.stdout.readline() == "waiting\n"
        # The signal may come before the wait begins, or within: both must do.
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted True\n"


def test_a_handler_that_does_not_raise(run_program):
    done = run_program(
        """
        import devrt, signal
        from devrt.testing import spin
        calls = []
        signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        s = devrt.Stream("mtia:0")
        spin(300, s)
        s.synchronize()
        assert s.query() and calls, calls
        print("ok")
        """,
        env={"DEVRT_MTIA": "mode=threaded"},
    )
    assert done.stdout == "ok\n", done.stderr


# E22, E19
@pytest.mark.parametrize("wait", WAITS)
def test_other_threads_run_during_a_wait(run_program, wait):
    done = run_program(
        f"""
        import devrt, threading
        from devrt.testing import Flag
        s = devrt.Stream("mtia:0")
        gate = Flag("mtia:0")
        gate.wait_on(s)
        thread = threading.Thread(target=gate.set)
        # Starts only when the lock is let go.
        import sys
        sys.setswitchinterval(1000)
        thread.start()
        {WAITS[wait]}
        thread.join()
        print("ok")
        """,
        env={"DEVRT_MTIA": "mode=threaded"},
    )
    assert done.stdout == "ok\n", done.stderr


def test_deadlock_is_reported(run_program):
    """In virtual time a wait for what cannot come ends at once."""
    done = run_program(
        """
        import devrt
        from devrt.testing import Flag
        s = devrt.Stream("mtia:0")
        gate = Flag("mtia:0")
        gate.wait_on(s)
        try:
            s.synchronize()
        except devrt.Error as error:
            print("reported", bool(devrt.mtia.simulator.deadlock_report()))
        import os
        os._exit(0)
        """
    )
    assert done.stdout == "reported True\n", done.stdout + done.stderr


def run_at_once(run_program, programs, machine):
    """{name: finished process} of {name: source}: the programs mostly wait."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = pool.map(lambda source: run_program(source, env={"DEVRT_MTIA": machine}),
                        programs.values())
        return dict(zip(programs, done))


def numpy_for(call):
    """The import for a program with the call: NumPy's is most of the program's time."""
    return "import numpy as np" if "np." in call else ""


# Another library's array, whose stream is in nobody's way.
PRODUCER = """
class Producer:
    def __init__(self, x):
        self.x = x
    def __dlpack_device__(self):
        return self.x.__dlpack_device__()
    def __dlpack__(self, **keywords):
        return self.x.__dlpack__(**{**keywords, "stream": -1})
"""


def interrupt(run_program, calls, prepare, current):
    """Returns {name: (outcome, stderr)} of calls that an alarm interrupts after 100 ms.

    Four processes make them, since a start takes longer than a call.  Each call has its
    own arrays x, y, p and c, and its own stream s, which `prepare` keeps busy.  Streams of
    earlier calls stay busy, too, on the device.
    """
    names = sorted(calls, key=lambda name: "np." in calls[name])
    size = -(-len(names) // 4)
    shares = [{name: calls[name] for name in names[i:i + size]}
              for i in range(0, len(names), size)]
    done = run_at_once(run_program, {
        tuple(share): f"""
        import devrt, os, signal, time
        {numpy_for(str(share))}
        from devrt.testing import spin
        exec({PRODUCER!r})
        calls = {share!r}
        places = {{"x": "mtia:0", "y": "mtia:0", "p": None, "c": "cpu"}}
        arrays = {{name: [devrt.zeros(4, "float32", device=place, pinned=place is None)
                         for place in places.values()] for name in calls}}
        devrt.synchronize()
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        for name, call in calls.items():
            x, y, p, c = arrays[name]
            s = devrt.Stream("mtia:0")
            {prepare}
            outcome, start = "not interrupted", time.monotonic()
            try:
                with {current}:
                    signal.setitimer(signal.ITIMER_REAL, 0.1)
                    exec(call)
            except KeyboardInterrupt:
                outcome = f"interrupted {{time.monotonic() - start < 15}}"
            except Exception as error:
                outcome = repr(error)
            signal.setitimer(signal.ITIMER_REAL, 0)
            print(f"{{name}}: {{outcome}}", flush=True)
        os._exit(0)
        """ for share in shares}, "mode=threaded")
    found = {}
    for share, process in done.items():
        outcomes = dict(line.split(": ", 1) for line in process.stdout.splitlines())
        found.update({name: (outcomes.get(name), process.stderr) for name in share})
    return found


# Calls that wait for arrays: x of the device, p pinned; both are still in use.
PENDING_WAITS = {
    "ready": "x.ready()",
    "item": "x[0].item()",
    "bool": "bool(x[0])",
    "repr": "repr(x)",
    "contains": "1.0 in x",
    "array_equal": "devrt.array_equal(x, c)",
    "tolist": "x.tolist()",
    "numpy": "x.numpy()",
    "to": "x.to('cpu')",
    "array": "devrt.array(x, device='cpu')",
    "array of pinned": "devrt.array(p, pinned=True)",
    "asarray": "devrt.asarray(x, device='cpu')",
    "copy_ down": "c.copy_(x)",
    "copy_ up": "x.copy_(c)",
    "copy_ of pinned": "c.copy_(p, non_blocking=True)",
    "setitem down": "c[...] = x",
    "setitem of a list": "x[...] = [1, 2, 3, 4]",
    "setitem of an ndarray": "x[1:] = np.ones(3, 'f4')",
    "from_dlpack": "devrt.from_dlpack(x, device='cpu')",
    "np.from_dlpack": "np.from_dlpack(x, device='cpu')",
    "np.from_dlpack of pinned": "np.from_dlpack(p)",
    "from_dlpack of pinned": "devrt.from_dlpack(p, copy=True)",
    "from_dlpack of a producer": "devrt.from_dlpack(Producer(x), device='cpu')",
    "from_dlpack of a capsule":
        "devrt.from_dlpack(x.__dlpack__(stream=-1, max_version=(1, 0)), copy=True,"
        " device='cpu')",
    "from_dlpack of an old capsule":
        "devrt.from_dlpack(x.__dlpack__(stream=-1), device='cpu')",
    "from_dlpack of a producer of pinned":
        "devrt.from_dlpack(Producer(p), copy=True)",
    "asarray of a producer": "devrt.asarray(Producer(x), device='cpu')",
    "dlpack of pinned": "p.__dlpack__(copy=True, stream=-1)",
    "memoryview": "memoryview(p)",
    "array interface": "p.__array_interface__",
    "np.asarray of pinned": "np.asarray(p)",
    "np.array of pinned": "np.array(p, dtype='f8')",
    "np.add of pinned": "np.add(np.asarray(p), 1)",
    "fill of pinned": "p.fill(2)",
    "setitem of pinned": "p[0] = 2",
}


@pytest.fixture(scope="module")
def pending(run_program):
    return interrupt(
        run_program, PENDING_WAITS,
        "with s: spin(20_000, s); x.fill(1); p.copy_(x, non_blocking=True)",
        'devrt.Stream("mtia:0")')


@pytest.mark.parametrize("wait", PENDING_WAITS)
def test_ctrl_c_ends_a_wait_for_arrays(pending, wait):
    if wait == "np.from_dlpack":  # with device=
        pytest.importorskip("numpy", "2.1")
    outcome, stderr = pending[wait]
    assert outcome == "interrupted True", stderr


@pytest.mark.parametrize("ask", [
    "memoryview(p)", "p.__array_interface__", "np.asarray(p)", "np.array(p)",
    "np.frombuffer(p)", "bytes(p)"])
def test_what_a_handler_raises_is_raised_once(run_program, ask):
    """By whichever protocol the caller gets to see it."""
    done = run_program(
        f"""
        import devrt, os, signal, time
        {numpy_for(ask)}
        from devrt.testing import Flag
        class Late(Exception):
            pass
        def handler(*_):
            raise Late("once")
        p = devrt.zeros(4, "float64", pinned=True)
        devrt.synchronize()
        s, gate = devrt.Stream("mtia:0"), Flag("mtia:0")
        gate.wait_on(s)
        p.record_use(s)
        signal.signal(signal.SIGALRM, handler)
        for _ in range(2):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                {ask}
            except Late as error:
                print(error)
        gate.set()
        for _ in range(3):  # nothing of it is left
            {ask}
            p.__array_interface__
        print("ok", flush=True)
        """,
        env={"DEVRT_MTIA": "mode=threaded"},
    )
    assert done.stdout == "once\nonce\nok\n", done.stdout + done.stderr


# Calls that wait behind what their stream has to do, though nothing of it is
# about x, y, p and c.
UNRELATED_WAITS = {
    "item": "x[0].item()",
    "bool": "bool(x[0])",
    "repr": "repr(x)",
    "contains": "1.0 in x",
    "array_equal": "devrt.array_equal(x, y)",
    "tolist": "x.tolist()",
    "numpy": "x.numpy()",
    "cpu": "x.cpu()",
    "to down": "x.to('cpu')",
    "to up": "c.to('mtia:0')",
    "to up of pinned": "p.to('mtia:0')",
    "array down": "devrt.array(x, device='cpu')",
    "array down pinned": "devrt.array(x, pinned=True)",
    "array up": "devrt.array([1, 2], device='mtia:0')",
    "asarray up": "devrt.asarray(np.ones(3), device='mtia:0')",
    "copy_ down": "c.copy_(x)",
    "copy_ down pinned": "p.copy_(x)",
    "copy_ up": "x.copy_(c, non_blocking=True)",
    "copy_ up of pinned": "x.copy_(p)",
    "setitem": "x[...] = c",
    "setitem of a list": "x[...] = [1, 2, 3, 4]",
    "from_dlpack": "devrt.from_dlpack(x, device='cpu')",
    "from_dlpack of a producer": "devrt.from_dlpack(Producer(x), device='cpu')",
    "from_dlpack of a capsule":
        "devrt.from_dlpack(x.__dlpack__(stream=-1), device='cpu')",
    "from_dlpack up": "devrt.from_dlpack(np.ones(4, 'f4'), device='mtia:0')",
    "from_dlpack up of a capsule":
        "devrt.from_dlpack(c.__dlpack__(), device='mtia:0')",
    "dlpack": "x.__dlpack__(dl_device=(1, 0))",
}


@pytest.fixture(scope="module")
def behind_other_work(run_program):
    return interrupt(run_program, UNRELATED_WAITS,
                     "spin(20_000, s); assert x.is_ready() and p.is_ready()", "s")


@pytest.mark.parametrize("wait", UNRELATED_WAITS)
def test_ctrl_c_ends_a_wait_for_other_work(behind_other_work, wait):
    outcome, stderr = behind_other_work[wait]
    assert outcome == "interrupted True", stderr


def test_what_needs_no_wait_does_not(run_program):
    """Copies between device and pinned memory, and what fails."""
    done = run_program(
        """
        import devrt, os, time
        from devrt.testing import spin
        x = devrt.zeros(4, "float32", device="mtia:0")
        y = devrt.zeros(4, "float32", device="mtia:0")
        p = devrt.zeros(4, "float32", pinned=True)
        c = devrt.zeros(5, "float32", device="cpu")
        devrt.synchronize()
        s = devrt.Stream("mtia:0")
        with s:
            spin(20_000, s)
            x.fill(1)
        start = time.monotonic()
        with s:
            y.copy_(x)
            y[...] = x
            p.copy_(x, non_blocking=True)
            devrt.array(x)
            devrt.from_dlpack(x)
            x.to("cpu", non_blocking=True)
            x.fill(2)
            x[0] = 3
            devrt.zeros(4, device="mtia:0")
            devrt.arange(4, device="mtia:0")
            c.fill(1)
        assert not devrt.array_equal(x, c)
        x.__dlpack__(max_version=(1, 0))
        p.__dlpack__(stream=-1) if p.__dlpack_device__() != (1, 0) else None
        print(time.monotonic() - start < 15, flush=True)
        os._exit(0)
        """,
        env={"DEVRT_MTIA": "mode=threaded"},
    )
    assert done.stdout == "True\n", done.stderr


# Calls that need memory which another stream still works on.
ALLOCATIONS = {
    "empty": "devrt.empty(SIZE, 'uint8', device=d)",
    "zeros": "devrt.zeros(SIZE, 'uint8', device=d)",
    "full": "devrt.full(SIZE, 3, 'uint8', device=d)",
    "like": "devrt.empty_like(h, device=d)",
    "arange": "devrt.arange(SIZE // 8, device=d)",
    "to": "h.to(d)",
    "array": "devrt.array(h, device=d)",
    "operator": "x.broadcast_to(SIZE) + 1",
    "copy": "x.broadcast_to(SIZE).copy()",
    "caching_allocator_alloc": "devrt.caching_allocator_alloc(SIZE)",
}

OUT_OF_MEMORY = """
import devrt, os, signal, sys, threading, time
from devrt.testing import Flag
d = devrt.device("mtia:0")
x = devrt.ones(1, "uint8", device=d)
SIZE = 40 << 20
h = devrt.empty(SIZE, "uint8", device="cpu")
small = devrt.empty(4 << 20, "uint8", device=d)
large = devrt.empty(SIZE, "uint8", device=d)
d.synchronize()
gate = Flag(d)
s = devrt.Stream(d)
gate.wait_on(s)
large.record_stream(s)
del large, small
"""


@pytest.fixture(scope="module")
def short_of_memory(run_program):
    return run_at_once(run_program, {
        name: OUT_OF_MEMORY + textwrap.dedent(f"""
        # The test is over in any case, with the other text.
        rescue = threading.Timer(8, gate.set)
        rescue.daemon = True
        rescue.start()
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        held = devrt.memory_allocated(d)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            {call}
        except KeyboardInterrupt:
            print("interrupted", not s.query(), flush=True)
        gate.set()
        d.synchronize()
        assert devrt.memory_allocated(d) == held
        {call}
        stats = devrt.memory_stats(d)
        print(stats["num_ooms"])
        sys.stdout.flush()
        os._exit(0)
        """) for name, call in ALLOCATIONS.items()}, "mode=threaded,memory=64MiB")


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_ctrl_c_ends_a_wait_for_memory(short_of_memory, name):
    done = short_of_memory[name]
    assert done.stdout == "interrupted True\n0\n", done.stdout + done.stderr


def test_a_wait_for_memory_ends_with_the_memory(run_program):
    """Counted as one that nobody could have interrupted."""
    program = OUT_OF_MEMORY + textwrap.dedent("""
        def allocate():
            keep.append(devrt.zeros(SIZE, "uint8", device=d))
        keep = []
        def open_gate():
            while devrt.memory_stats(d)["num_sync_all_streams"] == 0:
                time.sleep(0.005)
            gate.set()
        threading.Thread(target=open_gate, daemon=True).start()
        if sys.argv[1] == "main":
            allocate()
        else:
            thread = threading.Thread(target=allocate)
            thread.start()
            thread.join()
        assert keep[0].sum().item() == 0
        stats = devrt.memory_stats(d)
        print([stats[name] for name in (
            "num_alloc_retries", "num_sync_all_streams", "num_ooms")])
        try:
            devrt.zeros(2 * SIZE, "uint8", device=d)
        except devrt.OutOfMemoryError as error:
            print(devrt.memory_stats(d)["num_ooms"], "requested" in str(error))
        os._exit(0 if sys.stdout.flush() is None else 1)
        """)
    for thread in ("main", "other"):
        done = run_program(program, thread,
                           env={"DEVRT_MTIA": "mode=threaded,memory=64MiB"})
        assert done.stdout.startswith("[1, 1, 0]\n1 "), done.stdout + done.stderr
