# SPDX-License-Identifier: Apache-2.0
"""Arrays over memory that another library allocated."""

import weakref

import numpy as np
import pytest

import devrt
from conftest_arrays import same


def test_from_pointer_shares_and_keeps_the_owner(host):
    a = host((2, 3))

    class Owner:
        pass

    owner = Owner()
    owner.memory = a
    gone = weakref.ref(owner)
    x = devrt.from_pointer(a.ctypes.data, a.shape, a.dtype, owner=owner)
    same(x, a)
    del owner
    view = x[0]
    del x
    assert gone() is not None
    del view
    # The reference is dropped by a pending call of the interpreter.
    for _ in range(1000):
        if gone() is None:
            break
    assert gone() is None


def test_from_pointer_over_device_memory():
    x = devrt.arange(6, dtype="float32", device="mtia:1")
    y = devrt.from_pointer(x.ptr, (3, 2), "float32", owner=x)
    assert y.device is x.device
    same(y, np.arange(6, dtype="float32").reshape(3, 2))
    y += 1
    assert x.tolist() == [1, 2, 3, 4, 5, 6]
    z = devrt.from_pointer(x.ptr, 3, "float32", strides=(8,), readonly=True)
    assert z.tolist() == [1, 3, 5] and z.read_only
    stream = devrt.Stream("mtia:1")
    s = devrt.from_pointer(x.ptr, 6, "float32", owner=x, stream=stream)
    assert s.home_stream == stream


def test_from_pointer_of_nonsense():
    x = devrt.arange(6, dtype="float32")
    make = devrt.from_pointer
    for error, arguments, options in [
        (ValueError, (0, 3, "f4"), {}),
        (ValueError, (-1, 3, "f4"), {}),
        (ValueError, (2**64, 3, "f4"), {}),
        (TypeError, ("x", 3, "f4"), {}),
        (TypeError, (1.5, 3, "f4"), {}),
        (ValueError, (x.ptr, 2**40, "f4"), {}),
        (ValueError, (x.ptr, 6, "f4"), {"device": "mtia:1"}),
        (ValueError, (x.ptr, 6, "f4"), {"device": "cpu"}),
        (ValueError, (x.ptr, 6, "f4"), {"strides": (4, 4)}),
        (TypeError, (x.ptr, 6, "f4"), {"strides": "4"}),
        (TypeError, (x.ptr, 6, "f4"), {"readonly": 1}),
        (TypeError, (x.ptr, 6, "f4"), {"stream": 0}),
        (ValueError, (x.ptr, 6, "f4"), {"stream": devrt.Stream("mtia:1")}),
    ]:
        with pytest.raises(error):
            make(*arguments, **options)
    assert make(0, 0, "f4").size == 0
