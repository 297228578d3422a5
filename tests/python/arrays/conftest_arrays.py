# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests of arrays."""

import numpy as np

NUMPY_DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "float16", "float32", "float64", "complex64", "complex128",
]


def same(array, expected):
    """Asserts that shape, dtype and elements are equal."""
    expected = np.asarray(expected)
    assert array.shape == expected.shape
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array.numpy(), expected)
