#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes numpy_tables.inc: what NumPy and ml_dtypes say of dtypes and numbers.

    pip install numpy==2.4.6 ml_dtypes==0.6.0
    tests/arrays/core/numpy_tables.py > tests/arrays/core/numpy_tables.inc

The tests compare devrt with the table; neither package is needed to run them.
"""

import random
import sys
import warnings

import ml_dtypes
import numpy as np

NAMES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16
bfloat16 float32 float64 complex64 complex128 float8_e4m3fn
float8_e5m2""".split()


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def is_integer(name):
    return "int" in name


def promotion(a, b):
    try:
        return np.promote_types(dtype_of(a), dtype_of(b)).name
    except TypeError:
        return "-"


def weak_promotion(name, number):
    return np.result_type(dtype_of(name), number).name


def where(a, b):
    """Of two of Python's numbers."""
    return np.where(np.array([True, False]), a, b).dtype.name


def integers():
    edges = [0, 1, 2, 3, 100, 2**24 + 1, 2**24 + 3, 2**53 + 1, 2**53 + 3,
             123456789, 2**62 + 2**9, 2**62 + 2**9 + 1, 2047, 2049, 2051,
             257, 259, 65519, 65520, 464, 465]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        edges += [2**bits - 1, 2**bits]
    edges = [e for e in edges if e < 2**64]
    both = set(edges) | {-e for e in edges if e <= 2**63}
    return sorted(both)


def floats():
    edges = [0.0, 1.0, 0.5, 0.1, 1 / 3, 2.5, 3.5, 127.9, 128.0, 255.99, 1e-8,
             65504.0, 65519.999, 65520.0, 1e10, 3.4e38, 3.5e38, 1e300,
             5e-324, 1e-45, 7e-46, 7.1e-46, 6e-8, 2.98e-8, 2.9802322387695312e-8,
             2.9802322387695316e-8, 1e-40, 448.0, 464.0, 464.1, 61439.0,
             61440.0, 57344.0, 1.0009765625, 1.00048828125, 1.000488281250001,
             1.00390625, 1.003906250000001, 16777217.0, 9007199254740993.0,
             float("inf"), 2.0**31, 2.0**31 - 1, 2.0**63, 2.0**63 - 1024,
             4294967295.5]
    generator = random.Random(7)
    edges += [generator.uniform(-1, 1) * 2.0 ** generator.randint(-30, 30)
              for _ in range(40)]
    return edges + [-e for e in edges]


def little_endian(value):
    return value.tobytes().hex()


def in_range(name, value):
    """Returns true if NumPy defines the conversion of the value to this dtype."""
    if not is_integer(name):
        return True
    info = np.iinfo(name)
    return np.isfinite(value) and info.min <= int(value) <= info.max


def from_integer(number, name):
    wide = np.int64(number) if number < 2**63 else np.uint64(number)
    if not is_integer(name):
        return little_endian(wide.astype(dtype_of(name)))
    info = np.iinfo(name)
    if not info.min <= number <= info.max:
        return "-"
    return little_endian(dtype_of(name).type(number))


def rounded_to_odd(number):
    """The float next to a double whose last bit is odd, if it is no float."""
    nearest = np.float32(number)
    if not np.isfinite(nearest) or float(nearest) == number:
        return number
    if nearest.view(np.uint32) % 2 == 0:
        toward = np.inf if float(nearest) < number else -np.inf
        nearest = np.nextafter(nearest, np.float32(toward))
    return float(nearest)


def from_float(number, name):
    if not in_range(name, number):
        return "-"
    if hasattr(ml_dtypes, name):
        # It converts by way of float32, which would round twice.
        number = rounded_to_odd(number)
    return little_endian(np.float64(number).astype(dtype_of(name)))


def write_table(out, head, rows):
    out.write(f"\n{head} = {{\n")
    for row in rows:
        out.write("    {" + ", ".join(row) + "},\n")
    out.write("};\n")


def text(words):
    return '"' + " ".join(words) + '"'


def conversions():
    for number in integers():
        kind = "kSigned" if number < 2**63 else "kUnsigned"
        yield (f"DTypeKind::{kind}", f"{number % 2**64:#x}u",
               text(from_integer(number, name) for name in NAMES))
    for number in floats():
        bits = np.float64(number).view(np.uint64).item()
        yield ("DTypeKind::kFloat", f"{bits:#x}u",
               text(from_float(number, name) for name in NAMES))


def main():
    warnings.simplefilter("ignore")
    out = sys.stdout
    out.write("// SPDX-License-Identifier: Apache-2.0\n"
              "// Written by numpy_tables.py with NumPy "
              f"{np.__version__} and ml_dtypes {ml_dtypes.__version__}.\n"
              "// clang-format off\n"
              "\n// The columns of the tables; \"-\" is what NumPy refuses.\n"
              f"constexpr char kNames[] =\n    {text(NAMES)};\n")
    out.write("\n// With the dtype of each column.")
    write_table(out, "constexpr Promotion kPromotions[]", (
        (f'"{a}"', text(promotion(a, b) for b in NAMES)) for a in NAMES))
    out.write("\n// With a bool, an int, a float and a complex of Python's.")
    write_table(out, "constexpr Promotion kWeakPromotions[]", (
        (f'"{a}"', text(weak_promotion(a, n) for n in (True, 1, 1.0, 1j)))
        for a in NAMES))
    out.write("\n// where() of numbers: the row's kind with those of the columns "
              "above.")
    write_table(out, "constexpr Promotion kWhereOfNumbers[]", (
        (f'"{type(a).__name__}"',
         text(where(a, b) for b in (True, 1, 1.0, 1j)))
        for a in (True, 1, 1.0, 1j)))
    out.write("\n// The bits of an int64_t, uint64_t or double, and the bytes "
              "of the element.")
    write_table(out, "constexpr Conversion kConversions[]", conversions())
    out.write("// clang-format on\n")


if __name__ == "__main__":
    main()
