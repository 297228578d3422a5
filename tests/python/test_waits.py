# SPDX-License-Identifier: Apache-2.0
"""Waits: Ctrl-C ends them, other threads run meanwhile."""

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


# G1
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
