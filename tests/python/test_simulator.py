# SPDX-License-Identifier: Apache-2.0
"""devrt.mtia.simulator."""

import gc
import xml.etree.ElementTree

import pytest

import devrt
from devrt.mtia import simulator
from devrt.testing import Flag, spin

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def fresh():
    gc.collect()
    for device in devrt.devices("mtia"):  # what other files' tests left cached
        devrt.empty_cache(device)
    devrt.empty_host_cache("mtia")
    simulator.reset()
    yield
    gc.collect()
    simulator.enable_timeline(False)
    simulator.reset()


def test_reset_and_config():
    simulator.reset("seed=4", memory="64MiB")
    assert simulator.config()["seed"] == "4"
    assert devrt.get_device_properties("mtia:0").total_memory == 64 << 20
    simulator.reset({"seed": 5})
    assert simulator.config()["seed"] == "5"
    assert simulator.config()["memory"] == "256MiB"
    with pytest.raises(ValueError, match="no_such"):
        simulator.reset("no_such=1")
    with pytest.raises(ValueError, match="twice"):
        simulator.reset("seed=6", seed=7)
    with pytest.raises(TypeError):
        simulator.reset(3)
    assert simulator.config()["seed"] == "5"


def test_reset_is_refused_while_something_is_alive():
    s = devrt.Stream("mtia:1")
    with pytest.raises(devrt.Error, match="1 stream") as info:
        simulator.reset()
    assert info.value.code == "FAILED_PRECONDITION"
    del s
    simulator.reset()


def test_a_stream_has_one_number(two):
    """In repr, timelines, memory snapshots and reports of deadlocks."""
    a, b = devrt.Stream(two[0]), devrt.Stream(two[1])
    default = devrt.default_stream(two[1])
    assert f"Stream {a.id} of mtia:0" in repr(a) and default.id == 0
    simulator.enable_timeline()
    for stream in (a, b, default):
        spin(0.1, stream)
    b.wait(a.record())
    spin(0.2, b)
    for device in two:
        device.synchronize()
    kernels = [op for op in simulator.timeline() if op["kind"] == "kernel"]
    assert [(op["device"], op["stream"]) for op in kernels] == [
        (0, a.id), (1, b.id), (1, 0), (1, b.id)]
    waited = {(device, stream) for op in simulator.timeline() if op["kind"] == "kernel"
              for device, stream, seq in op["dependencies"]}
    assert (0, a.id) in waited and waited <= {(0, a.id), (1, b.id), (1, 0)}
    for name in (f">stream {a.id}<", f">stream {b.id}<", ">default stream<",
                 ">mtia:0<", ">mtia:1<"):
        assert name in simulator.timeline_svg()
    lines = simulator.timeline_text().splitlines()
    assert [line.split()[2:4] for line in lines if "spin" in line] == [
        ["0", str(a.id)], ["1", str(b.id)], ["1", "0"], ["1", str(b.id)]]
    pointer = devrt.caching_allocator_alloc(100, b)
    blocks = [block for segment in devrt.memory_snapshot(two[1])["segments"]
              for block in segment["blocks"] if block["state"] == "active_allocated"]
    assert [block["stream"] for block in blocks] == [b.id]
    devrt.caching_allocator_delete(pointer)


def test_a_stream_that_is_used_again_has_another_number(two):
    simulator.enable_timeline()
    ids = []
    for _ in range(3):
        s = devrt.Stream(two[0])
        spin(0.1, s)
        s.synchronize()
        ids.append(s.id)
        del s
    assert [op["stream"] for op in simulator.timeline()
            if op["kind"] == "kernel"] == ids and len(set(ids)) == 3


def test_a_deadlock_names_streams_by_their_numbers(two):
    s, default = devrt.Stream(two[0]), devrt.default_stream(two[1])
    flag = Flag(two[0])
    flag.wait_on(s)
    default.wait(s)
    spin(0.1, default)
    with pytest.raises(devrt.Error) as info:
        default.synchronize()
    assert f"s{s.id} op " in str(info.value) and "s0@mtia:1" in str(info.value)
    flag.set()
    default.synchronize()


class Producer:
    def __init__(self, x):
        self.x = x

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __dlpack__(self, **keywords):
        return self.x.__dlpack__(**keywords)


def test_streams_of_devrt_s_own_are_not_alive():
    """The bridge that a per-thread default stream is told by."""
    for device in ("mtia:0", "mtia:1"):
        for again in (simulator.reset, lambda: simulator.replay(token)):
            for _ in range(2):
                with devrt.per_thread_default_stream(device):
                    x = devrt.full(3, 7, device=device)
                    y = devrt.from_dlpack(Producer(x))
                    assert y.ptr == x.ptr and y.tolist() == [7, 7, 7]
            del x, y
            devrt.empty_cache(device)
            token = simulator.token()
            again()


def test_virtual_time():
    s = devrt.Stream()
    before = simulator.now()
    spin(10_000, s)
    s.synchronize()
    assert 10e9 <= simulator.now() - before < 11e9


def test_timeline_names_lines_of_the_program():
    simulator.enable_timeline()
    s = devrt.Stream("mtia:1")
    spin(1, s)
    e = s.record()
    e.synchronize()
    kernel, record = [op for op in simulator.timeline() if op["device"] == 1]
    assert kernel["kind"] == "kernel" and kernel["state"] == "done"
    assert kernel["end_ns"] - kernel["begin_ns"] >= 1_000_000
    assert record["kind"] == "record" and record["begin_ns"] >= kernel["end_ns"]
    assert record["file"] == __file__
    text = simulator.timeline_text()
    assert len(simulator.timeline_text(1).splitlines()) == 2
    for none in (0, -1):
        assert simulator.timeline_text(none) == text.splitlines()[0]
    assert __file__ in text and "2 in all" in text
    assert len(simulator.timeline(since=record["submit_ns"])) == 1
    assert simulator.timeline(since=simulator.now() + 1) == []
    with pytest.raises(TypeError):
        simulator.timeline(since="now")
    simulator.enable_timeline(False)
    del s, e


def test_timeline_names_lines_of_the_program_alone():
    """Not those of the package, of its bindings or of the library."""
    np = pytest.importorskip("numpy")
    simulator.enable_timeline()
    a, b = devrt.Stream("mtia:1"), devrt.Stream("mtia:1")
    with a:
        x = devrt.ones(8, "float32", device="mtia:1")
    with b:
        y = x * 2  # asks what of a's memory is free again
        x += 1
        spin(1)
        y += 1
    with a:
        z = devrt.from_dlpack(y)  # after b's
        z *= 2
        total = np.sum(x)
        both = np.add(x, y)
        assert np.array_equal(y, z)
    assert x.tolist() == [2] * 8 and "2." in repr(x)  # wait for both
    a.launch_host_func(len, []).result()
    a.synchronize()
    foreign = [op for op in simulator.timeline() if op["file"] != __file__]
    assert not foreign, simulator.timeline_text()
    kinds = {op["kind"] for op in simulator.timeline()}
    assert kinds == {"kernel", "record", "copy", "host_func"}
    simulator.enable_timeline(False)
    del a, b, x, y, z, total, both


def boxes(picture):
    root = xml.etree.ElementTree.fromstring(picture)
    return [rect for group in root.iter(SVG + "g") for rect in group.iter(SVG + "rect")]


def test_timeline_as_a_picture():
    simulator.enable_timeline()
    s = devrt.Stream("mtia:1")
    spin(1, s)
    spin(2, s)
    s.synchronize()
    with pytest.raises(TypeError, match="title must be a str"):
        simulator.timeline_svg(3)
    picture = simulator.timeline_svg("<two> & more")
    root = xml.etree.ElementTree.fromstring(picture)
    short, long = (float(box.get("width")) for box in boxes(picture))
    assert 1.9 < long / short < 2.1
    assert "<two> & more" in [text.text for text in root.iter(SVG + "text")]
    assert picture._repr_svg_() == picture
    del s


def test_the_picture_begins_at_since():
    simulator.enable_timeline()
    s = devrt.Stream("mtia:1")
    spin(1, s)
    s.synchronize()
    since = simulator.now()
    spin(1, s)
    s.synchronize()
    assert len(boxes(simulator.timeline_svg())) == 2
    assert len(boxes(simulator.timeline_svg(since=since))) == 1
    empty = simulator.timeline_svg(since=simulator.now() + 1)
    assert not boxes(empty)
    assert "Took 0 ns" in empty and "enable_timeline" not in empty
    del s


def test_the_picture_has_names_events_and_arrows():
    simulator.enable_timeline()
    first, second = devrt.Stream("mtia:0"), devrt.Stream("mtia:1")
    spin(1, first)
    second.wait(first.record())
    spin(1, second)
    second.synchronize()
    with pytest.raises(TypeError, match="since must be an int"):
        simulator.timeline_svg(since="now")
    root = xml.etree.ElementTree.fromstring(
        simulator.timeline_svg(names={first: "makes", second: "<uses>"}))
    texts = [text.text for text in root.iter(SVG + "text")]
    for text in ("makes", "<uses>", "kernel", "event record",
                 "wait that set the start"):
        assert text in texts
    arrows = [path.findtext(SVG + "title", "") for path in root.iter(SVG + "path")
              if "marker-end" in path.attrib]
    assert any("on <uses> waits for record on makes" in tip for tip in arrows), arrows
    del first, second


def test_names_that_the_picture_cannot_have():
    s = devrt.Stream("mtia:0")
    for names, text in (
            ({"a": "b"}, "the keys of names must be devrt.Stream objects, not str"),
            (3, "names must be a dict of streams and their texts, not int"),
            ([s], "names must be a dict of streams and their texts, not list"),
            ({s: 3}, "the texts of names must be str, not int")):
        with pytest.raises(TypeError, match=f"^{text}$"):
            simulator.timeline_svg(names=names)
    del s


def test_a_picture_without_operations_names_the_remedy():
    simulator.enable_timeline(False)
    simulator.reset()
    why = "no operations were kept: simulator.enable_timeline() starts that"
    for title, text in (("", why), ("mine", f"mine: {why}")):
        picture = simulator.timeline_svg(title)
        root = xml.etree.ElementTree.fromstring(picture)
        assert text in [element.text for element in root.iter(SVG + "text")]
        assert not boxes(picture)


def program():
    """Its decisions are the simulator's: which of two queries answers first."""
    a, b, seen = devrt.Stream(), devrt.Stream("mtia:1"), []
    for _ in range(10):
        spin(0.01, a)
        spin(0.01, b)
        seen.append((a.query(), b.query()))
    a.synchronize()
    b.synchronize()
    return seen, simulator.trace_hash()


def test_seeds_and_replay():
    runs = []
    for seed in (1, 2, 1):
        simulator.reset(seed=seed, strategy="random")
        runs.append(program())
        gc.collect()
    assert runs[0] == runs[2]
    assert runs[0][1] != runs[1][1]
    simulator.reset(seed=2, strategy="random")
    again = program()
    token = simulator.token()
    assert token.startswith("dvs1:")
    gc.collect()
    simulator.replay(token)
    assert program() == again
    with pytest.raises(ValueError):
        gc.collect()
        simulator.replay("dvs1:nonsense")


def test_names_of_operations_and_the_outcome(two):
    def run(**settings):
        simulator.reset(outcome="on", **settings)
        simulator.enable_timeline()
        stream = devrt.Stream(two[0])
        first = simulator.next_op()
        array = devrt.zeros(4, "float32", device=two[0])
        with stream:
            array.fill(2)
        assert array.tolist() == [2.0] * 4
        assert simulator.next_op()[1] > first[1]
        indices = [op["index"] for op in simulator.timeline()]
        assert [i for i in indices if i is not None][:2] == [0, 1]
        del array, stream
        return simulator.outcome()

    assert run(strategy="alap") == run(strategy="random", seed=3)
    simulator.reset()
    with pytest.raises(devrt.Error, match="outcome=on"):
        simulator.outcome()


def test_injected_faults_become_errors():
    simulator.inject_fault("api", where="stream_create", native_code=2)
    with pytest.raises(devrt.OutOfMemoryError) as info:
        for _ in range(100):
            devrt.per_thread_default_stream()
            devrt.Stream(priority=-1)
    assert info.value.native_code == 2
    for wrong in ({"kind": "other"}, {"device": -1}, {"nth": 2**40}):
        with pytest.raises(ValueError):
            simulator.inject_fault(**wrong)


@pytest.mark.parametrize("call", [
    lambda: simulator.reset("strategy=nope"), lambda: simulator.replay("nonsense"),
    lambda: simulator.peek(8, 8), lambda: simulator.poke(8, b"x"),
    lambda: simulator.inject_fault("api", where="nope"),
    lambda: simulator.inject_fault(nth=0)])
def test_errors_of_the_controls_are_not_a_drivers(call):
    with pytest.raises(devrt.InvalidArgumentError) as info:
        call()
    assert info.value.native_code is None and info.value.name is None
    assert "cuda" not in str(info.value), info.value


def test_a_lost_device_is_whole_after_reset():
    s = devrt.Stream("mtia:1")
    simulator.inject_fault("kernel", device=1)
    spin(0.01, s)
    with pytest.raises(devrt.DeviceFaultError):
        s.synchronize()
    with pytest.raises(devrt.DeviceFaultError), devrt.device("mtia:1"):
        pass
    del s
    gc.collect()
    simulator.reset()
    with devrt.device("mtia:1"):
        devrt.Stream().synchronize()


def test_peek_and_poke():
    pointer = devrt.caching_allocator_alloc(16)
    simulator.poke(pointer, b"0123456789abcdef")
    assert simulator.peek(pointer + 4, 6) == b"456789"
    devrt.caching_allocator_delete(pointer)
    with pytest.raises(ValueError):
        simulator.peek(8, 8)
    for size in (10**12, 2**62, 2**63, 2**80):
        with pytest.raises(ValueError):
            simulator.peek(pointer, size)
    with pytest.raises(ValueError):
        simulator.peek(2**64 - 1, 2)
    with pytest.raises(TypeError):
        simulator.poke(pointer, "text")


def test_stats_and_yield():
    before = simulator.stats()
    s = devrt.Stream()
    gate = Flag()
    gate.wait_on(s)
    stats = simulator.stats()
    assert stats["live_streams"] == before["live_streams"] + 1
    assert stats["pending_ops"] == 1
    simulator.yield_()
    gate.set()
    s.synchronize()
    assert simulator.stats()["completed_ops"] >= 1
    assert simulator.deadlock_report() == ""
    assert simulator.stats()["uncontrolled"] == 0


def test_only_simulators_are_simulators():
    with pytest.raises(TypeError):
        simulator.Simulator(3)
    with pytest.raises(devrt.Error):
        simulator.Simulator("nosuch")
