# SPDX-License-Identifier: Apache-2.0
"""devrt.Stream, StreamPool and streams of others."""

import copy
import gc
import pickle
import weakref

import pytest

import devrt
from devrt.testing import Flag, spin


def test_creation_changes_nothing(two):
    before = devrt.current_stream()
    s = devrt.Stream()
    assert devrt.current_stream() is before
    assert s.device is devrt.current_device()
    assert (s.kind, s.priority) == ("created", 0)


def test_what_a_device_argument_may_be(two):
    assert devrt.Stream(two[1]).device is two[1]
    assert devrt.Stream("mtia:1").device is two[1]
    assert devrt.Stream(1).device is two[1]
    with two[1]:
        assert devrt.Stream().device is two[1]
        assert devrt.Stream("mtia").device is two[1]
    for wrong in (1.0, True, b"mtia", [], object()):
        with pytest.raises(TypeError):
            devrt.Stream(wrong)


# C100, C101
def test_ids_and_handles_are_distinct():
    streams = [devrt.Stream() for _ in range(50)]
    assert len({s.id for s in streams}) == 50
    assert len({s.native_handle for s in streams}) == 50
    assert 0 not in {s.id for s in streams}
    last = max(s.id for s in streams)
    del streams
    assert devrt.Stream().id > last


# C22
def test_priorities_are_clamped(two):
    properties = devrt.get_device_properties(two[0])
    for asked, want in ((properties.priority_greatest - 5, properties.priority_greatest),
                        (properties.priority_least + 5, properties.priority_least),
                        (-(2**63), properties.priority_greatest),
                        (2**63 - 1, properties.priority_least)):
        assert devrt.Stream(priority=asked).priority == want
    with pytest.raises(ValueError):
        devrt.Stream(priority=2**70)
    with pytest.raises(TypeError):
        devrt.Stream(priority=1.5)


# C19
def test_query_and_synchronize(two):
    s = devrt.Stream()
    assert s.query() is True
    spin(1, s)
    assert s.query() is False
    s.synchronize()
    assert s.query() is True


# C8, C10
def test_blocking_stream_waits_for_the_default_stream(two):
    gate = Flag()
    gate.wait_on(devrt.default_stream())
    free, bound = devrt.Stream(), devrt.Stream(blocking=True)
    spin(0.001, free)
    spin(0.001, bound)
    free.synchronize()
    assert not bound.query()
    gate.set()
    bound.synchronize()
    devrt.synchronize()


def test_wait_for_a_stream_and_for_an_event(two):
    gate = Flag()
    a, b, c = devrt.Stream(two[0]), devrt.Stream(two[0]), devrt.Stream(two[1])
    gate.wait_on(a)
    b.wait(a)
    e = b.record()
    c.wait(e)
    done = c.record_event()
    assert not done.query()
    gate.set()
    done.synchronize()
    assert a.query() and b.query()
    for wrong in (None, 3, two[0], "a"):
        with pytest.raises(TypeError, match="Event or a devrt.Stream"):
            a.wait(wrong)


def test_equality_is_of_the_stream():
    s = devrt.Stream("mtia:1")
    same = devrt.Stream(stream_id=s.id, device_index=1, device_type=devrt.DeviceType.MTIA)
    assert same == s and hash(same) == hash(s) and same is not s
    assert s != devrt.Stream("mtia:1")
    assert (s == 3) is False and s != "s"
    default = devrt.default_stream("mtia:0")
    assert default != devrt.default_stream("mtia:1")
    assert devrt.Stream(stream_id=0, device_index=0, device_type=19) == default


def test_rebuilding_a_missing_stream_is_refused():
    s = devrt.Stream("mtia:1")
    with pytest.raises(ValueError, match="no stream of mtia:0"):
        devrt.Stream(stream_id=s.id, device_index=0, device_type=19)
    with pytest.raises(ValueError, match="device_type 77"):
        devrt.Stream(stream_id=s.id, device_index=1, device_type=77)
    id = s.id
    del s
    with pytest.raises(ValueError, match="alive"):
        devrt.Stream(stream_id=id, device_index=1, device_type=19)
    for arguments in ({"stream_id": 1}, {"device_index": 1},
                      {"stream_id": 1, "device_index": 0, "device_type": 19,
                       "priority": 1}):
        with pytest.raises(TypeError, match="goe?s? with"):
            devrt.Stream(**arguments)


def test_a_stream_lives_as_long_as_its_last_object():
    s = devrt.Stream("mtia:1")
    same = devrt.Stream(stream_id=s.id, device_index=1, device_type=19)
    weak = weakref.ref(s)
    del s
    gc.collect()
    assert weak() is None
    spin(0.01, same)
    same.synchronize()


# C17, C18
def test_work_outlives_its_stream():
    s = devrt.Stream()
    spin(1, s)
    e = s.record()
    del s
    e.synchronize()
    assert e.query()


def test_repr_and_no_copies():
    s = devrt.Stream("mtia:1")
    assert repr(s) == f"<devrt.Stream {s.id} of mtia:1, created>"
    assert "default stream of mtia:0" in repr(devrt.default_stream("mtia:0"))
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be pickled"):
            copier(s)
    with pytest.raises(AttributeError):
        s.priority = 3


def test_classes_are_the_packages(two):
    from devrt import testing

    properties = devrt.get_device_properties(two[0])
    uuid = properties.uuid
    made = [devrt.StreamPool(two[0], 2), properties, uuid,
            testing.Flag(two[0])]
    if two[0].type == "mtia":
        made.append(testing.Simulator("mtia"))
    for one in made:
        home = devrt if type(one).__name__ in devrt.__all__ else testing
        assert type(one).__module__ == home.__name__
        assert getattr(home, type(one).__name__) is type(one)
        assert repr(one).lstrip("<").startswith(home.__name__ + ".")
        for copier in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be pickled") as caught:
                copier(one)
            assert f"{home.__name__}.{type(one).__name__}" in str(caught.value)
    assert repr(made[0]) == f"devrt.StreamPool('{two[0]}', 2)"
    assert repr(uuid) == f"devrt.Uuid('{uuid}')" and len(str(uuid)) == 36


def test_devices_are_pickled_by_name(two):
    assert pickle.loads(pickle.dumps(two[1])) is two[1]
    assert copy.deepcopy(two[1]) is two[1]


# C12
def test_per_thread_default_stream(two):
    import threading

    own = devrt.per_thread_default_stream(two[1])
    assert own == devrt.per_thread_default_stream(two[1])
    assert own.kind == "per_thread" and own.device is two[1]
    others = []
    thread = threading.Thread(
        target=lambda: others.append(devrt.per_thread_default_stream(two[1]).id))
    thread.start()
    thread.join()
    assert others[0] != own.id


def test_pool_hands_out_its_streams_in_turn(two):
    pool = devrt.StreamPool(two[1], 3, priority=-1)
    streams = [pool.next() for _ in range(6)]
    assert streams[:3] == streams[3:] and len(set(streams)) == 3
    assert len(pool) == 3 and pool.device is two[1]
    assert all(s.priority == -1 and s.device is two[1] for s in streams)
    del pool
    gc.collect()
    spin(0.01, streams[2])
    streams[2].synchronize()
    with streams[1] as s:
        assert devrt.current_stream() is s


@pytest.mark.parametrize("size", [0, -1, 65537, 2**40])
def test_pool_of_an_impossible_size(size):
    with pytest.raises(ValueError):
        devrt.StreamPool(None, size)


# ---- Streams of others (E16) -------------------------------------------------


def test_mtia_streams_have_no_cuda_protocol():
    assert not hasattr(devrt.Stream("mtia:0"), "__cuda_stream__")
    assert hasattr(devrt.cuda.Stream, "__cuda_stream__")


def test_no_type_makes_a_cuda_stream_of_another(two):
    """A handle of the simulator is no cudaStream_t."""
    s = devrt.Stream(two[0])
    for id, index in ((s.stream_id, 0), (0, 1)):
        for module in (devrt.cuda, devrt.hip):
            with pytest.raises(ValueError, match="device, but got: mtia"):
                module.Stream(stream_id=id, device_index=index, device_type=19)
    with pytest.raises(ValueError, match="Expected a hip device, but got: mtia"):
        devrt.hip.Stream.from_external(s.native_handle, "mtia:0")
    s.__class__ = devrt.cuda.Stream
    for ask in (lambda: s.__cuda_stream__(), lambda: s.cuda_stream):
        with pytest.raises(ValueError, match="Expected a cuda device, but got: mtia"):
            ask()


def test_adopting_a_handle():
    s = devrt.Stream("mtia:1")
    borrowed = devrt.Stream.from_external(s.native_handle, "mtia:1")
    assert borrowed.kind == "external" and borrowed.id != s.id
    assert borrowed.native_handle == s.native_handle
    spin(1, borrowed)
    assert not s.query()
    borrowed.synchronize()
    again = devrt.ExternalStream(s.native_handle, "mtia:1")
    assert again.id not in (borrowed.id, s.id)


def test_adopting_finds_the_device():
    s = devrt.Stream("mtia:1")
    with devrt.device("mtia:0"):
        assert devrt.Stream.from_external(s.native_handle).device is s.device
        with pytest.raises(ValueError):
            devrt.Stream.from_external(s.native_handle, "mtia:0")


def test_adopting_a_default_stream():
    with devrt.device("mtia:1"):
        assert devrt.Stream.from_external(0) == devrt.default_stream("mtia:1")
        assert devrt.Stream.from_external(0, "mtia:0") == devrt.default_stream("mtia:0")


@pytest.mark.parametrize("stream", [None, True, 1.5, "7", [], object()])
def test_adopting_other_objects_is_refused(stream):
    with pytest.raises(TypeError, match="__cuda_stream__"):
        devrt.Stream.from_external(stream, "mtia:0")


@pytest.mark.parametrize("handle", [-1, 2**64, 12345])
def test_adopting_an_impossible_handle(handle):
    with pytest.raises(ValueError):
        devrt.Stream.from_external(handle, "mtia:0")


class Protocol:
    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [
    None, 3, (0,), (0, 1, 2), [0, 1], ("0", 1), (0, "1"), (0, 1.5), (True, 1),
    (0, False), (1, 1), (-1, 1), (2**70, 1)])
def test_malformed_protocols(answer):
    with pytest.raises(TypeError, match="Protocol"):
        devrt.Stream.from_external(Protocol(answer))


@pytest.mark.parametrize("device", ["mtia", "mtia:1", devrt.Device("mtia:0"), "cpu"])
def test_a_protocol_is_of_cuda(device):
    """Also where cuda cannot be used, as here."""
    with pytest.raises(devrt.InvalidArgumentError, match=(
            r"^Protocol.__cuda_stream__\(\) names a stream of cuda, not of "
            f"'{device}': pass a device of cuda or none, or a native handle of ")):
        devrt.Stream.from_external(Protocol((0, 1)), device)
    with pytest.raises(ValueError, match="names a stream of cuda, not of 'mtia:1'"):
        devrt.mtia.Stream.from_external(Protocol((0, 1)), 1)
    with pytest.raises(ValueError, match="names a stream of cuda, not of 'mtia:1'"):
        devrt.ExternalStream(Protocol((0, 1)), "mtia:1")


def test_protocol_that_is_no_method_or_raises():
    class Attribute:
        __cuda_stream__ = (0, 1)

    class Raises:
        @property
        def __cuda_stream__(self):
            raise KeyError("from the property")

    with pytest.raises(TypeError, match="Attribute"):
        devrt.Stream.from_external(Attribute())
    with pytest.raises(KeyError, match="from the property"):
        devrt.Stream.from_external(Raises())
    with pytest.raises(KeyError, match="from the call"):
        devrt.Stream.from_external(Protocol(KeyError("from the call")))


def test_every_reference_keeps_the_stream_object(two):
    """The first one of them may end before the others."""
    s = devrt.Stream(two[0])
    again = devrt.Stream(stream_id=s.id, device_index=0, device_type=19)
    with s:
        x = devrt.zeros(3)
    del s
    gc.collect()
    home = x.home_stream
    assert home is again
    with devrt.default_stream(two[0]):
        devrt.set_stream(home)
        del again, home
        gc.collect()
        assert devrt.current_stream().query() in (True, False)
        assert (devrt.ones(3) + 1).tolist() == [2, 2, 2]


def test_the_streams_of_a_pool_are_plain_ones(two):
    pool = devrt.StreamPool(two[0], 2)
    s = pool.next()
    assert s.priority == devrt.Stream(two[0]).priority == 0
