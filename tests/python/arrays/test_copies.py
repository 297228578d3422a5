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


# Waits of twenty seconds of the machine's steady clock.
@pytest.mark.parametrize("wait", ["ready()", "numpy()", "tolist()", "cpu()",
                                  "sum().item()"])
def test_signals_end_waits_for_values(run_program, wait):
    done = run_program(
        f"""
        import devrt, os, signal, time
        from devrt.testing import spin
        x = devrt.ones(4)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        spin(20_000)
        x += 1
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        start = time.monotonic()
        try:
            x.{wait}
        except KeyboardInterrupt:
            print(time.monotonic() - start < 15, flush=True)
        os._exit(0)
        """,
        env={"DEVRT_MTIA": "mode=threaded"},
    )
    assert done.stdout == "True\n", done.stderr


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


@pytest.mark.parametrize("call", [
    lambda x, text: x.to(text), lambda x, text: x.to(dtype=text),
    lambda x, text: x.astype(text), lambda x, text: devrt.Device(text),
    lambda x, text: devrt.Device(text, 0), lambda x, text: devrt.DType(text),
    lambda x, text: devrt.zeros(1, device=text),
    lambda x, text: devrt.current_device(text)])
def test_texts_with_surrogates(call):
    with pytest.raises(devrt.InvalidArgumentError, match="surrogates"):
        call(devrt.zeros(3), "mtia\ud800")
