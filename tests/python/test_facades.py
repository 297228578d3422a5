# SPDX-License-Identifier: Apache-2.0
"""devrt.mtia, devrt.accelerator and, without a GPU, devrt.cuda and devrt.hip."""

import pytest

import devrt
from devrt import _facade, _names
from devrt.testing import Flag


def test_all_have_the_same_functions():
    names = [set(m.__all__) for m in (devrt.cuda, devrt.hip, devrt.mtia)]
    common = names[0] & names[1] & names[2]
    assert {"Stream", "Event", "current_stream", "memory_allocated", "stream",
            "set_device", "OutOfMemoryError"} <= common
    assert names[0] - common == {"CudaError", "ExternalStream", "check_error",
                                 "cudart"} - common


def test_the_table_has_every_function():
    functions = {name for name in vars(_facade.Backend) if not name.startswith("_")}
    assert functions == {*_names.__all__, "get_device_capability"}


def test_functions_are_of_their_module():
    for name in ("cuda", "hip", "mtia"):
        module = getattr(devrt, name)
        for function in (*_names.__all__, "get_device_capability"):
            assert getattr(module, function).__self__._name == name, function
    for function in _names.__all__:
        of = getattr(devrt.accelerator, function).__self__
        assert of._name is None, function


def test_devices_of_the_facade(two):
    assert devrt.mtia.is_available() and devrt.mtia.device_count() == 2
    with devrt.mtia.device(1):
        assert devrt.mtia.current_device() == 1
        assert devrt.accelerator.current_device_index() == 1
        with devrt.mtia.device(None), devrt.mtia.device_index(0):
            assert devrt.mtia.current_device() == 0
        with devrt.mtia.device("mtia:0"), devrt.mtia.device(two[1]):
            devrt.mtia.set_device(0)
            assert devrt.mtia.current_device() == 0
    assert devrt.mtia.get_device_index("mtia:1") == 1
    assert devrt.mtia.get_device_capability(1) == devrt.mtia.get_device_capability()
    assert devrt.mtia.can_device_access_peer(0, 1) in (True, False)
    devrt.mtia.synchronize(1)


@pytest.mark.parametrize("wrong", [2, -1, "mtia:2", "cpu", "cpu:0"])
def test_devices_that_are_not(wrong):
    with pytest.raises(ValueError):
        devrt.mtia.get_device_index(wrong)


@pytest.mark.parametrize("name", ["cpu", "cpu:0", "meta"])
def test_devices_of_other_libraries(name):
    said = f"device, but got: {name}$"
    asks = [devrt.Stream, devrt.set_device, devrt.synchronize, devrt.memory_stats,
            devrt.accelerator.get_device_index, devrt.accelerator.current_stream]
    # The host is a device, where arrays can be.
    asks += [devrt.device, devrt.Device] if name != "cpu" else []
    for ask in asks:
        with pytest.raises(devrt.InvalidArgumentError,
                           match="Expected an accelerator " + said):
            ask(name)
    for ask in (devrt.mtia.get_device_index, devrt.mtia.Stream):
        with pytest.raises(ValueError, match="Expected a mtia " + said):
            ask(name)


def test_streams_of_the_facade(two):
    s = devrt.mtia.Stream(1, priority=-1)
    assert isinstance(s, devrt.Stream) and s.device is two[1]
    rebuilt = devrt.mtia.Stream(stream_id=s.stream_id, device_index=s.device_index,
                                device_type=s.device_type)
    assert rebuilt == s and isinstance(rebuilt, devrt.mtia.Stream)
    with devrt.mtia.stream(s), devrt.mtia.stream(None):
        assert devrt.mtia.current_stream() is s
        assert devrt.accelerator.current_stream() is s
    assert devrt.mtia.default_stream(1).stream_id == 0
    with devrt.mtia.stream(devrt.mtia.default_stream()):
        devrt.mtia.set_stream(None)
        devrt.mtia.set_stream(devrt.mtia.default_stream())


def test_a_rebuilt_stream_has_the_device_of_its_number():
    s = devrt.mtia.Stream(0)
    value = {"stream_id": s.stream_id, "device_index": 0, "device_type": 19}
    for wrong in ({"device": "mtia:1"}, {"device": "mtia:0"}, {"priority": 1},
                  {"blocking": True}):
        with pytest.raises(TypeError, match="stream_id goes with device_index"):
            devrt.mtia.Stream(**wrong, **value)
    for wrong in ({"stream_id": s.stream_id}, {"device": 0}, {}):
        with pytest.raises(TypeError, match="'junk'"):
            devrt.mtia.Stream(junk=1, **wrong)
    with pytest.raises(TypeError, match="go with stream_id"):
        devrt.mtia.Stream(device_index=0)
    adopted = devrt.mtia.Stream.from_external(s.native_handle, 0)
    assert adopted.kind == "external" and isinstance(adopted, devrt.mtia.Stream)


@pytest.mark.parametrize("module", [devrt.cuda, devrt.hip])
def test_streams_of_another_backend_are_refused(module, two):
    s, before = devrt.Stream(two[1]), devrt.current_stream()
    for call in (module.stream, module.set_stream):
        with pytest.raises(ValueError, match="Expected a .* device, but got: mtia"):
            call(s)
        with pytest.raises(TypeError, match="Stream"):
            call(3)
    assert devrt.current_stream() is before and devrt.current_device() is two[0]
    with devrt.accelerator.stream(s):
        assert devrt.current_stream() is s


def test_memory_of_the_facade():
    free, total = devrt.mtia.mem_get_info()
    assert 0 < free < total
    pointer = devrt.mtia.caching_allocator_alloc(1, device=1)
    assert devrt.mtia.memory_allocated(1) == 512
    devrt.mtia.caching_allocator_delete(pointer)
    devrt.mtia.empty_cache()
    assert devrt.mtia.memory_reserved(1) == 0
    assert "mtia:1" in devrt.mtia.memory_summary(1)
    assert devrt.mtia.memory_snapshot(1)["schema"] == "devrt.memory/1"
    devrt.mtia.reset_peak_host_memory_stats()
    devrt.mtia.reset_accumulated_host_memory_stats()
    devrt.mtia.host_empty_cache()


def test_caches_keep_blocks_with_pending_work():
    """As the docstrings say."""
    for module in (devrt.mtia, devrt.accelerator):
        s, gate = devrt.Stream("mtia:1"), Flag("mtia:1")
        gate.wait_on(s)
        with s:
            pointer = devrt.caching_allocator_alloc(1, s)
            other = devrt.Stream("mtia:1")
            gate.wait_on(other)
            devrt.record_stream(pointer, other)
            devrt.caching_allocator_delete(pointer)
        module.empty_cache()
        assert devrt.memory_reserved("mtia:1") > 0
        gate.set()
        module.synchronize(1)
        module.empty_cache()
        assert devrt.memory_reserved("mtia:1") == 0
        for call in (module.empty_cache, module.host_empty_cache):
            assert "pending work" in call.__doc__ and "synchronize()" in call.__doc__


# torch.accelerator.__all__ of PyTorch 2.15.
TORCH = {
    "Graph", "current_accelerator", "current_device_idx", "current_device_index",
    "get_device_capability", "current_stream", "device_count", "device_index",
    "empty_cache", "empty_host_cache", "get_memory_info", "is_available",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream",
    "synchronize"}


def test_names_of_torch_accelerator(two):
    a = devrt.accelerator
    assert TORCH - set(a.__all__) == {"Graph"}
    assert all(callable(getattr(a, name)) for name in TORCH - {"Graph"})
    free, total = a.get_memory_info(1)
    assert 0 < free <= total and type(free) is int
    assert a.get_memory_info() == a.get_memory_info("mtia:0")
    pinned = devrt.ones(1, device="mtia:0", pinned=True)
    del pinned
    assert devrt.host_memory_stats()["allocated_bytes.current"] > 0
    devrt.synchronize("mtia:0")
    a.empty_host_cache()
    assert devrt.host_memory_stats()["allocated_bytes.current"] == 0


def test_capability_as_of_torch_accelerator(two):
    for device in (None, 1, "mtia:1", two[1]):
        capability = devrt.accelerator.get_device_capability(device)
        assert list(capability) == ["supported_dtypes"]
        dtypes = capability["supported_dtypes"]
        assert type(dtypes) is set and devrt.float8_e5m2 in dtypes
        assert {one.name for one in dtypes} >= {"bool", "bfloat16", "complex128"}
    for dtype in dtypes:
        x = devrt.ones(2, dtype, device="mtia:1")
        for other in dtypes:
            assert x.astype(other).dtype == other
    with pytest.raises(devrt.InvalidArgumentError):
        devrt.accelerator.get_device_capability(2)
    with pytest.raises(TypeError):
        devrt.accelerator.get_device_capability(device=0)
    assert devrt.mtia.get_device_capability(1) == (
        devrt.get_device_properties("mtia:1").major,
        devrt.get_device_properties("mtia:1").minor)


def test_deprecated_names_of_torch_accelerator(two):
    with two[1]:
        with pytest.warns(FutureWarning, match="current_device_index"):
            assert devrt.accelerator.current_device_idx() == 1
        with pytest.warns(FutureWarning, match="set_device_index"):
            devrt.accelerator.set_device_idx(0)
        assert devrt.accelerator.current_device_index() == 0


def test_accelerator_sets_the_current_device(two):
    assert devrt.accelerator.current_accelerator() is two[0]
    assert devrt.accelerator.current_accelerator(check_available=True) is two[0]
    for device in ("mtia:1", two[1]):
        with two[0]:
            devrt.accelerator.set_device_index(device)
            devrt.accelerator.set_device_index(-1)  # as PyTorch, nothing
            assert devrt.accelerator.current_device_index() == 1
    with two[0]:
        devrt.accelerator.set_device_index(1)
        assert devrt.accelerator.current_device_index() == 1


# DEVRT_BACKENDS leaves them out.
@pytest.mark.parametrize("module", [devrt.cuda, devrt.hip])
def test_backends_that_are_not_there(module):
    assert module.is_available() is False and module.device_count() == 0
    for call in (module.current_device, module.current_stream, module.Stream,
                 module.memory_stats, module.synchronize):
        with pytest.raises(devrt.Error):
            call()


def test_streams_are_of_their_class():
    class Own(devrt.mtia.Stream):
        pass

    stream = devrt.Stream("mtia:0")
    for s in (stream, devrt.mtia.Stream(), devrt.mtia.current_stream(), Own(),
              devrt.default_stream("mtia:1"), devrt.StreamPool("mtia:0").next(),
              devrt.per_thread_default_stream("mtia:0"),
              devrt.mtia.Stream.from_external(stream.native_handle, "mtia:0")):
        assert isinstance(s, devrt.mtia.Stream) and isinstance(s, devrt.Stream)
        assert not isinstance(s, (devrt.cuda.Stream, devrt.hip.Stream))
        assert isinstance(s, Own) == (type(s) is Own)
    for other in (devrt.device("mtia:0"), devrt.Event(), None, 1):
        assert not isinstance(other, devrt.mtia.Stream)


# docs/reference/semantics.md 2.2, by number
CODES = {
    1: ("INVALID_ARGUMENT", "cudaErrorInvalidValue", False),
    2: ("RESOURCE_EXHAUSTED", "cudaErrorMemoryAllocation", False),
    3: ("UNAVAILABLE", "cudaErrorInitializationError", False),
    9: ("INVALID_ARGUMENT", "cudaErrorInvalidConfiguration", False),
    35: ("UNAVAILABLE", "cudaErrorInsufficientDriver", False),
    46: ("UNAVAILABLE", "cudaErrorDevicesUnavailable", False),
    100: ("UNAVAILABLE", "cudaErrorNoDevice", False),
    101: ("INVALID_ARGUMENT", "cudaErrorInvalidDevice", False),
    127: ("UNAVAILABLE", "cudaErrorStartupFailure", False),
    209: ("FAILED_PRECONDITION", "cudaErrorNoKernelImageForDevice", False),
    214: ("DATA_LOSS", "cudaErrorECCUncorrectable", True),
    217: ("UNIMPLEMENTED", "cudaErrorPeerAccessUnsupported", False),
    400: ("INVALID_ARGUMENT", "cudaErrorInvalidResourceHandle", False),
    600: ("FAILED_PRECONDITION", "cudaErrorNotReady", False),
    700: ("INTERNAL", "cudaErrorIllegalAddress", True),
    702: ("DEADLINE_EXCEEDED", "cudaErrorLaunchTimeout", True),
    712: ("ALREADY_EXISTS", "cudaErrorHostMemoryAlreadyRegistered", False),
    713: ("NOT_FOUND", "cudaErrorHostMemoryNotRegistered", False),
    901: ("FAILED_PRECONDITION", "cudaErrorStreamCaptureInvalidated", False),
    911: ("INTERNAL", "cudaErrorExternalDevice", True),
    999: ("UNKNOWN", "cudaErrorUnknown", False),
    10: ("INTERNAL", None, False),
    54321: ("INTERNAL", None, False),
    -1: ("INTERNAL", None, False),
    2**70: ("INTERNAL", None, False),
}


@pytest.mark.parametrize("code", CODES)
def test_check_error(code):
    with pytest.raises(devrt.CudaError) as info:
        devrt.cuda.check_error(code)
    error = info.value
    assert (error.code, error.name, error.sticky) == CODES[code]
    assert (error.native_code, error.device) == (code, None)
    assert str(code) in str(error) and (error.name or "unrecognized") in str(error)


def test_check_error_of_none():
    devrt.cuda.check_error(0)
    with pytest.raises(devrt.CudaError, match="out of memory"):
        devrt.cuda.check_error(2)
    for wrong in ("2", True, None):
        with pytest.raises(TypeError):
            devrt.cuda.check_error(wrong)


def test_get_device_module(two):
    for device in (two[1], "mtia:1", "mtia"):
        assert devrt.get_device_module(device) is devrt.mtia
    # A name alone opens nothing.
    assert devrt.get_device_module("cuda") is devrt.cuda
    assert devrt.get_device_module("hip") is devrt.hip
    with two[1]:
        assert devrt.get_device_module() is devrt.mtia
    for wrong, text in (("acme", "no module for backend 'acme', only for cuda, hip"),
                        ("cpu", "no module"), ("mtia:2", "out of index range"), ("", "no module")):
        with pytest.raises(devrt.InvalidArgumentError, match=text):
            devrt.get_device_module(wrong)
    for wrong in (1, True, devrt.mtia, b"mtia"):
        with pytest.raises(TypeError, match="device must be a devrt.Device, str"):
            devrt.get_device_module(wrong)
