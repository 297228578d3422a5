# SPDX-License-Identifier: Apache-2.0
"""Exceptions: their classes, their attributes, their texts."""

import pickle
import re

import pytest

import devrt

BASES = {
    "Error": (RuntimeError,),
    "InvalidArgumentError": (devrt.Error, ValueError),
    "AxisError": (devrt.InvalidArgumentError, IndexError),
    "OutOfMemoryError": (devrt.Error, MemoryError),
    "UnsupportedError": (devrt.Error, NotImplementedError),
    "DeviceError": (devrt.Error,),
    "CudaError": (devrt.DeviceError,),
    "DeviceFaultError": (devrt.Error,),
    "StreamCaptureError": (devrt.DeviceError,),
    "CopyRequiredError": (BufferError, ValueError),
    "InteropWarning": (UserWarning,),
}


@pytest.mark.parametrize("name", BASES)
def test_errors_have_their_base_classes(name):
    for base in BASES[name]:
        assert issubclass(getattr(devrt, name), base)
    assert getattr(devrt, name).__module__ == "devrt"


def caught(call, *arguments, **keywords):
    with pytest.raises(devrt.Error) as info:
        call(*arguments, **keywords)
    return info.value


def test_errors_have_attributes():
    error = caught(devrt.device, "mtia:7")
    assert type(error) is devrt.InvalidArgumentError
    assert (error.code, error.native_code, error.name, error.device, error.sticky) == (
        "INVALID_ARGUMENT", None, None, None, False)
    made = devrt.Error("made by a program")
    assert (made.code, made.native_code, made.device, made.sticky) == (
        None, None, None, False)


def test_invalid_arguments_have_the_code_of_their_cause():
    """Also where no call of the library has failed."""
    for call in (lambda: bool(devrt.zeros(2)), lambda: devrt.zeros(2**70),
                 lambda: devrt.from_pointer(-1, 2, "f8"),
                 lambda: devrt.caching_allocator_alloc(-1),
                 lambda: devrt.Stream(stream_id=2**70, device_index=0,
                                      device_type=19)):
        error = caught(call)
        assert type(error) is devrt.InvalidArgumentError
        assert error.code == "INVALID_ARGUMENT"
    assert devrt.UnsupportedError().code == "UNIMPLEMENTED"
    assert devrt.OutOfMemoryError().code == "RESOURCE_EXHAUSTED"


def test_out_of_memory_names_the_device():
    for device in ("mtia:0", "mtia:1"):
        with devrt.device(device):
            for call in (lambda: devrt.empty(2**40, device=device),
                         lambda: devrt.empty(2**57, device=device),
                         lambda: devrt.caching_allocator_alloc(2**40),
                         lambda: devrt.caching_allocator_alloc(2**62),
                         lambda: devrt.pinned_alloc(2**61)):
                error = caught(call)
                assert type(error) is devrt.OutOfMemoryError
                assert error.code == "RESOURCE_EXHAUSTED"
                assert error.device == device and error.sticky is False


def test_a_required_copy():
    for call in (lambda: devrt.asarray([1], copy=False),
                 lambda: devrt.from_dlpack(devrt.zeros(2), device="mtia:1",
                                           copy=False)):
        with pytest.raises(devrt.CopyRequiredError) as info:
            call()
        error = info.value
        assert (error.code, error.native_code, error.name, error.device,
                error.sticky) == ("FAILED_PRECONDITION", None, None, None, False)
        # E64 names its bases.
        assert not isinstance(error, devrt.Error)


def test_they_travel_between_processes():
    error = caught(devrt.device, "mtia:7")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and copy.args == error.args
    assert copy.code == "INVALID_ARGUMENT"


# docs/reference/semantics.md 2.7
@pytest.mark.parametrize("call, base, text", [
    (lambda: devrt.device("mtia:9"), RuntimeError,
     "Device index value 9 is out of index range [0, 2)"),
    (lambda: devrt.device("mtia", -1), RuntimeError,
     "Device index value -1 is out of index range [0, 2)"),
    (lambda: devrt.device("cuda0"), RuntimeError, "Invalid device string: 'cuda0'"),
    (lambda: devrt.device(""), RuntimeError, "Invalid device string: ''"),
    (lambda: devrt.mtia.get_device_index("cpu"), ValueError,
     "Expected a mtia device, but got: cpu"),
    (lambda: devrt.set_per_process_memory_fraction(2.0), ValueError,
     "Invalid fraction value"),
    (lambda: devrt.set_per_process_memory_fraction(1), TypeError, "Invalid type"),
    (lambda: devrt.caching_allocator_alloc(800000000 * 2**30), MemoryError,
     "MTIA out of memory. Tried to allocate 800000000.00 GiB. GPU 0 has a total "
     "capacity of 256.00 MiB of which "),
    (lambda: devrt.caching_allocator_alloc(8000000000 * 2**30), RuntimeError,
     "MTIA out of memory. Tried to allocate more than 1EB memory."),
    (lambda: devrt.device("nosuch:0"), RuntimeError, "nosuch"),
    (lambda: devrt.devices("nosuch"), RuntimeError, "nosuch"),
    (lambda: devrt.load_backend("relative.so"), ValueError, "relative.so"),
    (lambda: devrt.load_backend("/no/such/file.so"), RuntimeError, "/no/such/file.so"),
])
def test_errors_have_their_types_and_texts(call, base, text):
    with pytest.raises(base) as info:
        call()
    assert text in str(info.value)


def test_asynchronous_fault(run_program):
    done = run_program(
        """
        import devrt
        from devrt.testing import commit_fault
        s = devrt.Stream("mtia:1")
        commit_fault("assert", s)
        for call in (s.synchronize, s.synchronize, devrt.device("mtia:1").synchronize,
                     lambda: devrt.Stream("mtia:1")):
            try:
                call()
            except devrt.DeviceFaultError as error:
                assert error.sticky and error.device == "mtia:1", error
                assert error.native_code == 710 and "710" in str(error) or error.name
                assert isinstance(error, RuntimeError)
            else:
                raise SystemExit("no error from %r" % call)
        assert isinstance(devrt.device("mtia:1").health(), devrt.DeviceFaultError)
        assert devrt.device("mtia:0").health() is None
        devrt.Stream("mtia:0").synchronize()
        with devrt.device("mtia:0"):
            pass
        del s
        print("ok")
        """
    )
    assert done.stdout == "ok\n", done.stdout + done.stderr


def test_native_errors(run_program):
    done = run_program(
        """
        import devrt
        from devrt import simulator
        devrt.devices("mtia")
        simulator.inject_fault("api", native_code=46, where="stream_create")
        try:
            [devrt.Stream() for _ in range(50)]
        except devrt.DeviceError as error:
            print(error.code, error.native_code, error.name, error.sticky)
        """
    )
    assert done.stdout.startswith("UNAVAILABLE 46 cudaErrorDevicesUnavailable False"), (
        done.stdout + done.stderr)


ADVICE = {
    "logical_not": lambda x: -(x == x),
    "use !=, or astype to an integer": lambda x: (x == x) - (x == x),
    "with to(device)": lambda x: x + devrt.ones(6, device="mtia:1"),
    "a copy() of it": lambda x: x.as_read_only().fill(1),
    "item() needs": lambda x: x.item(),
    "index or reshape it first": lambda x: x.item(),
    "reshape contiguous() of it": lambda x: x.T.reshape((6,), copy=False),
    "astype converts": lambda x: x.view("bool"),
    "compare their abs": lambda x: x.astype("complex64") < 1,
    "caching_allocator_delete needs memory from caching_allocator_alloc":
        lambda x: devrt.caching_allocator_delete(12345),
    "pinned_delete needs": lambda x: devrt.pinned_delete(12345),
    "record_stream needs": lambda x: devrt.record_stream(
        12345, devrt.current_stream()),
    "copy=True, or contiguous()": lambda x: x[::-1].__dlpack__(),
    "set_deallocation_stream: memory of mtia:0 cannot": lambda x: x.to(
        "mtia:0").set_deallocation_stream(devrt.Stream("mtia:1")),
    "without interprocess=True cannot be exported": lambda x: devrt.Event(
        "mtia:0").ipc_handle(),
    "leave device out, or name that one": lambda x: devrt.from_pointer(
        x.to("mtia:0").ptr, 1, "int8", device="mtia:1"),
    "look at the array's size first": lambda x: x[:0].max(),
    "did you mean \"mtia\"?": lambda x: devrt.device("mtai"),
    "did you mean \"cuda\"?": lambda x: devrt.device("cudda:1"),
    "'float32' is a dtype: pass it as dtype": lambda x: devrt.zeros(2, device="float32"),
    "did you mean 'cpu'?": lambda x: x.to("cpu0"),
    "events is -1, expected 0 or more": lambda x: devrt.record_memory_history(events=-1),
    "'float32' is a dtype: x.astype('float32')": lambda x: x.to("float32"),
    "x.astype('bool')": lambda x: x.to("bool", non_blocking=True),
}


@pytest.mark.parametrize("advice", ADVICE)
def test_messages_have_the_names_of_python(advice):
    x = devrt.ones((3, 2), "float32")
    with pytest.raises(Exception) as caught:
        ADVICE[advice](x)
    text = str(caught.value)
    assert advice in text
    assert not re.search(r"[a-z][A-Z]|bytes, but|\b(Cast|To|Copy|Item|Fill)\b", text)


def test_what_a_program_wrote_stays_in_messages():
    for text in ("Cast", "Copy()", "a/FreeMemory.so"):
        with pytest.raises(devrt.Error) as caught:
            devrt.device(text)
        assert text in str(caught.value)
