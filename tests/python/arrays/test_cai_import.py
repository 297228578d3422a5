# SPDX-License-Identifier: Apache-2.0
"""The CUDA Array Interface of other libraries (E47, E13-E15), on CUDA or the library
that stands for its driver."""

import gc
import weakref

import numpy as np
import pytest

import devrt
from devrt.testing import Flag
from cai_exporter import CUDA, Exporter, array
from conftest_arrays import same

pytestmark = pytest.mark.skipif(not CUDA, reason="no CUDA device")


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float16",
                                   "float64", "int64", "int32", "int16",
                                   "int8", "uint8"])
@pytest.mark.parametrize("view", [
    lambda a: a[0, 0], lambda a: a, lambda a: a[1:], lambda a: a[:, None],
    lambda a: a.T, lambda a: a[:, ::2]])
def test_import_shares_and_exports_the_same(dtype, view):
    a = np.arange(6).reshape(2, 3).astype(dtype)
    x = view(array(a, dtype))
    y = devrt.asarray(Exporter(x))
    assert y.ptr == x.ptr and y.device is x.device
    same(y, view(a))
    assert y.__cuda_array_interface__ == x.__cuda_array_interface__
    y += 42
    same(x, view(a) + np.asarray(42, dtype))
    host = devrt.asarray(Exporter(x), device="cpu")
    copy = devrt.array(Exporter(x))
    x.fill(0)
    same(host, view(a) + np.asarray(42, dtype))
    same(copy, view(a) + np.asarray(42, dtype))


def test_import_onto_another_device_copies():
    if len(CUDA) < 2:
        pytest.skip("one device")
    x = array([1.0, 2.0])
    y = devrt.asarray(Exporter(x), device="cuda:1")
    y.ready()
    mine, theirs = y.__cuda_array_interface__, x.__cuda_array_interface__
    assert mine.pop("data") != theirs.pop("data")
    assert mine == theirs
    with pytest.raises(devrt.CopyRequiredError):
        devrt.from_cuda_array_interface(Exporter(x), device="cuda:1", copy=False)


def test_import_keeps_the_exporter():
    exporter = Exporter(array([1.0, 2.0]))
    gone = weakref.ref(exporter)
    y = devrt.from_cuda_array_interface(exporter)
    del exporter
    gc.collect()
    assert gone() is not None
    view = y[:1]
    del y
    assert gone() is not None and view.item() == 1
    view.ready()
    del view
    for _ in range(1000):
        if gone() is None:
            break
    assert gone() is None


def test_import_of_a_dict_with_an_owner():
    class Owner:
        pass

    x, owner = array([1.0]), Owner()
    y = devrt.from_cuda_array_interface(x.__cuda_array_interface__, owner=owner)
    gone = weakref.ref(owner)
    del owner
    assert gone() is not None and y.item() == 1
    assert devrt.from_cuda_array_interface(
        x.__cuda_array_interface__).ptr == x.ptr
    with pytest.raises(AttributeError):
        devrt.from_cuda_array_interface([1])


def test_what_may_be_missing_or_more():
    x = array(np.arange(6).reshape(2, 3))
    base = x.__cuda_array_interface__
    for changes in [dict(version=0), dict(version=1), dict(version=2),
                    dict(version=9, unknown=1), dict(version=2**70),
                    dict(shape=[2, 3]),
                    dict(strides=[12, 4]), dict(strides=(12, 4)),
                    dict(mask=None), dict(descr=[("", "<f4")]), dict(stream=1),
                    dict(stream=2), dict(stream=None)]:
        assert devrt.asarray(Exporter(x, **changes)).tolist() == x.tolist()
    for key in ("strides", "stream"):
        fewer = {k: v for k, v in base.items() if k != key}
        assert devrt.from_cuda_array_interface(fewer).tolist() == x.tolist()
    read_only = devrt.asarray(Exporter(x, data=(x.ptr, True)))
    assert read_only.read_only
    with pytest.raises(ValueError):
        read_only.fill(0)


TYPE_ERRORS = [
    dict(shape=6), dict(shape="6"), dict(shape=(6.0,)), dict(shape=(True,)),
    dict(strides=4), dict(strides=("4", "4")), dict(data=1), dict(data=(1,)),
    dict(data=[1, False]), dict(data=("x", False)), dict(data=(1, 0)),
    dict(data=(True, False)), dict(version="3"), dict(version=3.0),
    dict(version=None), dict(version=True), dict(stream="1"), dict(stream=1.0),
    dict(stream=True), dict(typestr=4), dict(typestr=None),
]
VALUE_ERRORS = [
    dict(typestr="x"), dict(typestr=""), dict(typestr="<f3x"),
    dict(typestr="<f4\0junk"), dict(typestr="<f4\0"),
    dict(shape=(-1, 3)), dict(strides=(4,)), dict(strides=()),
    dict(version=-1), dict(stream=-1), dict(data=(0, False)),
    dict(data=(-1, False)), dict(data=(2**64, False)),
    dict(shape=(-2**70,)), dict(version=-2**70), dict(stream=2**70),
    dict(typestr="<M8["), dict(typestr="<f4[s]"), dict(typestr="<M[s]"),
    dict(typestr="<M8[s]]"), dict(typestr="<f\ud800"),
]
BUFFER_ERRORS = [
    dict(mask=Exporter), dict(typestr=">f4"), dict(typestr="|V2"),
    dict(typestr="<V4"), dict(typestr="<M8"), dict(typestr="<f4", strides=(3, 1)),
    dict(strides=(2**62, 4), shape=(3, 3)), dict(data=(64, False)),
    dict(descr=[("a", "<f4")]), dict(shape=(2**40, 2)),
    dict(typestr="<M8[s]"), dict(typestr="<m8[25us]"), dict(shape=(2**70,)),
    dict(strides=(2**70, 4)), dict(strides=(-2**70, 4)), dict(descr=5),
]


@pytest.mark.parametrize("changes, error", [
    *[(c, TypeError) for c in TYPE_ERRORS],
    *[(c, ValueError) for c in VALUE_ERRORS],
    *[(c, BufferError) for c in BUFFER_ERRORS]], ids=str)
def test_descriptions_that_cannot_be(changes, error):
    x = array(np.arange(6).reshape(2, 3))
    exporter = Exporter(x, **changes)
    gone = weakref.ref(exporter)
    for function in (devrt.asarray, devrt.from_cuda_array_interface):
        with pytest.raises(error) as caught:
            function(exporter)
        if error is TypeError:
            assert not isinstance(caught.value, ValueError)
    del exporter, caught
    for _ in range(1000):
        gc.collect() if gone() is not None else None
        if gone() is None:
            break
    assert gone() is None, "the failed import kept its exporter"


@pytest.mark.parametrize("key", ["shape", "typestr", "data", "version"])
def test_descriptions_without_a_required_key(key):
    interface = array([1.0]).__cuda_array_interface__
    del interface[key]
    with pytest.raises(ValueError, match=key):
        devrt.from_cuda_array_interface(interface)


def test_exporters_that_lie_or_raise():
    class Raises:
        @property
        def __cuda_array_interface__(self):
            raise KeyError("theirs")

    class Lies:
        __cuda_array_interface__ = 5

    for function in (devrt.asarray, devrt.from_cuda_array_interface):
        with pytest.raises(KeyError, match="theirs"):
            function(Raises())
        with pytest.raises(TypeError):
            function(Lies())


# E47: comparing `descr` is code of others.
def test_a_description_may_change_during_the_import(run_program):
    done = run_program("""
        import devrt
        x = devrt.ones(4, "float32", device="cuda:0")
        x.ready()
        stream = devrt.Stream("cuda:0")
        class Description:
            def __eq__(self, other):
                interface.clear()  # it had the only reference to the values
                return True
        interface = {**x.__cuda_array_interface__, "descr": Description(),
                     "stream": int(str(stream.native_handle))}
        y = devrt.from_cuda_array_interface(interface, owner=x)
        assert not interface and y.home_stream == stream
        print(y.tolist())
    """, env={"PYTHONMALLOC": "debug"})  # fills what is freed
    assert done.stdout == "[1.0, 1.0, 1.0, 1.0]\n", (done.returncode, done.stderr)


# E15
def test_import_orders_the_current_stream_after_theirs():
    from devrt.testing import spin

    x = array(np.zeros(4))
    theirs, mine = devrt.Stream("cuda:0"), devrt.Stream("cuda:0")
    spin(20, theirs)
    with mine:
        y = devrt.asarray(Exporter(x, stream=theirs.native_handle))
        assert y.home_stream == theirs
        assert not mine.record().query()
        mine.synchronize()
        assert theirs.query()
    spin(200, theirs)
    with mine:
        z = devrt.from_cuda_array_interface(
            Exporter(x, stream=theirs.native_handle), sync=False)
        mine.synchronize()
        assert not theirs.query()
    theirs.synchronize()
    assert z.ptr == y.ptr


# E15: with sync=False, too, the other half of the consumer's duty is done
@pytest.mark.parametrize("sync", [True, False])
def test_theirs_comes_after_devrt_when_the_import_is_released(sync):
    from devrt.testing import spin

    x = array(np.zeros(4))
    theirs, mine = devrt.Stream("cuda:0"), devrt.Stream("cuda:0")
    with mine:
        y = devrt.from_cuda_array_interface(
            Exporter(x, stream=theirs.native_handle), sync=sync)
        assert y.home_stream == theirs
        spin(100, mine)
        y.fill(1)
        del y
    assert not theirs.query()
    theirs.synchronize()
    assert mine.query()


# E47, E14: each stream that was named, not the last one alone
def test_the_streams_of_an_exporter_outlive_their_objects():
    import ctypes

    from devrt.testing import spin

    driver = ctypes.CDLL("libcuda.so.1")

    def destroyed():
        return driver.cuStreamQuery(ctypes.c_void_p(handle)) not in (0, 600)

    first, second = devrt.Stream("cuda:0"), devrt.Stream("cuda:0")
    with first:
        x = devrt.zeros(4, device="cuda:0")
        spin(50, first)
        x.fill(1)
        handle = x.__cuda_array_interface__["stream"]
    with second:
        x.fill(2)
        assert x.__cuda_array_interface__["stream"] not in (None, handle)
    # While another Stream has it, it cannot be one that was destroyed.
    del first
    gc.collect()
    devrt.synchronize("cuda:0")
    others = [devrt.Stream("cuda:0") for _ in range(40)]
    assert handle not in [s.native_handle for s in others]
    with devrt.Device("cuda:0"):
        assert not destroyed()


# E47: an extent of 1 makes its stride mean nothing, and PyTorch ends
# the process all the same
def test_negative_strides_of_single_extents_are_written_as_those_of_c_order():
    x = array(np.arange(8).reshape(2, 4))
    for view in (x[::-1][0:1, ::2], x[:, ::-1][:, :1]):
        assert min(view.strides) < 0
        interface = view.__cuda_array_interface__
        assert interface["strides"] is None or min(interface["strides"]) > 0
        back = devrt.asarray(Exporter(view))
        assert (back.numpy() == view.numpy()).all()
    assert not hasattr(x[::-1], "__cuda_array_interface__")


# E15, E47: the other half of a consumer's duty
def test_exporters_stream_follows_the_imports_work():
    x, gate = array(np.zeros(4)), Flag("cuda:0")
    theirs, mine = devrt.Stream("cuda:0"), devrt.Stream("cuda:0")
    y = devrt.asarray(Exporter(x, stream=theirs.native_handle))
    devrt.synchronize("cuda:0")
    gate.wait_on(mine)
    with mine:
        y.fill(1)
    before = theirs.query()
    del y
    after = theirs.query()
    gate.set()
    devrt.synchronize("cuda:0")
    assert (before, after) == (True, False)
    assert x.tolist() == [1] * 4


# E3, E47: stream 0 is tolerated
def test_stream_zero():
    x = array([1.0])
    assert devrt.asarray(Exporter(x, stream=0)).item() == 1


# E3: once in the process, before anything is done
def test_stream_zero_warns(run_program):
    program = """
        import warnings
        import devrt
        class Exporter:
            def __init__(self, x):
                self.__cuda_array_interface__ = {
                    **x.__cuda_array_interface__, "stream": 0}
        x = devrt.ones(1, device="cuda:0")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(3):
                try:
                    devrt.asarray(Exporter(x))
                except ValueError as error:
                    print(error)
        print([(w.category.__name__, "0 names no stream" in str(w.message))
               for w in seen])
    """
    done = run_program(program)
    assert done.stdout == "[('InteropWarning', True)]\n", done.stderr
    assert "stream 0" not in done.stderr, "told twice"
    done = run_program(program, env={"DEVRT_DLPACK_STRICT": "1"})
    assert done.stdout.count("stream") >= 3, done.stderr
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize("give", [
    "devrt.asarray(Exporter())", "x.__dlpack__(stream=0)"])
def test_stream_zero_as_an_error_raises_each_time(run_program, give):
    done = run_program(f"""
        import warnings
        import devrt
        x = devrt.ones(1, device="cuda:0")
        class Exporter:
            __cuda_array_interface__ = {{
                **x.__cuda_array_interface__, "stream": 0}}
        warnings.simplefilter("error")
        for _ in range(2):
            try:
                {give}
            except devrt.InteropWarning:
                print("raised")
    """)
    assert done.stdout == "raised\n" * 2, done.stderr


def test_structures_and_bfloat16_are_told_apart():
    x = array([1.0])
    with pytest.raises(BufferError, match="descr") as caught:
        devrt.asarray(Exporter(x, descr=[("a", "<f4")]))
    assert "DLPack" not in str(caught.value)
    with pytest.raises(BufferError, match="bfloat16 can be exchanged by DLPack"):
        devrt.asarray(Exporter(x, typestr="<V2"))


def test_settings_are_checked_when_devrt_is_imported(run_program):
    program = """
        try:
            import devrt
        except ImportError as error:
            print(error)
    """
    done = run_program(program, env={"DEVRT_CAI_EXPORT_VERSION": "4"})
    assert "DEVRT_CAI_EXPORT_VERSION" in done.stdout, done
    program = """
        import devrt
        x = devrt.ones(1, device="cuda:0")
        assert x.__cuda_array_interface__["version"] == 2
    """
    done = run_program(program, env={"DEVRT_CAI_EXPORT_VERSION": "2"})
    assert done.returncode == 0, done.stderr
