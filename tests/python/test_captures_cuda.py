# SPDX-License-Identifier: Apache-2.0
"""Calls that raise while a stream captures (E64, E43-E45): on a GPU or over the fake
driver."""

import concurrent.futures
import contextlib
import ctypes

import pytest

np = pytest.importorskip("numpy")

import devrt
import devrt.interop
from devrt.testing import Flag

try:
    devrt.devices("cuda")
except devrt.Error as error:
    pytest.skip(f"no cuda: {str(error)[:100]}", allow_module_level=True)

V1 = (1, 0)
GLOBAL = 0  # every thread's unsafe calls make such a capture invalid
THREAD = 1  # those of the thread that began it


@contextlib.contextmanager
def capture(stream, mode=GLOBAL):
    """Another library's; valid to its end."""
    driver = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_void_p(stream.native_handle)
    graph = ctypes.c_void_p()
    assert driver.cuStreamBeginCapture_v2(handle, mode) == 0
    try:
        yield
    finally:
        code = driver.cuStreamEndCapture(handle, ctypes.byref(graph))
        if graph.value:
            assert driver.cuGraphDestroy(graph) == 0
    assert code == 0, "the capture became invalid"


@pytest.fixture
def stream():
    return devrt.Stream("cuda:0")


def idle(stream, **how):
    """An array that is used by nobody, of what is `stream`'s."""
    with stream:
        x = devrt.zeros((16,), "float32", device="cuda:0", **how)
    devrt.synchronize("cuda:0")
    assert x.is_ready()
    return x


def in_use(stream, **how):
    """Returns an array that the stream still works on."""
    x = idle(stream, **how)
    devrt._core._spin(50_000_000, stream)
    x.record_use(stream)
    return x


# ---- What is illegal ---------------------------------------------------------

REFUSED = {
    "numpy": lambda x: x.numpy(),
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0]),
    "tolist": lambda x: x.tolist(),
    "copy down": lambda x: x.to("cpu"),
    "new memory": lambda x: devrt.empty(2**24, device="cuda:0"),
    "array": lambda x: devrt.array(x, device="cpu"),
    "from_dlpack": lambda x: devrt.from_dlpack(x, device="cpu"),
    "copy_ up": lambda x: x.copy_(np.zeros(16, "float32")),
    "copy_ down": lambda x: devrt.zeros(16, "float32", device="cpu").copy_(x),
    "setitem": lambda x: x.__setitem__(slice(0, 1), [1.0]),
    "array_equal": lambda x: devrt.array_equal(x, np.zeros(16, "float32")),
}

# Of what the stream was given before it captured.
REFUSED_IF_USED = {
    **{name: REFUSED[name] for name in ("numpy", "item", "tolist")},
    "ready": lambda x: x.ready(),
    "is_ready": lambda x: x.is_ready(),
    "interop.ready": devrt.interop.ready,
    "interop.exchange": lambda x: devrt.interop.exchange(
        x, devrt.Stream("cuda:0")).__enter__(),
}


def refused(call, x):
    with pytest.raises(devrt.StreamCaptureError, match="captur") as caught:
        call(x)
    error = caught.value
    assert type(error) is devrt.StreamCaptureError
    # devrt has not asked the driver: the capture is valid.
    assert (error.code, error.native_code, error.sticky) == (
        "FAILED_PRECONDITION", None, False)


@pytest.mark.parametrize("operation", REFUSED)
def test_what_devrt_refuses_in_a_capture(stream, operation):
    x = idle(stream)
    with capture(stream), stream:
        refused(REFUSED[operation], x)


@pytest.mark.parametrize("operation", REFUSED_IF_USED)
def test_what_devrt_refuses_of_memory_in_use(stream, operation):
    x = in_use(stream)
    with capture(stream), stream:
        refused(REFUSED_IF_USED[operation], x)


def test_what_the_driver_refuses_has_its_number(stream):
    driver = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_void_p(stream.native_handle)
    graph = ctypes.c_void_p()
    assert driver.cuStreamBeginCapture_v2(handle, GLOBAL) == 0
    with pytest.raises(devrt.StreamCaptureError) as caught:
        stream.synchronize()
    assert 900 <= caught.value.native_code <= 908
    driver.cuStreamEndCapture(handle, ctypes.byref(graph))


# ---- What cannot be exported -------------------------------------------------

DEVICE_EXPORTS = {
    "to the host": lambda x, s: x.__dlpack__(dl_device=(1, 0), max_version=V1),
    "copy to the host": lambda x, s: x.__dlpack__(
        dl_device=(1, 0), copy=True, max_version=V1),
    "to the other device": lambda x, s: x.__dlpack__(
        dl_device=(2, 1), max_version=V1),
}

PINNED_EXPORTS = {
    "__dlpack__": lambda p: p.__dlpack__(max_version=V1),
    "memoryview": memoryview,
    "__array_interface__": lambda p: p.__array_interface__,
    "__array__": lambda p: p.__array__(),
    "np.asarray": np.asarray,
    "np.from_dlpack": np.from_dlpack,
}


@pytest.mark.parametrize("export", DEVICE_EXPORTS)
def test_exports_of_device_memory_in_a_capture(stream, export):
    if export == "to the other device" and len(devrt.devices("cuda")) < 2:
        pytest.skip("one device")
    x = idle(stream)
    with capture(stream), stream:
        with pytest.raises(BufferError, match="captur") as caught:
            DEVICE_EXPORTS[export](x, stream)
        assert not isinstance(caught.value, devrt.Error)


def test_copies_behind_work_of_before_a_capture(stream):
    x = idle(stream)
    other = devrt.Stream("cuda:0")
    devrt._core._spin(50_000_000, other)
    x.record_use(other)
    with capture(stream), stream:
        for copy in (None, True):
            with pytest.raises(BufferError, match="captur"):
                x.__dlpack__(stream=stream.native_handle, copy=copy,
                             max_version=V1)


@pytest.mark.parametrize("export", PINNED_EXPORTS)
def test_exports_of_pinned_memory_in_a_capture(stream, export):
    p = in_use(stream, pinned=True)
    with capture(stream), stream:
        with pytest.raises(BufferError, match="captur") as caught:
            PINNED_EXPORTS[export](p)
        assert not isinstance(caught.value, devrt.Error)
    # Nothing of the error is left.
    stream.synchronize()
    assert np.asarray(p).shape == (16,)


# Calls that wait for memory that the capture does not use.
ELSEWHERE = {
    "numpy": lambda x, p, c: x.numpy(),
    "item": lambda x, p, c: x[0].item(),
    "strided": lambda x, p, c: x[::2].numpy(),
    "copy up": lambda x, p, c: x.copy_(c),
    "copy up strided": lambda x, p, c: x[::2].copy_(c[::2]),
    "copy of pinned": lambda x, p, c: p.copy(),
    "to pinned": lambda x, p, c: p.copy_(x),
    "__dlpack__": lambda x, p, c: x.__dlpack__(dl_device=(1, 0), max_version=V1),
    "from_dlpack": lambda x, p, c: devrt.from_dlpack(x, device="cpu"),
    "pinned": lambda x, p, c: p.__dlpack__(),
    "memoryview": lambda x, p, c: memoryview(p),
}


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
@pytest.mark.parametrize("mode", [GLOBAL, THREAD])
@pytest.mark.parametrize("call", ELSEWHERE)
def test_waits_leave_the_captures_of_other_streams_valid(
        stream, call, mode, device):
    """C82: in the global mode those that any thread has begun."""
    if int(device[-1]) >= len(devrt.devices("cuda")):
        pytest.skip("one device")
    x = devrt.ones((16,), "float32", device=device)
    p = devrt.zeros((16,), "float32", device=device, pinned=True)
    c = devrt.zeros((16,), "float32", device="cpu")
    run = ELSEWHERE[call]
    run(x, p, c)  # kernels and memory are there
    devrt.synchronize(device)
    for busy in (False, True):
        if busy:
            other = devrt.Stream(device)
            devrt._core._spin(20_000_000, other)
            for each in (x, p):
                each.record_use(other)
        with capture(stream, mode):
            run(x, p, c)
            if mode == GLOBAL:
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    pool.submit(run, x, p, c).result()


# E45
def test_what_is_pending_from_before_a_capture_cannot_be_shared(stream):
    other, gate = devrt.Stream("cuda:0"), Flag("cuda:0")
    x = idle(other)
    gate.wait_on(other)
    x.record_use(other)
    with capture(stream), stream:
        for export in (lambda: x.__dlpack__(stream=stream.native_handle),
                       lambda: x.__dlpack__(), lambda: devrt.from_dlpack(x),
                       lambda: x.__cuda_array_interface__):
            with pytest.raises(BufferError, match="captur"):
                export()
        refused(lambda x: x.fill(4), x)
    gate.set()
    assert x.tolist() == [0] * 16


# E4
def test_no_stream_means_the_capturing_stream(stream):
    """No edge leaves the capture, which would make it invalid."""
    x = idle(stream)
    with capture(stream):
        with stream:
            x.fill(5)
            for number in (None, -1, stream.native_handle):
                devrt.from_dlpack(x.__dlpack__(stream=number, max_version=V1))
            interface = x.__cuda_array_interface__
            assert interface["stream"] in (None, stream.native_handle)
        # It is the home of the memory as well.
        x.__dlpack__(max_version=V1)
