# SPDX-License-Identifier: Apache-2.0
"""Exchange APIs of other libraries, taken by devrt.from_dlpack (E12, E54, E56)."""

import ctypes
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")

import devrt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402


def host(shape=(2, 3), dtype="float32"):
    return (np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape)


class TorchLike:
    """The attributes of torch's tensors that devrt reads beside the exchange API."""

    asked = ()
    set = ()

    def said(self, name):
        self.asked += (name,)
        return name in self.set

    requires_grad = property(lambda self: self.said("requires_grad"))

    def is_conj(self):
        return self.said("is_conj")

    def is_neg(self):
        return self.said("is_neg")


@pytest.mark.parametrize(
    "dtype, asked",
    [
        ("float32", ("requires_grad", "is_neg")),
        ("bfloat16", ("requires_grad", "is_neg")),
        ("float8_e4m3fn", ("requires_grad", "is_neg")),
        ("complex64", ("requires_grad", "is_conj", "is_neg")),
        # torch._neg_view sets it on them, too.
        ("int32", ("is_neg",)),
        ("uint8", ("is_neg",)),
        ("bool", ("is_neg",)),
    ],
)
def test_bits_of_torch_by_the_exchange_api(dtype, asked):
    """Asked for where the dtype can have them; each refuses."""
    kept = devrt.empty((4,), dtype, device="cpu")
    own = devrt.Array.__dlpack_c_exchange_api__
    api = stubs.ForeignApi(lambda: kept, own)

    class Foreign(TorchLike):
        __dlpack_c_exchange_api__ = api.capsule

    x = Foreign()
    assert devrt.from_dlpack(x).ptr == kept.ptr
    assert x.asked == asked
    for bit in asked:
        x.set = (bit,)
        with pytest.raises(BufferError):
            devrt.from_dlpack(x)


def foreign_type(kept, *bases, **what):
    """A type whose exchange API gives `kept`."""
    api = stubs.ForeignApi(lambda: kept, devrt.Array.__dlpack_c_exchange_api__)
    return type("Foreign", bases, dict(
        what, api=api, __dlpack_c_exchange_api__=api.capsule))


def test_bits_by_methods_in_c():
    """Methods without arguments are called as they are, on their own type."""
    kept = devrt.empty((4,), "float32", device="cpu")
    bits = dict(requires_grad=property(lambda self: False))
    Text = foreign_type(kept, str, is_neg=str.isupper, **bits)
    assert devrt.from_dlpack(Text("lower")).ptr == kept.ptr
    with pytest.raises(BufferError, match="negative bit"):
        devrt.from_dlpack(Text("UPPER"))
    Other = foreign_type(kept, is_neg=str.isupper, **bits)
    with pytest.raises(TypeError):
        devrt.from_dlpack(Other())
    # One that takes arguments, too.
    Mixed = foreign_type(kept, str, is_neg=str.startswith, **bits)
    with pytest.raises(TypeError):
        devrt.from_dlpack(Mixed("x"))


def test_bits_that_cannot_be_told():
    kept = devrt.empty((4,), "float32", device="cpu")

    def fail(self):
        raise KeyError("no")

    for what in (
        dict(requires_grad=property(fail)),
        dict(requires_grad=False, is_neg=fail),
        dict(requires_grad=property(lambda self: Vague())),
        dict(requires_grad=False, is_neg=lambda self: Vague()),
    ):
        with pytest.raises(KeyError, match="no"):
            devrt.from_dlpack(foreign_type(kept, **what)())


class Vague:
    def __bool__(self):
        raise KeyError("no")


def test_bits_of_objects_and_of_types_that_answer_themselves():
    kept = devrt.empty((4,), "float32", device="cpu")

    class Usually:
        def __get__(self, x, kind):
            return False

    class OnlySet:
        def __set__(self, x, value):
            raise AttributeError("requires_grad")

        def __bool__(self):
            return False

    for usual in (False, Usually(), OnlySet()):
        Plain = foreign_type(kept, requires_grad=usual, is_neg=lambda self: False)
        x = Plain()
        devrt.from_dlpack(x)
        # The object's own comes before the type's, as that is no property.
        x.__dict__["requires_grad"] = 1
        with pytest.raises(BufferError, match="requires_grad"):
            devrt.from_dlpack(x)

    def answer(self, name):
        return True if name == "requires_grad" else object.__getattribute__(self, name)

    Own = foreign_type(kept, requires_grad=property(lambda self: False),
                       is_neg=lambda self: False, __getattribute__=answer)
    with pytest.raises(BufferError, match="requires_grad"):
        devrt.from_dlpack(Own())


def test_each_type_has_its_own_exchange_api():
    first, second = (devrt.empty((4,), "float32", device="cpu") for _ in range(2))
    A, B = foreign_type(first), foreign_type(second)
    for _ in range(2):
        assert devrt.from_dlpack(A()).ptr == first.ptr
        assert devrt.from_dlpack(B()).ptr == second.ptr
    A.__dlpack_c_exchange_api__ = B.__dlpack_c_exchange_api__
    assert devrt.from_dlpack(A()).ptr == second.ptr
    del B.__dlpack_c_exchange_api__
    with pytest.raises(AttributeError):
        devrt.from_dlpack(B())


def test_an_exchange_api_that_goes_during_its_import():
    kept = devrt.empty((4,), "float32", device="mtia:1")
    api = stubs.ForeignApi(lambda: kept, devrt.Array.__dlpack_c_exchange_api__)
    size = ctypes.sizeof(stubs.ApiTable)
    table = ctypes.create_string_buffer(bytes(api.table), size)
    ended = []

    def end(capsule):
        ctypes.memset(table, 0, size)
        ended.append(capsule)

    destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(end)

    class Foreign:
        __dlpack_c_exchange_api__ = stubs._new(
            ctypes.addressof(table), api.name, destructor)

        @property
        def requires_grad(self):
            del Foreign.__dlpack_c_exchange_api__
            assert not ended
            return False

    assert devrt.from_dlpack(Foreign()).ptr == kept.ptr
    assert len(ended) == 1


def test_a_foreign_exchange_api_is_ordered_by_its_stream():
    """The default one and another, for consumers on it and beside it."""
    x = devrt.zeros((4,), "float32", device="mtia:1")
    a, b = devrt.Stream("mtia:1"), devrt.Stream("mtia:1")
    own = devrt.Array.__dlpack_c_exchange_api__

    def alias():  # devrt does not know that it is the same memory
        return devrt.from_pointer(x.ptr, x.shape, x.dtype, device="mtia:1", owner=x)

    default = devrt.default_stream("mtia:1")
    for number, (producer, consumer) in enumerate(
        [(default, b), (default, default), (a, b), (a, a), (a, default)], 1
    ):
        writes, exported = alias(), alias()
        devrt.synchronize("mtia:1")
        api = stubs.ForeignApi(lambda: exported, own)
        api.stream = None if producer is default else producer.native_handle

        class Foreign:
            __dlpack_c_exchange_api__ = api.capsule

        with producer:
            devrt.testing.spin(1)
            writes.fill(number)
        with consumer:
            copy = devrt.from_dlpack(Foreign()).copy()
        assert (copy.numpy() == number).all()


def test_a_foreign_exchange_api_that_lies():
    own = devrt.Array.__dlpack_c_exchange_api__
    x = devrt.array(host(), device="mtia:0")
    api = stubs.ForeignApi(lambda: x, own)

    class Foreign(TorchLike):
        __dlpack_c_exchange_api__ = api.capsule

    foreign = Foreign()
    api.major = 2  # of its tensors
    with pytest.raises(BufferError, match="version 2"):
        devrt.from_dlpack(foreign)
    assert foreign.asked == ()
    api.major = None  # no tensor
    with pytest.raises(BufferError, match="no tensor"):
        devrt.from_dlpack(foreign)


@pytest.mark.parametrize("missing", ["from_py", "stream"])
def test_a_foreign_exchange_api_that_lacks_a_function(missing):
    """As if it were not there."""
    own = devrt.Array.__dlpack_c_exchange_api__
    api = stubs.ForeignApi(lambda: devrt.array(host(), device="cpu"), own)
    setattr(api.table, missing, None)

    class Foreign:
        __dlpack_c_exchange_api__ = api.capsule

    with pytest.raises(AttributeError, match="__dlpack_device__"):
        devrt.from_dlpack(Foreign())

    class Both(stubs.Producer):
        __dlpack_c_exchange_api__ = api.capsule

    x = Both(stubs.Forged(host()).capsule)
    assert (devrt.from_dlpack(x).numpy() == host()).all() and len(x.calls) == 1


def test_a_foreign_exchange_api_that_fails_without_a_reason():
    own = devrt.Array.__dlpack_c_exchange_api__
    x = devrt.array(host(), device="mtia:0")
    api = stubs.ForeignApi(lambda: x, own)

    class Foreign:
        __dlpack_c_exchange_api__ = api.capsule

    fails = stubs.WORK_STREAM(lambda kind, index, out: -1)
    api.table.stream = stubs.ctypes.cast(fails, stubs.ctypes.c_void_p).value
    with pytest.raises(BufferError, match="Foreign.*did not say why"):
        devrt.from_dlpack(Foreign())
    fails_too = stubs.FROM_PY(lambda x, out: -1)
    api.table.from_py = stubs.ctypes.cast(fails_too, stubs.ctypes.c_void_p).value
    with pytest.raises(BufferError, match="Foreign.*did not say why"):
        devrt.from_dlpack(Foreign())


def refusing_type(error, *bases):
    """A type whose exchange API raises `error` and gives no tensor."""
    api = stubs.ForeignApi(lambda: None, None)

    def fail(self):
        raise error

    # It returns -1 with what __bool__ raises, as a function of the API does.
    api.table.from_py = ctypes.cast(
        ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p).value
    return type("Foreign", bases, dict(
        api=api, __dlpack_c_exchange_api__=api.capsule, __bool__=fail))


# The message of PyTorch 2.15 for a tensor on "meta".
FRAMES = """Cannot pack tensors on meta
Exception raised from torchDeviceToDLDevice at DLConvertor.cpp:156 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x9d (0x7f in libc10.so)
frame #1: c10::detail::torchCheckFail(char const*, char const*) + 0x6a (0x7f in libc10.so)
"""


@pytest.mark.parametrize("kind", [RuntimeError, NotImplementedError, ValueError,
                                  BufferError])
def test_unshareable_tensors_raise_a_short_buffer_error(kind):
    for text in (FRAMES, "\n" + FRAMES):
        with pytest.raises(BufferError) as info:
            devrt.from_dlpack(refusing_type(kind(text))())
        assert type(info.value) is BufferError
        assert str(info.value) == (
            "Foreign cannot be shared: Cannot pack tensors on meta")
        assert info.value.__cause__ is None and info.value.__context__ is None
    meta = refusing_type(kind(FRAMES), TorchLike)()
    meta.is_meta = True
    with pytest.raises(BufferError) as info:
        devrt.from_dlpack(meta)
    assert str(info.value) == (
        "Foreign cannot be shared: Cannot pack tensors on meta (it is on the device "
        "meta and has no memory)")


def test_other_exceptions_of_an_exchange_api_stay():
    class Mine(RuntimeError):
        pass

    for error in (Mine("mine\nof two lines"), KeyError("k"), MemoryError(),
                  KeyboardInterrupt(), RuntimeError(), BufferError("\n")):
        with pytest.raises(type(error)) as info:
            devrt.from_dlpack(refusing_type(error)())
        assert info.value is error


def test_a_foreign_exchange_api_is_used():
    """A type with the attribute is never asked by __dlpack__."""
    own = devrt.Array.__dlpack_c_exchange_api__
    api = stubs.ForeignApi(lambda: devrt.array(host(), device="cpu"), own)

    class Foreign:
        __dlpack_c_exchange_api__ = api.capsule

        def __dlpack__(self, **keywords):
            raise AssertionError("asked")

        __dlpack_device__ = __dlpack__

    x = devrt.from_dlpack(Foreign())
    assert (x.numpy() == host()).all()


@pytest.mark.parametrize("deleter", [True, False])
def test_a_deleter_that_runs_code_under_an_exception(deleter):
    """Of a tensor that is refused; why it is stays raised."""
    forged = stubs.Forged(host(), deleter=deleter)

    class Api(stubs.ForeignApi):
        def __init__(self):
            super().__init__(lambda: None, None)
            self.give = stubs.FROM_PY(self.lend)
            self.table.from_py = ctypes.cast(self.give, ctypes.c_void_p).value

        def lend(self, x, out):
            out[0] = ctypes.pointer(forged.struct)
            return 0

    api = Api()

    class Foreign(TorchLike):
        __dlpack_c_exchange_api__ = api.capsule
        set = ("requires_grad",)

    with pytest.raises(BufferError, match="requires_grad"):
        devrt.from_dlpack(Foreign())
    assert forged.deleted == deleter


def test_the_import_uses_an_earlier_major_in_the_chain():
    own = devrt.Array.__dlpack_c_exchange_api__
    x = devrt.array(host(), device="cpu")
    first = stubs.ForeignApi(lambda: x, own)
    newer = [stubs.ForeignApi(lambda: None, None, major=major) for major in (2, 3)]
    for api, previous in zip(newer, (first, newer[0])):
        api.table.prev = ctypes.addressof(previous.table)
    for api in newer:
        class Foreign:
            __dlpack_c_exchange_api__ = api.capsule

        assert devrt.from_dlpack(Foreign()).ptr == x.ptr


def test_a_foreign_major_of_the_exchange_api_is_not_used():
    api = stubs.ForeignApi(lambda: None, None, major=2)

    class Foreign(stubs.Producer):
        __dlpack_c_exchange_api__ = api.capsule

    x = devrt.from_dlpack(Foreign(stubs.Forged(host()).capsule))
    assert (x.numpy() == host()).all()
