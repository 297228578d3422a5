# SPDX-License-Identifier: Apache-2.0
"""Views, indexing and assignment against NumPy."""

import numpy as np
import pytest

import devrt
from conftest_arrays import same


def random_key(rng, shape):
    """A basic index that suits a shape."""
    key = []
    for extent in shape:
        kind = rng.integers(0, 4)
        if kind == 0 and extent:
            key.append(int(rng.integers(-extent, extent)))
        elif kind == 1:
            bounds = [None if rng.integers(0, 3) == 0
                      else int(rng.integers(-extent - 2, extent + 3))
                      for _ in range(2)]
            step = int(rng.choice([-3, -2, -1, 1, 2, 3]))
            key.append(slice(*bounds, step))
        elif kind == 2:
            key.append(slice(None))
        else:
            break
    if rng.integers(0, 3) == 0:
        key.insert(int(rng.integers(0, len(key) + 1)), None)
    if rng.integers(0, 3) == 0:
        key.insert(int(rng.integers(0, len(key) + 1)), Ellipsis)
    return tuple(key)


def pair(rng, device="mtia:0"):
    shape = tuple(int(n) for n in rng.integers(0, 5, rng.integers(0, 5)))
    a = rng.integers(-99, 99, shape).astype("int32")
    return a, devrt.array(a, device=device)


def test_indexing_is_numpys(rng):
    for _ in range(300):
        a, x = pair(rng, "cpu" if rng.integers(0, 2) else "mtia:1")
        key = random_key(rng, a.shape)
        try:
            expected = a[key]
        except IndexError:
            with pytest.raises(IndexError):
                x[key]
            continue
        same(x[key], expected)
        if expected.size:
            assert x[key].shares_storage(x)


def test_strides_of_views_are_numpys(rng):
    for _ in range(200):
        a, x = pair(rng)
        if a.size == 0:
            continue
        key = random_key(rng, a.shape)
        try:
            expected = np.asarray(a[key])
        except IndexError:
            continue
        view = x[key]
        if expected.size == 0:
            continue
        for extent, mine, numpys in zip(
                expected.shape, view.strides, expected.strides):
            assert extent == 1 or mine == numpys, key


def test_assignment_is_numpys(rng):
    for _ in range(150):
        a, x = pair(rng)
        key = random_key(rng, a.shape)
        try:
            target = np.asarray(a[key])
        except IndexError:
            continue
        kind = rng.integers(0, 4)
        if kind == 0:
            value = int(rng.integers(-99, 99))
            a[key], x[key] = value, value
        elif kind == 1:
            value = rng.integers(-99, 99, target.shape).astype("int32")
            a[key], x[key] = value, value
        elif kind == 2:
            value = rng.integers(-99, 99, target.shape).astype("int16")
            a[key], x[key] = value, devrt.array(value)
        elif target.ndim:
            value = rng.integers(-99, 99, target.shape[-1:]).astype("float32")
            a[key], x[key] = value, devrt.array(value, device="mtia:1")
        same(x, a)


def test_assignment_from_a_list_and_with_leading_ones():
    x = devrt.zeros((2, 3))
    x[1] = [1, 2, 3]
    x[0] = np.ones((1, 1, 3))
    assert x.tolist() == [[1, 1, 1], [1, 2, 3]]


@pytest.mark.parametrize("key, error", [
    (7, IndexError), (-4, IndexError), (2**70, IndexError),
    ((0, 0, 0), IndexError), ((Ellipsis, Ellipsis), IndexError),
    (slice(None, None, 0), ValueError), (True, TypeError), (1.0, TypeError),
    ("a", TypeError), ([0, 1], TypeError), (np.array([0]), TypeError),
    (np.array([True, False, True]), TypeError), ((0, [1]), TypeError),
    (slice("a"), TypeError)])
def test_indices_that_cannot_be(key, error):
    x = devrt.zeros((3, 2))
    with pytest.raises(error):
        x[key]
    with pytest.raises(error):
        x[key] = 1
    assert not x.any()


def test_arrays_are_no_indices():
    x = devrt.arange(4)
    with pytest.raises(TypeError, match="Array"):
        x[x > 2]
    with pytest.raises(TypeError, match="Array"):
        x[devrt.array([0])]
    assert x[np.int64(2)].item() == 2
    assert [10, 11, 12][devrt.array(1)] == 11


def test_assignments_that_cannot_be():
    x = devrt.zeros((3, 2), "int8")
    for value, error in [(np.zeros(3), ValueError), ("a", TypeError),
                         (None, TypeError), (300, ValueError),
                         ([1, [2]], ValueError)]:
        with pytest.raises(error):
            x[...] = value
    with pytest.raises(ValueError):
        x.as_read_only()[0] = 1
    with pytest.raises(ValueError):
        devrt.zeros(1).broadcast_to(3)[...] = 1
    with pytest.raises(TypeError):
        del x[0]
    assert not x.any()


def test_iteration_and_len():
    a = np.arange(6).reshape(3, 2)
    x = devrt.array(a)
    assert len(x) == 3
    for row, expected in zip(x, a):
        same(row, expected)
    assert len(list(x)) == 3
    assert [v.item() for v in x[:, 1]] == [1, 3, 5]
    with pytest.raises(TypeError):
        iter(x[0, 0])
    with pytest.raises(TypeError):
        len(x[0, 0])
    assert 3 in x and 9 not in x and 2.5 not in x
    with pytest.raises(TypeError):
        "a" in x


def test_reshape_and_the_like(rng, host):
    a = host((2, 3, 4))
    x = devrt.array(a)
    same(x.reshape(6, 4), a.reshape(6, 4))
    same(x.reshape((4, -1)), a.reshape(4, -1))
    same(x.T.reshape(-1), a.T.reshape(-1))
    assert x.reshape(-1).shares_storage(x)
    assert not x.reshape(24, copy=True).shares_storage(x)
    assert not x.T.reshape(24).shares_storage(x)
    with pytest.raises(ValueError):
        x.T.reshape(24, copy=False)
    same(x.transpose(), a.T)
    same(x.transpose(1, 0, 2), a.transpose(1, 0, 2))
    same(x.transpose((2, 0, 1)), a.transpose(2, 0, 1))
    same(x.permute(-1, 0, 1), a.transpose(-1, 0, 1))
    same(x.expand_dims(1).squeeze(1), a)
    same(x.expand_dims(-1), a[..., None])
    same(x[:1, None].squeeze(), a[0])
    same(x[0].broadcast_to((5, 3, 4)), np.broadcast_to(a[0], (5, 3, 4)))
    same(x.view("int32"), a.view("int32"))
    same(x.T.contiguous(), a.T)
    assert x.contiguous() is x and x.T.contiguous().is_contiguous


def test_axes_that_do_not_exist():
    """Both an IndexError and a ValueError, as NumPy's AxisError is."""
    x, number = devrt.zeros((2, 3)), devrt.zeros(())
    calls = [
        lambda: x.expand_dims(5), lambda: x.expand_dims((0, 2**70 // 2**8)),
        lambda: x.transpose(0, 5), lambda: x.permute(-3, 0),
        lambda: x.squeeze(2), lambda: x.squeeze((0, -3)),
        lambda: np.expand_dims(x, 5), lambda: np.transpose(x, (0, 5)),
        lambda: np.sum(x, axis=4), lambda: np.squeeze(x, 2),
        lambda: number.squeeze(0), lambda: number.sum(axis=0)]
    for name in ("sum", "prod", "min", "max", "mean", "any", "all"):
        calls += [lambda: getattr(x, name)(axis=4),
                  lambda: getattr(devrt, name)(x, axis=(0, -3))]
    for call in calls:
        with pytest.raises(devrt.AxisError, match="^axis -?\\d+ does not exist: ") as info:
            call()
        error = info.value
        assert isinstance(error, IndexError) and isinstance(error, ValueError)
        assert error.code == "INVALID_ARGUMENT"
    with pytest.raises(IndexError, match=r"^axis 4 does not exist: there are 2 \(-2 to 1\)$"):
        x.sum(axis=4)
    with pytest.raises(IndexError, match=r"axis 4294967297 .* 3 \(-3 to 2\)$"):
        x.expand_dims(2**32 + 1)
    with pytest.raises(ValueError, match=r"axis 0 does not exist: an array of shape \(\)"):
        number.sum(axis=0)
    with pytest.raises(ValueError) as info:
        x.sum(axis=(0, 0))  # it exists
    assert not isinstance(info.value, IndexError)


def test_views_that_cannot_be():
    x = devrt.zeros((2, 3))
    for call, error in [
        (lambda: x.reshape(4), ValueError), (lambda: x.reshape(-1, -1), ValueError),
        (lambda: x.reshape(), TypeError), (lambda: x.reshape("6"), TypeError),
        (lambda: x.reshape(6, copy=1), TypeError),
        (lambda: x.reshape(6, order="C"), TypeError),
        (lambda: x.permute(0), ValueError), (lambda: x.permute(0, 0), ValueError),
        (lambda: x.transpose(0, 2), ValueError),
        (lambda: x.transpose("a"), TypeError),
        (lambda: x.squeeze(0), ValueError), (lambda: x.squeeze(2**70), ValueError),
        (lambda: x.squeeze("0"), TypeError), (lambda: x.expand_dims(5), ValueError),
        (lambda: x.broadcast_to((3, 3)), ValueError),
        (lambda: x.view("float32"), ValueError), (lambda: x.view(3), TypeError),
        (lambda: x.shares_storage(3), TypeError),
    ]:
        with pytest.raises(error):
            call()


def test_a_refused_index_says_why():
    x = devrt.zeros((2, 3))
    with pytest.raises(IndexError, match="one ... only"):
        x[..., ...]
    with pytest.raises(IndexError, match="3 indices are too many for an array of 2"):
        x[0, 0, 0]
    with pytest.raises(IndexError, match="3 indices are too many for an array of 2"):
        x[..., 0, 0, 0]
