# SPDX-License-Identifier: Apache-2.0
"""Processes: how they end, and their children."""

import pytest

MODES = ["mode=virtual", "mode=threaded"]

ENDS = {
    "falls off its end": "",
    "sys.exit": "sys.exit(0)",
    "inside a context": "two[1].__enter__(); s.__enter__()",
    "os._exit": "os._exit(0)",
    "with a cycle": "x = [s, e]; x.append(x); del x, s, e",
    "in a thread": "t = threading.Thread(target=lambda: (s.__enter__(), spin(1)));"
                   " t.start(); t.join()",
    "while a daemon waits":
        "gate = Flag(); gate.wait_on(s);"
        " threading.Thread(target=s.synchronize, daemon=True).start();"
        " time.sleep(0.05)",
    # The lock changes hands in a finalizer, when the interpreter is ending.
    "while a daemon wants the lock":
        "threading.Thread(target=s.synchronize, daemon=True).start();"
        " time.sleep(0.02); sys.setswitchinterval(1000);"
        " end = time.monotonic() + 0.3; any(time.monotonic() > end"
        " for _ in iter(int, 1));"
        " late = type('Late', (), {'__del__': lambda self, sleep=time.sleep:"
        " sleep(0.1)})()",
    "from atexit": "import atexit; atexit.register(lambda: (s.query(), s.record()))",
    "after shutdown":
        "s.synchronize(); e.synchronize(); p.clear(); del s, e, h, f; devrt.shutdown()",
}


# C106, F34
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", ENDS)
def test_exit_with_live_objects(run_program, end, mode):
    done = run_program(
        f"""
        import os, sys, threading, time
        import devrt
        from devrt.testing import Flag, spin
        two = devrt.devices("mtia")
        s = devrt.Stream(two[1])
        e = devrt.Event()
        e.record(s)
        spin(50, s)
        p = [devrt.StreamPool(two[0], 2)]
        f = s.launch_host_func(print, "called") if {end!r} == "sys.exit" else None
        h = devrt.ThreadContext.capture()
        {ENDS[end]}
        """,
        env={"DEVRT_MTIA": mode},
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert "Fatal" not in done.stderr and "terminate" not in done.stderr


def test_shutdown_ends_streams_of_devrt_s_own(run_program):
    """The bridge that a per-thread default stream is told by."""
    done = run_program(
        """
        import devrt

        class Producer:
            def __dlpack_device__(self):
                return x.__dlpack_device__()

            def __dlpack__(self, **keywords):
                return x.__dlpack__(**keywords)

        with devrt.per_thread_default_stream("mtia:0"):
            x = devrt.ones(3, device="mtia:0")
            devrt.from_dlpack(Producer()).ready()
        del x
        devrt.shutdown()
        print("ok")
        """
    )
    assert done.stdout == "ok\n", done.stderr


FORK = """
import os
import devrt
s = devrt.Stream("mtia:1")
e = s.record()
device = devrt.device("mtia:0")
plain = devrt.ones(3, device="cpu")
default = device.default_stream()
child = os.fork()
if child == 0:
    try:
        in_child()
        del s, e, default
        os._exit(0)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
s.synchronize()
assert plain.tolist() == [1, 1, 1] and devrt.mtia.device_count() == 2
"""


# C105, F33
def test_calls_in_a_forked_child_fail(run_program):
    done = run_program("""
def in_child():
    for call in (s.query, e.query, s.synchronize, s.record, e.record,
                 devrt.Stream, lambda: devrt.device("mtia:0").__enter__(),
                 lambda: devrt.caching_allocator_alloc(8),
                 # Queries do not return the parent's answers.
                 devrt.backends, devrt.load_report, devrt.devices,
                 lambda: devrt.devices("mtia"),
                 lambda: devrt.backend_info("mtia"),
                 lambda: devrt.device("mtia:0"), devrt.current_device,
                 lambda: devrt.mtia.current_device(),
                 devrt.current_stream, device.current_stream,
                 devrt.default_stream, device.default_stream,
                 lambda: devrt.default_stream(device),
                 lambda: devrt.current_stream(device),
                 lambda: devrt.get_device_properties(device),
                 lambda: devrt.memory_stats(device),
                 lambda: devrt.memory_report(device),
                 lambda: devrt.memory_allocated(device),
                 lambda: devrt.reset_peak_memory_stats(device),
                 lambda: devrt.get_per_process_memory_fraction(device),
                 devrt.host_memory_stats, devrt.empty_host_cache,
                 lambda: devrt.host_memory_stats("mtia"),
                 lambda: devrt.mtia.memory_stats(),
                 lambda: devrt.mtia.simulator.now(),
                 lambda: devrt.can_access_peer("mtia:0", "mtia:1"),
                 lambda: devrt.device("mtia:0").synchronize()):
        try:
            call()
        except devrt.Error as error:
            assert error.code == "FAILED_PRECONDITION", error
        else:
            print("no error", call, flush=True)
            os._exit(3)
""" + FORK)
    assert done.returncode == 0, done.stdout + done.stderr


# C105, F33
def test_a_forked_child_has_no_devices_and_its_own_host_arrays(run_program):
    done = run_program("""
def in_child():
    for module in (devrt.mtia, devrt.accelerator, devrt.cuda):
        assert module.is_available() is False, module
        assert module.device_count() == 0, module
    # Values and arrays in plain host memory are the child's own.
    assert device.name == "mtia:0" and s.device.index == 1
    assert devrt.array([1, 2], device="cpu").tolist() == [1, 2]
    assert plain.fill(2).tolist() == [2, 2, 2]
""" + FORK)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_pools_work_with_each_method(tmp_path, method):
    import os
    import subprocess
    import sys
    import textwrap

    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(
        f"""
        import multiprocessing
        import devrt

        def work(index):
            with devrt.device("mtia", index % 2):
                s = devrt.Stream()
                s.record().synchronize()
                return s.device.name

        if __name__ == "__main__":
            # Nothing was opened: a forked child starts afresh.
            context = multiprocessing.get_context({method!r})
            with context.Pool(2) as pool:
                print(pool.map(work, range(4)))
        """
    ))
    done = subprocess.run([sys.executable, str(program)], capture_output=True,
                          text=True, env=os.environ, timeout=100)
    assert done.stdout == "['mtia:0', 'mtia:1', 'mtia:0', 'mtia:1']\n", done.stderr
