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


def lines_of(action, device=ZERO):
    """The lines of this file that a device's history has for that."""
    snapshot = devrt.memory_snapshot(device)
    sites = [snapshot["sites"][event["site"]] for event in snapshot["events"]
             if event["action"] == action]
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


def test_histories_of_two_devices_end_one_by_one():
    one = f"{BACKEND}:1"
    for device in (ZERO, one):
        devrt.record_memory_history(device=device)
    devrt.record_memory_history(False, device=one)
    try:
        devrt.ones(100, device=ZERO); at = line()
        assert lines_of("alloc") == [at]
    finally:
        devrt.record_memory_history(False, device=ZERO)


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
"""


@pytest.mark.skipif("DEVRT_TOOL" not in os.environ, reason="no devrt command")
def test_a_trace_has_the_lines_of_the_program(tmp_path):
    program, ring = tmp_path / "program.py", tmp_path / "ring"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, program, ZERO], check=True,
                   env={**os.environ, "DEVRT_LAYERS": "trace",
                        "DEVRT_TRACE": str(ring)})
    made = tmp_path / "trace.json"
    subprocess.run([os.environ["DEVRT_TOOL"], "trace", f"--from={ring}",
                    f"--output={made}"], check=True, capture_output=True)
    events = json.loads(made.read_text())["traceEvents"]
    at = {}
    for event in events:
        site = event.get("args", {}).get("at")
        if event["ph"] == "X" and site is not None:
            at.setdefault(event["name"].split()[0], set()).add(site)
    assert at["event_record"] == {f"{program}:8"}, at
    lines = {f"{program}:{number}" for number in range(1, 10)}
    assert {f"{program}:{number}" for number in (7, 9)} <= set().union(
        *at.values()) <= lines, at
