# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter: who may end it, and threads that are inside devrt
then."""

import signal
import subprocess
import sys

import pytest

# How a thread that imports devrt first can be somebody else than the main one.
IN_A_THREAD = """
    import threading
    def load():
        global devrt
        import devrt
    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
"""


def test_imported_in_a_thread(run_program):
    """The main thread releases objects at the end, which calls the library once
    more."""
    done = run_program(IN_A_THREAD + """
    x = devrt.zeros(3)
    s = devrt.Stream()
    e = s.record()
    print(x.tolist())
    """, timeout=30)
    assert (done.returncode, done.stdout) == (0, "[0.0, 0.0, 0.0]\n"), done.stderr


def test_ctrl_c_where_a_thread_has_imported(run_program):
    """The main thread runs handlers, whoever has imported devrt."""
    done = run_program(IN_A_THREAD + """
    import os, signal, time
    from devrt.testing import spin
    s = devrt.Stream("mtia:0")
    spin(20_000, s)
    start = time.monotonic()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        s.synchronize()
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - start < 15, flush=True)
    os._exit(0)
    """, env={"DEVRT_MTIA": "mode=threaded"})
    assert done.stdout == "interrupted True\n", done.stderr


def test_ctrl_c_is_of_the_main_thread(run_program):
    """A thread waits in one call, without a thread beside it for signals."""
    done = run_program("""
    import os, threading
    import devrt
    from devrt.testing import spin
    s = devrt.Stream("mtia:0")
    s.synchronize()
    def wait():
        spin(100, s)
        s.synchronize()
        print(s.query(), flush=True)
    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    """, env={"DEVRT_MTIA": "mode=threaded"})
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


# CPython 3.9 and 3.10 may themselves crash there: take_gil, of a thread that has
# given the lock up in its own loop, reads of an interpreter that is gone.
ENDS = (0,) if sys.version_info >= (3, 11) else (0, -signal.SIGSEGV)

# CPython 3.9 may wait there for ever: a thread that asked the ending one to let the
# lock go exits, and nobody takes the lock any more (CPython's gh-96387).
HANGS = (subprocess.TimeoutExpired,) if sys.version_info < (3, 10) else ()

# Up to 3.13 a thread that asks for the lock may read its state after the end of
# the interpreter has freed it (CPython's gh-124878).  That is seldom noticed,
# but Meson has malloc overwrite what is freed.
NOT_OVERWRITTEN = {"MALLOC_PERTURB_": "0"}

# Daemon threads repeat these calls while the interpreter ends.
INSIDE = {
    "the library": "x.is_ready()",
    "ends of arrays": "x + 1",
    "a context": "context.run(sum, range(100))",
    "owners": "devrt.from_pointer(1 << 30, 0, 'u1', owner=Owner())",
    "exports": "x.__dlpack__(max_version=(1, 0))",
    "waits": "s.synchronize()",
    "a future": "s.launch_host_func(int).result()",
}


# The race is between a thread that asks for the lock and the interpreter, which
# ends such threads: many threads in many processes.  The first host function
# starts a thread, which the interpreter refuses at its end.
@pytest.mark.parametrize("inside", INSIDE)
def test_daemon_threads(run_program, inside):
    program = f"""
    import sys, threading, time
    import devrt
    sys.setswitchinterval(1e-5)
    x = devrt.zeros(10)
    s = devrt.Stream("mtia:0")
    context = devrt.ThreadContext.capture()
    class Owner:
        def __del__(self):
            sum(range(50))
    def work():
        while True:
            {INSIDE[inside]}
    s.launch_host_func(int).result()
    for _ in range(6):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.02)
    """
    for _ in range(6):
        try:
            done = run_program(program, env=NOT_OVERWRITTEN, timeout=20 if HANGS else 60)
        except HANGS:
            continue
        assert done.returncode in ENDS, (done.returncode, done.stderr)
        assert done.stderr == ""


def test_a_daemon_that_runs_in_a_context(run_program):
    """Its frames are those of Python, above one of devrt's."""
    program = """
    import sys, threading, time
    import devrt
    sys.setswitchinterval(1e-4)  # or each wait for the lock takes 30 ms
    context = devrt.ThreadContext.capture()
    @context
    def work(items):
        while True:
            items.append([object()])
            items.pop()
    for _ in range(6):
        threading.Thread(target=context.run, args=(work, []), daemon=True).start()
    time.sleep(0.02)
    """
    for _ in range(6):
        done = run_program(program, env=NOT_OVERWRITTEN)
        assert done.returncode in ENDS and done.stderr == "", done


# Python functions that a C++ function of devrt calls, which catches exceptions.
CALLED = {
    "an exploration": """
    from devrt import _core
    def call():
        _core._explore("explore", "", 1, 1, [], 0, 60.0, "", lambda: None, body)
    """,
    "an exchange of bytes": """
    from devrt import collectives
    def call():
        collectives.init("mtia:0", lambda mine, timeout: body(), rank=0, size=2)
    """,
}


@pytest.mark.parametrize("called", CALLED)
def test_a_daemon_that_devrt_calls(run_program, called):
    done = run_program("""
    import threading, time
    import devrt
    inside = threading.Event()
    def body():
        inside.set()
        while True:
            time.sleep(0.01)
    """ + CALLED[called] + """
    threading.Thread(target=call, daemon=True).start()
    assert inside.wait(20)
    """, env=NOT_OVERWRITTEN)
    # An exploration says which run has ended the process.
    said = done.stderr.replace("devrt: the body called exit()", "").strip()
    assert done.returncode in ENDS and "\n" not in said, done
    assert not said or said.startswith("in the run with strategy="), done
