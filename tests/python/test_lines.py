# SPDX-License-Identifier: Apache-2.0
"""Lines of the program: in memory histories, and in traces of its calls."""

import json
import os
import subprocess
import sys

import pytest

import devrt

BACKEND = os.environ.get("DEVRT_TEST_BACKEND", "mtia")
ZERO = f"{BACKEND}:0"


def line():
    return sys._getframe(1).f_lineno


def sites_of(action, device=ZERO):
    snapshot = devrt.memory_snapshot(device)
    return [snapshot["sites"][event["site"]] for event in snapshot["events"]
            if event["action"] == action]


def lines_of(action, device=ZERO):
    """The lines of this file that a device's history has for that."""
    sites = sites_of(action, device)
    assert {site["file"] for site in sites} <= {__file__}
    # Of what an operation needs meanwhile as well.
    return sorted({site["line"] for site in sites})


@pytest.fixture
def history():
    devrt.record_memory_history(device=ZERO)
    yield
    devrt.record_memory_history(False, device=ZERO)


def test_a_history_has_the_lines_of_the_program(history):
    """Of allocations and frees, where no timeline is on."""
    stream = devrt.default_stream(ZERO)
    pointer = devrt.caching_allocator_alloc(1000, stream); at = [line()]
    x = devrt.ones(100, device=ZERO); at.append(line())
    y = x + 1; at.append(line())
    assert lines_of("alloc") == at
    devrt.caching_allocator_delete(pointer); ends = [line()]
    del x; ends.append(line())
    y = None; ends.append(line())
    assert set(ends) <= set(lines_of("free_requested")) <= {*at, *ends}


@pytest.mark.parametrize("name", ["devrt", "devrt.tools", "devrt_tools", "devr"])
def test_lines_of_the_package_are_those_of_its_caller(history, name):
    """A module is the package's if its name is devrt or begins with "devrt."."""
    module = {"__name__": name, "devrt": devrt, "ZERO": ZERO}
    body = "\n" * 4999 + "def allocate(): return devrt.ones(100, device=ZERO)"
    exec(compile(body, __file__, "exec"), module)
    x = module["allocate"](); at = line()
    own = name.split(".")[0] == "devrt"
    assert lines_of("alloc") == [at if own else 5000]
    del x


def test_what_is_raised_while_memory_ends_stays_raised(history):
    class Holder:
        def __init__(self, x):
            self.x = x

    def fail():
        holder = Holder(devrt.ones(100, device=ZERO))
        raise KeyError(holder.x.device)

    with pytest.raises(KeyError, match=ZERO):
        fail()
    assert lines_of("free_requested")


def test_uses_of_another_stream(history):
    """Memory that goes back behind another stream's work has its line, too."""
    other = devrt.Stream(ZERO)
    x = devrt.ones(100, device=ZERO)
    with other:
        y = x * 2
    del x; at = line()
    assert at in lines_of("free_requested")
    del y


@pytest.mark.parametrize("later", [
    lambda: devrt.ones(100, device=ZERO),  # gives it back, and has not let it go
    lambda: devrt.default_stream(ZERO).query(),  # is over when that happens
])
def test_what_another_library_lets_go(history, later):
    x = devrt.ones(100, device=ZERO)
    capsule = x.__dlpack__(max_version=(1, 3))
    del x
    del capsule  # calls the deleter, as the consumer of a tensor does
    later()
    free = sites_of("free_requested")[0]
    assert os.path.basename(free["file"]) == "storage_end.cc", free


def needs_two_devices():
    if len(devrt.devices(BACKEND)) < 2:
        pytest.skip(f"needs two devices of {BACKEND}")


def test_histories_of_two_devices_end_one_by_one():
    needs_two_devices()
    one = f"{BACKEND}:1"
    for device in (ZERO, one):
        devrt.record_memory_history(device=device)
    devrt.record_memory_history(False, device=one)
    try:
        devrt.ones(100, device=ZERO); at = line()
        assert lines_of("alloc") == [at]
    finally:
        devrt.record_memory_history(False, device=ZERO)


# Prints the numbers of its streams.  The last one may be on the backend's stream
# of one that is gone.
PROGRAM = """\
import sys
import devrt
zero = sys.argv[1]
s = devrt.Stream(zero)
with s:
    x = devrt.ones(100, device=zero)
    y = x + 1
e = s.record()
s.synchronize()
def use(device):
    stream = devrt.Stream(device)
    with stream:
        z = devrt.ones(100, device=device)
    stream.synchronize()
    return stream.id
print(s.id, *[use(d) for d in (zero, zero, f"{zero[:-1]}1")])
"""


def trace(tmp_path, **env):
    """The program, the numbers that it printed, the events of its trace."""
    needs_two_devices()
    if "DEVRT_TOOL" not in os.environ:
        pytest.skip("no devrt command")
    program, ring = tmp_path / "program.py", tmp_path / "ring"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program, ZERO], check=True,
                          stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "DEVRT_LAYERS": "trace",
                               "DEVRT_TRACE": str(ring), **env})
    made = tmp_path / "trace.json"
    subprocess.run([os.environ["DEVRT_TOOL"], "trace", f"--from={ring}",
                    f"--output={made}"], check=True, capture_output=True)
    return program, done.stdout.split(), json.loads(made.read_text())["traceEvents"]


@pytest.fixture
def traced(tmp_path):
    return trace(tmp_path)


@pytest.mark.parametrize("times", ["", "events"])
def test_a_trace_has_the_work_before_a_polling_wait(tmp_path, times):
    """Python's waits ask the driver again and again before they call its own."""
    env = {"DEVRT_MTIA": "mode=threaded"} if BACKEND == "mtia" else {}
    _, numbers, events = trace(tmp_path, DEVRT_TRACE_TIMES=times, **env)
    tracks = {event["args"]["name"] for event in events
              if event["name"] == "thread_name"}
    assert {f"stream {number}" for number in numbers} <= tracks, tracks


def test_a_trace_has_the_lines_of_the_program(traced):
    program, numbers, events = traced
    at = {}
    for event in events:
        site = event.get("args", {}).get("at")
        if event["ph"] == "X" and site is not None:
            at.setdefault(event["name"].split()[0], set()).add(site)
    assert f"{program}:8" in at["event_record"], at
    lines = {f"{program}:{number}" for number in range(1, 17)}
    assert {f"{program}:{number}" for number in (7, 9)} <= set().union(
        *at.values()) <= lines, at


def test_a_trace_has_the_programs_numbers_of_streams(traced):
    """Tracks of operations have them, arguments of calls, and both agree."""
    program, numbers, events = traced
    assert len(set(numbers)) == 4
    devices = [f"{BACKEND}:{ordinal}" for ordinal in (0, 0, 0, 1)]
    processes = {event["pid"]: event["args"]["name"].split()[0] for event in events
                 if event["name"] == "process_name"}
    tracks = {(event["pid"], event["tid"]):
              f"{event['args']['name']} of {processes[event['pid']]}"
              for event in events if event["name"] == "thread_name"}
    slices = [event for event in events if event["ph"] == "X"]
    operations = {tracks[event["pid"], event["tid"]] for event in slices
                  if processes[event["pid"]] in devices}
    calls = {event["args"]["stream"] for event in slices
             if "stream" in event["args"]}
    expected = {f"stream {number} of {device}"
                for number, device in zip(numbers, devices)}
    defaults = {f"default stream of {device}" for device in devices}
    assert expected <= operations <= expected | defaults, operations
    assert expected <= calls <= expected | defaults, calls
    record = [event["args"]["stream"] for event in slices
              if event["name"] == "event_record"]
    assert f"stream {numbers[0]} of {ZERO}" in record

    def slice_at(end):
        return max((event for event in slices
                    if (event["pid"], event["tid"]) == (end["pid"], end["tid"])
                    and event["ts"] <= end["ts"] <= event["ts"] + event["dur"]),
                   key=lambda event: event["ts"])

    arrows = [event for event in events if event.get("cat") == "submit"]
    ends = {event["id"]: event for event in arrows if event["ph"] == "f"}
    assert len(ends) == len([event for event in slices
                             if processes[event["pid"]] in devices])
    for event in arrows:
        if event["ph"] == "s":
            end = ends[event["id"]]
            assert (slice_at(event)["args"]["stream"]
                    == tracks[end["pid"], end["tid"]])
