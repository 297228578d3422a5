# SPDX-License-Identifier: Apache-2.0
"""Contexts and streams where the driver's own state shows them: on a GPU or over
the fake driver, which other libraries would ask as these tests do."""

import contextlib
import ctypes
import gc
import os
import sys
import threading
import types
import weakref

import pytest

import devrt

LEGACY, PER_THREAD = 1, 2


@pytest.fixture(scope="module")
def driver():
    """The library that is loaded already."""
    try:
        devrt.devices("cuda")
    except devrt.Error as error:
        pytest.skip(f"no cuda: {str(error)[:100]}")
    library = ctypes.CDLL("libcuda.so.1")
    assert library.cuInit(0) == 0  # each user of it calls that
    return library


@pytest.fixture
def devices(driver):
    return devrt.devices("cuda")


@pytest.fixture(autouse=True)
def nothing_left_on_cuda(devices):
    before = devrt.current_device("cuda")
    streams = [devrt.current_stream(d) for d in devices]
    yield
    assert devrt.current_device("cuda") is before
    assert [devrt.current_stream(d) for d in devices] == streams


def current_context(driver):
    context = ctypes.c_void_p()
    assert driver.cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value


def current_ordinal(driver):
    """None without a context."""
    ordinal = ctypes.c_int(-1)
    if current_context(driver) is None:
        return None
    assert driver.cuCtxGetDevice(ctypes.byref(ordinal)) == 0
    return ordinal.value


class Protocol:
    """Another library's stream."""

    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


# ---- Contexts ---------------------------------------------------------------


def test_the_driver_has_the_current_device(driver, devices):
    before = current_context(driver)
    for device in devices:
        with device as entered:
            assert entered is device
            assert current_ordinal(driver) == device.index
            assert devrt.current_device() is device
    assert current_context(driver) == before


def test_nested_contexts_restore_the_driver_exactly(driver, devices):
    first, last = devices[0], devices[-1]
    with first:
        outer = current_context(driver)
        with pytest.raises(KeyError):
            with last:
                with first, last:
                    assert current_ordinal(driver) == last.index
                    raise KeyError
        assert current_context(driver) == outer


def test_what_another_library_makes_current_is_seen(driver, devices):
    first, last = devices[0], devices[-1]
    with last:
        context = current_context(driver)
    with first:
        before = current_context(driver)
        assert driver.cuCtxSetCurrent(ctypes.c_void_p(context)) == 0
        assert devrt.current_device("cuda") is last
        with first:
            assert current_ordinal(driver) == first.index
        assert current_context(driver) == context
        assert driver.cuCtxSetCurrent(ctypes.c_void_p(before)) == 0


def test_a_stream_brings_its_device(driver, devices):
    last = devices[-1]
    s = devrt.Stream(last)
    with devices[0]:
        with s:
            assert current_ordinal(driver) == last.index
            assert devrt.current_stream() is s
        assert current_ordinal(driver) == devices[0].index


def test_threads_have_their_own(driver, devices):
    seen = []

    def work():
        seen.append(current_ordinal(driver))
        with devices[0]:
            seen.append(current_ordinal(driver))
            seen.append(devrt.current_stream() == devrt.default_stream())

    with devrt.Stream(devices[-1]):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert current_ordinal(driver) == devices[-1].index
    assert seen == [None, devices[0].index, True]


def test_backends_nest(driver, devices):
    with devices[-1]:
        with devrt.device("mtia:1"):
            assert devrt.current_device().backend == "mtia"
            assert current_ordinal(driver) == devices[-1].index
        assert devrt.current_device() is devices[-1]


def test_the_active_backend_is_that_of_the_context(driver, devices):
    """Whatever the devices are: each context restores what was active."""
    mtia, cuda = devrt.device("mtia:1"), devices[-1]
    captured = {}
    for device in (mtia, cuda):
        with device:
            captured[device] = devrt.ThreadContext.capture()
    for outer, inner in ((mtia, cuda), (cuda, mtia)):
        with outer:
            for context in (inner, captured[inner], devrt.Stream(inner)):
                with context:
                    assert devrt.current_device() is inner
                assert devrt.current_device() is outer
            with inner, outer:
                devrt.set_device(inner)
                assert devrt.current_device() is inner
                devrt.set_device(outer)
                assert devrt.current_device() is outer
                devrt.set_stream(devrt.default_stream(inner))
                assert devrt.current_device() is inner
            assert devrt.current_device() is outer


@pytest.mark.parametrize("way", ["devrt.set_stream(s)", "s.__enter__()",
                                 "two.__enter__()", "context.__enter__()"])
def test_a_device_that_cannot_be_entered_changes_nothing(run_program, way):
    """One call of the driver fails, and what it said is raised: the search is for
    which it is."""
    if not os.environ.get("DEVRT_FAKE_CUDA"):
        pytest.skip("needs the fake driver")
    for nth in (6, 5, 7, 8, 9, 10, 11, 4, 3):
        done = run_program(f"""
            import devrt
            one, two = devrt.devices("cuda")
            s, t = devrt.Stream(two), devrt.Stream(one)
            with s:
                context = devrt.ThreadContext.capture()
            t.__enter__()
            devrt.set_device(one)
            try:
                {way}
            except devrt.Error as error:
                print("raised", error.native_code, devrt.current_device(),
                      devrt.current_stream() is t,
                      devrt.current_stream(two) is devrt.default_stream(two))
            """, env={"DEVRT_FAKE_CUDA":
                      f"devices=2,fail=cuCtxSetCurrent@{nth}:999"})
        if done.stdout:
            break
    assert done.stdout == "raised 999 cuda:0 True True\n", done.stdout + done.stderr


def test_backends_left_in_another_order(driver, devices):
    """As by generators: what is above restores what it found, and no other's."""
    mtia, cuda = devrt.device("mtia:1"), devices[-1]
    before = current_context(driver), devrt.current_device("mtia")
    for first, second in ((mtia, cuda), (cuda, mtia)):
        active = devrt.current_device()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert devrt.current_device() is second
        now = current_context(driver), devrt.current_device("mtia")
        assert (now[0] == before[0]) is (second is mtia)
        assert (now[1] == before[1]) is (second is cuda)
        second.__exit__(None, None, None)
        assert devrt.current_device() is active
        assert (current_context(driver), devrt.current_device("mtia")) == before


# ---- __cuda_stream__ (E16) ---------------------------------------------------


def test_every_stream_has_the_method(devices):
    s = devrt.Stream(devices[-1])
    assert s.__cuda_stream__() == (0, s.native_handle)
    assert s.native_handle > PER_THREAD
    for usual in (devrt.default_stream(devices[0]),
                  devrt.per_thread_default_stream(devices[0])):
        assert usual.__cuda_stream__() == (0, usual.native_handle)
    assert not hasattr(devrt.Stream("mtia:0"), "__cuda_stream__")
    answer = s.__cuda_stream__()
    before = sys.getrefcount(answer)
    del s  # has kept it
    assert sys.getrefcount(answer) == before - 1


@pytest.mark.parametrize("handle", [0, LEGACY])
def test_adopting_the_legacy_stream(devices, handle):
    for device in devices:
        usual = devrt.default_stream(device)
        for source in (handle, Protocol(handle)):
            assert devrt.Stream.from_external(source, device) == usual
        with device:  # the current device is meant
            assert devrt.Stream.from_external(Protocol(handle)) == usual


def test_adopting_the_per_thread_stream(devices):
    for device in devices:
        usual = devrt.per_thread_default_stream(device)
        adopted = devrt.Stream.from_external(PER_THREAD, device)
        assert adopted == usual != devrt.default_stream(device)
        with device:
            assert devrt.Stream.from_external(Protocol(PER_THREAD)) == usual


class Moves(Protocol):
    def __init__(self, handle, to):
        super().__init__(handle)
        self.to = to

    def __cuda_stream__(self):
        devrt.set_device(self.to)
        return super().__cuda_stream__()


def test_adopting_leaves_the_current_device(devices):
    s = devrt.Stream(devices[0])
    with devrt.device("mtia:0"), devices[0]:
        for to in (devices[-1], "mtia:1"):
            for source in (Moves(s.native_handle, to), Moves(LEGACY, to)):
                adopted = devrt.Stream.from_external(source)
                assert adopted.device is devices[0]
                assert devrt.current_device() is devices[0]
                assert devrt.current_device("mtia").index == 0
                del adopted  # before its native stream


def test_adopting_finds_the_device(devices):
    for device in devices:
        s = devrt.Stream(device)
        with devices[0]:
            adopted = devrt.Stream.from_external(Protocol(s.native_handle))
        assert adopted.device is device and adopted.id != s.id
        assert adopted.kind == "external"
        assert adopted.__cuda_stream__() == (0, s.native_handle)
        del adopted  # before its native stream


def test_adopting_for_the_wrong_device(devices):
    if len(devices) < 2:
        pytest.skip("needs two devices")
    s = devrt.Stream(devices[1])
    with pytest.raises(ValueError):
        devrt.Stream.from_external(Protocol(s.native_handle), devices[0])
    with pytest.raises(ValueError):
        devrt.Stream.from_external(Protocol(s.native_handle), "mtia:0")


def test_adopting_keeps_the_owner_and_not_the_stream(driver, devices):
    native = ctypes.c_void_p()
    with devices[0]:
        made = driver.cuStreamCreateWithPriority(ctypes.byref(native), 1, 0)
    assert made == 0
    owner = Protocol(native.value)
    kept = weakref.ref(owner)
    adopted = devrt.Stream.from_external(owner)
    del owner
    gc.collect()
    assert kept() is not None and adopted.query()
    del adopted
    gc.collect()
    assert kept() is None
    with devices[0]:  # the driver would refuse a stream that is gone
        assert driver.cuStreamSynchronize(native) == 0
        assert driver.cuStreamDestroy_v2(native) == 0


@pytest.mark.parametrize("handle", [0, LEGACY, PER_THREAD])
def test_adopting_a_default_stream_keeps_the_owner(devices, handle):
    owner = Protocol(handle)
    kept = weakref.ref(owner)
    adopted = devrt.Stream.from_external(owner, devices[0])
    del owner
    gc.collect()
    assert kept() is not None
    del adopted
    assert kept() is None


def test_an_owner_with_a_reference_to_its_stream_is_not_collected(devices):
    """The collector could have it destroy the stream before the stream's end."""
    s = devrt.Stream(devices[0])
    owner = Protocol(s.native_handle)
    owner.stream = devrt.Stream.from_external(owner)
    kept, adopted = weakref.ref(owner), weakref.ref(owner.stream)
    del owner
    gc.collect()
    assert adopted().query()
    del kept().stream
    gc.collect()
    assert kept() is None


# ---- Streams in other libraries (E17) ----------------------------------------


@pytest.fixture
def libraries(monkeypatch, devices):
    """torch and cupy, as far as devrt calls them; what became current."""
    current = []

    class Use(contextlib.nullcontext):
        def __enter__(self):
            current.append(self.enter_result)

    handles = {0: 0, devices[-1].index: PER_THREAD if len(devices) > 1 else 0}
    torch, cupy = types.ModuleType("torch"), types.ModuleType("cupy")
    torch.cuda = types.SimpleNamespace(
        stream=Use, default_stream=lambda d: ("default", d),
        current_device=lambda: devices[-1].index,
        current_stream=lambda d: Protocol(handles[d]))
    cupy.cuda = types.SimpleNamespace(
        Stream=types.SimpleNamespace(
            null=Use("null"), ptds=Use("per thread"),
            from_external=lambda s: Use(("external", s))),
        Device=lambda: types.SimpleNamespace(id=devices[-1].index),
        get_current_stream=lambda d: Protocol(handles[d]))
    for library in (torch, cupy):
        monkeypatch.setitem(sys.modules, library.__name__, library)
    return current


def test_default_streams_in_other_libraries(libraries, devices):
    last = devices[-1]
    with devrt.stream(devrt.default_stream(last), also=("torch", "cupy")):
        assert libraries == [("default", last.index), "null"]
    libraries.clear()
    own = devrt.per_thread_default_stream(last)
    with devrt.stream(own, also="cupy"):
        assert libraries == ["per thread"]
    with pytest.raises(ValueError, match="per-thread"):
        with devrt.stream(own, also=("cupy", "torch")):
            raise AssertionError("entered")
    libraries.clear()
    s = devrt.Stream(last)
    with devrt.stream(s, also="cupy"):
        assert libraries == [("external", s)]


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_the_stream_of_another_library_is_of_its_device(libraries, devices, library):
    if len(devices) < 2:
        pytest.skip("needs two devices")
    first, last = devices[0], devices[-1]
    with first:
        for device in (None, last, last.index, last.name):
            s = devrt.interop.use_stream_of(library, device)
            assert s == devrt.per_thread_default_stream(last)
    with last:
        assert (devrt.interop.use_stream_of(library, first)
                == devrt.default_stream(first))


# ---- Numbers and names of one backend while another is active -----------------


def test_numbers_are_of_the_modules_own_backend(devices):
    theirs, own = devrt.Stream("mtia:1"), devrt.Stream(devices[-1])
    with devices[0]:
        adopted = devrt.mtia.Stream.from_external(theirs.native_handle, 1)
        assert adopted.device is theirs.device
    with devrt.device("mtia:0"):
        adopted = devrt.cuda.ExternalStream(own.native_handle, own.device_index)
        assert adopted.device is own.device
        del adopted  # before its native stream
    with pytest.raises(ValueError, match="Expected a mtia device, but got: cuda"):
        devrt.mtia.Stream(stream_id=own.id, device_index=own.device_index,
                          device_type=own.device_type)


def test_memory_for_rmm_is_of_the_device_that_is_current_then(devices):
    alloc, free = devrt.interop.rmm_callbacks()
    for device in (devices[-1], devices[0]):
        with device, devrt.device("mtia:1"):
            pointer = alloc(512, 0)
            assert devrt.pointer_info(pointer)["device"] is device
        free(pointer, 512, 0)


def test_memory_for_cupys_c_functions(devices):
    malloc, free = (
        ctypes.CFUNCTYPE(*types)(address) for types, address in zip(
            ((ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
             (None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)),
            devrt.interop.cupy_c_functions()))
    for device in devices:
        before = devrt.memory_allocated(device)
        pointer = malloc(None, 512, device.index)
        assert devrt.pointer_info(pointer)["device"] is device
        assert devrt.memory_allocated(device) == before + 512
        free(None, pointer, device.index)
        assert devrt.memory_allocated(device) == before
        assert malloc(None, 1 << 50, device.index) is None


# ---- Events of other processes -----------------------------------------------


def test_interprocess_events(devices):
    e = devrt.Event(devices[-1], interprocess=True)
    handle = e.ipc_handle()
    assert isinstance(handle, bytes) and e.ipc_handle() == handle
    assert e.device is devices[-1] and e.event_id != 0
    for wrong in (handle[:-1], b"", handle + b"x"):
        with pytest.raises(ValueError, match="bytes"):
            devrt.Event.from_ipc_handle(devices[-1], wrong)
    for wrong in ("text", None, bytearray(handle)):
        with pytest.raises(TypeError):
            devrt.Event.from_ipc_handle(devices[-1], wrong)
    with pytest.raises(devrt.Error):  # the process that made it opens it not
        devrt.Event.from_ipc_handle(devices[-1], handle)
    with pytest.raises(devrt.Error):
        devrt.Event(devices[-1]).ipc_handle()


# ---- Order ------------------------------------------------------------------


def test_events_across_devices(devices):
    a, b = devrt.Stream(devices[0]), devrt.Stream(devices[-1])
    with a:
        done = devrt.Event()
        done.record()
    b.wait(done)
    b.wait(a)
    b.synchronize()
    assert done.query() and a.query() and b.query()
