# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends waits that are the driver's own."""

import pytest

import devrt

# Behind a stream that waits for a flag which nobody sets.
WAITS = {
    "empty_cache": "devrt.empty_cache(d)",
    "empty_host_cache": "devrt.empty_host_cache('cuda')",
    "unregister_host": "devrt.unregister_host(a.ctypes.data, d)",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait_of_the_driver(run_program, wait):
    done = run_program(
        f"""
        import os, signal, threading
        import numpy as np
        import devrt
        from devrt.testing import Flag
        d = devrt.device("cuda:0")
        a = np.zeros(10000)
        devrt.register_host(a.ctypes.data, a.nbytes, d)
        x = devrt.empty(4 << 20, device=d)
        p = devrt.zeros(1 << 20, device=d, pinned=True)
        d.synchronize()
        s = devrt.Stream(d)
        gate = Flag(d)
        gate.wait_on(s)
        del x, p
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        # The test is over in any case, with the other text.
        rescue = threading.Timer(8, gate.set)
        rescue.daemon = True
        rescue.start()
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            {WAITS[wait]}
        except KeyboardInterrupt:
            print("interrupted", not s.query(), flush=True)
        gate.set()
        d.synchronize()
        os._exit(0)
        """
    )
    assert done.stdout == "interrupted True\n", done.stdout + done.stderr


def test_a_waiting_call_raises_its_error():
    with pytest.raises(devrt.Error) as caught:
        devrt.unregister_host(4096, "cuda:0")
    assert caught.value.code == "NOT_FOUND"


def test_ctrl_c_ends_a_wait_for_memory(run_program):
    """Of the device's own frees, before any of pending work."""
    done = run_program(
        """
        import os, signal, threading
        import devrt
        from devrt.testing import Flag
        d = devrt.device("cuda:0")
        x = devrt.ones(1, "uint8", device=d)
        size = d.memory_info()[1] * 6 // 10
        cached = devrt.empty(4 << 20, "uint8", device=d)
        large = devrt.empty(size, "uint8", device=d)
        d.synchronize()
        s = devrt.Stream(d)
        gate = Flag(d)
        gate.wait_on(s)
        large.record_stream(s)
        del large, cached
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        rescue = threading.Timer(8, gate.set)
        rescue.daemon = True
        rescue.start()
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            devrt.empty(size, "uint8", device=d)
        except KeyboardInterrupt:
            print("interrupted", not s.query(), flush=True)
        gate.set()
        d.synchronize()
        print(devrt.empty(size, "uint8", device=d).nbytes == size, flush=True)
        os._exit(0)
        """
    )
    assert done.stdout == "interrupted True\nTrue\n", done.stdout + done.stderr
