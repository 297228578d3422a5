# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of arrays."""

import os

import pytest

np = pytest.importorskip("numpy")

import devrt  # noqa: E402


@pytest.fixture(params=["mtia:0", "mtia:1", "cpu", "pinned"])
def place(request):
    """Keywords for functions that make arrays."""
    if request.param == "pinned":
        return {"device": "mtia:0", "pinned": True}
    return {"device": request.param}


@pytest.fixture
def rng():
    """Random numbers, the same in each run; DEVRT_TEST_SEED gives others."""
    seed = int(os.environ.get("DEVRT_TEST_SEED", 20240601))
    print("DEVRT_TEST_SEED=%d" % seed)
    return np.random.default_rng(seed)


@pytest.fixture
def host(rng):
    """host(shape, dtype): a NumPy array of random small numbers."""

    def make(shape, dtype="float32"):
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        low = 0 if dtype.startswith("u") else -50
        made = rng.integers(low, 50, shape).astype(dtype)
        if dtype.startswith("complex"):
            made = made + (rng.integers(-9, 9, shape) * 1j).astype(dtype)
        return made

    return make


@pytest.fixture(autouse=True)
def nothing_left():
    """As of the folder above, without its collection of garbage: tests here
    are many."""
    before = devrt.current_device("mtia")
    yield
    assert devrt.current_device("mtia") is before
