# SPDX-License-Identifier: Apache-2.0
"""Copies between places, conversions, pinned memory and order."""

import numpy as np
import pytest

import devrt
from conftest_arrays import NUMPY_DTYPES, same
from devrt.testing import spin

PLACES = [{"device": "mtia:0"}, {"device": "mtia:1"}, {"device": "cpu"},
          {"device": "mtia:0", "pinned": True}]


def test_between_all_places(host):
    a = host((3, 4), "int16")
    for source in PLACES:
        for target in PLACES:
            x = devrt.array(a, **source)
            y = devrt.zeros((3, 4), "float32", **target)
            assert y.copy_(x) is y
            same(y, a.astype("float32"))
            y.T.copy_(x.T)
            same(y, a.astype("float32"))
            if not target.get("pinned"):
                same(x.to(target["device"]), a)
                same(x.to(target["device"], "int64"), a.astype("int64"))


def test_to_is_itself_where_nothing_changes(place):
    x = devrt.ones((2, 2), "float32", **place)
    assert x.to(x.device) is x
    assert x.to(dtype="float32") is x and x.to("cpu" if x.device == "cpu"
                                               else x.device) is x
    assert x.to(devrt.int8).dtype is devrt.int8
    assert x.to(device=None) is x
    assert x.cpu() is x or x.device != "cpu"
    assert x.astype("float32") is not x
    assert x.astype("float32", copy=False) is x


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_astype_is_numpys(host, dtype):
    a = host((2, 3), "float64")
    if dtype.startswith("u"):
        a = abs(a)
    for device in ("mtia:0", "cpu"):
        same(devrt.array(a, device=device).astype(dtype), a.astype(dtype))


def test_item_tolist_and_fill(place):
    x = devrt.zeros((2, 2), "int32", **place)
    assert x.fill(7) is x
    assert x.tolist() == [[7, 7], [7, 7]]
    assert x[0, 0].item() == 7 and x[0, 0].tolist() == 7
    assert devrt.zeros((2, 0), **place).tolist() == [[], []]
    assert devrt.array([True], **place).tolist() == [True]
    assert devrt.array([1j], **place).item() == 1j
    assert devrt.array([2**63], **place).item() == 2**63
    for value, error in [("a", TypeError), (None, TypeError), (2**40, ValueError)]:
        with pytest.raises(error):
            x.fill(value)
    assert x.tolist() == [[7, 7], [7, 7]]


def test_odd_arguments():
    x = devrt.ones(2)
    for call, error in [
        (lambda: x.to("nothing"), RuntimeError), (lambda: x.to(1.5), TypeError),
        (lambda: x.to("mtia:9"), RuntimeError),
        (lambda: x.to("cpu", non_blocking=1), TypeError),
        (lambda: x.to(devrt.int8, "int8"), TypeError),
        (lambda: x.astype("nothing"), ValueError), (lambda: x.astype(), TypeError),
        (lambda: x.copy_("a"), TypeError), (lambda: x.copy_(np.ones(3)), ValueError),
        (lambda: x.as_read_only().copy_(x), ValueError),
        (lambda: x.pin(), ValueError), (lambda: x.copy(1), TypeError),
        (lambda: x.record_stream(3), TypeError),
        (lambda: x.record_use(writes=1), TypeError),
        (lambda: x.set_deallocation_stream(devrt.Stream("mtia:1")), ValueError),
        (lambda: x.order_before("a"), TypeError),
    ]:
        with pytest.raises(error):
            call()


# semantics.md 3.2: copy_non_blocking
def test_copy_non_blocking(two):
    for pinned_first in (True, False):
        a = devrt.ones(10_000_000, "uint8", device="cpu" if pinned_first else two[0])
        if pinned_first:
            a = a.pin()
        b = devrt.empty(10_000_000, "uint8",
                        **({} if pinned_first else dict(pinned=True)))
        b.copy_(a, non_blocking=True)
        event = devrt.current_stream().record()
        event.synchronize()
        assert devrt.array_equal(a, b)
    view = b[1:]
    assert view.is_pinned()
    assert view.ptr != b.ptr and view.storage_ptr == b.storage_ptr


# semantics.md 3.2: copy_non_blocking_type_conversion
def test_copy_non_blocking_type_conversion(two):
    a = devrt.ones(1, "float32", device=two[0])
    b = devrt.zeros(1, "float32", device="cpu", pinned=True)
    c = devrt.empty(1, "int64", device=two[0])
    spin(100)
    b.copy_(a, non_blocking=True)
    c.copy_(b, non_blocking=True)
    assert devrt.array_equal(a.astype("int64"), c)


# semantics.md 3.2: to_non_blocking
@pytest.mark.parametrize("non_blocking", [False, True])
@pytest.mark.parametrize("to_host", [False, True])
def test_to_non_blocking(two, to_host, non_blocking):
    stream = devrt.current_stream(two[0])
    a = devrt.full(10**6, 3.0, "float32", device=two[0] if to_host else "cpu")
    if not to_host and non_blocking:
        a = a.pin()
    stream.synchronize()
    spin(100, stream)
    b = a.to("cpu" if to_host else two[0], non_blocking=non_blocking)
    assert stream.query() == (not non_blocking)
    stream.synchronize()
    assert b.is_pinned() == (non_blocking and to_host)
    assert devrt.array_equal(a, b)


# semantics.md 3.2: to_cpu_blocking_by_default
def test_to_cpu_blocking_by_default(two):
    stream = devrt.current_stream(two[0])
    a = devrt.full(10**6, 3.0, "float32", device=two[0])
    stream.synchronize()
    spin(100, stream)
    b = a.to("cpu")
    assert stream.query()
    assert not b.is_pinned()
    assert devrt.array_equal(a, b)


# semantics.md 3.2: type_conversions
def test_type_conversions(two):
    x = devrt.array([1.5, -2.5, 300.0], "float32", device="cpu")
    for first in ("float64", "float32", "int32"):
        there = x.astype(first).to(two[0])
        assert there.dtype == first
        back = there.to("cpu").astype("float32")
        expected = x.numpy().astype(first).astype("float32")
        np.testing.assert_array_equal(back.numpy(), expected)


# semantics.md 3.2: record_stream
def test_record_stream(two):
    side, current = devrt.Stream(two[0]), devrt.current_stream(two[0])
    pinned = devrt.array([1, 2, 3, 4], "float32", device="cpu").pin()
    result = devrt.empty(4, "float32", device=two[0])
    with side:
        block = devrt.empty(4, "float32")
        block.copy_(pinned, non_blocking=True)
        pointer = block.ptr
    current.wait(side)
    block.record_stream(current)
    spin(50, current)
    result.copy_(block, non_blocking=True)
    del block
    with side:
        other = devrt.empty(4, "float32")
        assert other.ptr != pointer
    assert result.tolist() == [1, 2, 3, 4]
    current.synchronize()
    with side:
        assert devrt.empty(4, "float32").ptr == pointer


# semantics.md 3.2: noncontiguous_pinned_memory
def test_noncontiguous_pinned_memory():
    x = devrt.arange(10, device="cpu").reshape(5, 2).T
    y = x.pin()
    assert y.is_pinned() and devrt.array_equal(x, y)


# semantics.md 3.2: caching_pinned_memory
def test_caching_pinned_memory(two):
    t = devrt.ones(1, "float32", device="cpu", pinned=True)
    pointer = t.ptr
    del t
    t = devrt.ones(1, "float32", device="cpu", pinned=True)
    assert t.ptr == pointer
    on_device = devrt.zeros(1, "float32", device=two[0])
    spin(1000)
    on_device.copy_(t, non_blocking=True)
    del t
    t = devrt.full(1, 0.0, "float32", device="cpu", pinned=True)
    assert t.ptr != pointer
    assert on_device.item() == 1


# semantics.md 3.2: out_of_memory
def test_out_of_memory():
    older = devrt.zeros(1024, "float32")
    with pytest.raises(RuntimeError, match=(
            r"Tried to allocate 800000000\.00 GiB\. "
            r"GPU 0 has a total capacity of")):
        devrt.empty(800000000 * 2**30, "int8")
    with pytest.raises(RuntimeError,
                       match="Tried to allocate more than 1EB memory"):
        devrt.empty(8000000000 * 2**30, "int8")
    older.fill(1)
    assert devrt.array_equal(older, devrt.ones(1024, "float32"))


def test_operations_join_other_streams(two):
    a, b = devrt.Stream(two[0]), devrt.Stream(two[0])
    x = devrt.zeros(4, device=two[0])
    with a:
        spin(20)
        x += 1
    with b:
        y = x * 2
        assert not y.is_ready()
    assert y.tolist() == [2] * 4
    assert y.is_ready() and x.home_stream == devrt.default_stream(two[0])
    x.ready()
    x.synchronize()


def test_record_use_and_order_before(two):
    a, b = devrt.Stream(two[0]), devrt.Stream(two[0])
    x = devrt.zeros(4, device=two[0])
    x.ready()
    spin(20, a)
    assert x.is_ready()
    x.record_use(a)
    assert not x.is_ready()
    x.order_before(b)
    done = b.record()
    assert not done.query()
    x.ready()
    assert a.query()
    x.set_deallocation_stream(b)
