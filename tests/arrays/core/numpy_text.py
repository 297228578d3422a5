#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes numpy_text.inc: arrays as NumPy prints them.

    pip install numpy==2.4.6
    tests/arrays/core/numpy_text.py > tests/arrays/core/numpy_text.inc

Rows hold the elements' bytes and the text; what devrt prints behind the values
(dtype and device always) is put there by NumPy's own rule for line breaks.
"""

import random
import sys

import numpy as np

LINE_WIDTH = 75


def full_text(x, **options):
    with np.printoptions(**options):
        prefix = "array("
        text = prefix + np.array2string(x, separator=", ", prefix=prefix,
                                        suffix=")") + ","
        extras = []
        if (x.size == 0 and x.shape != (0,)) or (
                x.size > np.get_printoptions()["threshold"]):
            extras.append(f"shape={x.shape}")
    extras += [f"dtype={x.dtype.name}", "device='cpu'"]
    rest = ", ".join(extras) + ")"
    last_line = len(text) - (text.rfind("\n") + 1)
    fits = last_line + len(rest) + 1 <= LINE_WIDTH
    return text + (" " if fits else "\n" + " " * len(prefix)) + rest


def numbers(generator, dtype, count):
    """Of one of several sizes, so that all notations appear."""
    scale = generator.choice([1, 1, 10, 100, 1e4, 1e7, 1e9, 1e-3, 1e-6, 1e20])
    values = [generator.uniform(-1, 1) * scale for _ in range(count)]
    if generator.random() < 0.4:
        values = [round(v) for v in values]
    if generator.random() < 0.3:
        values = [round(v, 2) for v in values]
    if dtype.kind in "fc" and count and generator.random() < 0.25:
        special = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0]
        for _ in range(generator.randint(1, 3)):
            values[generator.randrange(count)] = generator.choice(special)
    if dtype.kind == "c":
        others = numbers(generator, np.dtype("f8"), count)
        return [complex(a, b) for a, b in zip(values, others)]
    return values


def random_array(generator, dtype, shape):
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "b":
        values = [generator.random() < 0.5 for _ in range(count)]
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        span = generator.choice([10, 1000, 2**70])
        values = [generator.randint(max(info.min, -span), min(info.max, span))
                  for _ in range(count)]
    else:
        values = numbers(generator, dtype, count)
    return np.array(values, dtype=dtype).reshape(shape)


def cases():
    fixed = [
        np.array(1.5, dtype="f4"), np.array(True), np.array(-7, dtype="i1"),
        np.array(2 - 3j), np.array(float("nan"), dtype="f2"),
        np.zeros((0,), "f4"), np.zeros((3, 0), "i4"), np.zeros((0, 2, 2), "?"),
        np.array([1.0, 2.25, -3.0]), np.array([0.1, 0.2], dtype="f4"),
        np.array([1e-5, 1.0]), np.array([1e8, 1.0]), np.array([9.9e7, 1.0]),
        np.array([1.0, 1001.0]), np.array([1.0, 1000.0]),
        np.array([0.9999999996, 0.25]), np.array([np.inf]),
        np.array([-np.inf, 1.0]), np.array([np.nan, np.nan]),
        np.array([0.0, -0.0]), np.array([1e-310, 1e300]),
        np.array([65504.0, 6e-8], dtype="f2"), np.array([1e-4], dtype="f4"),
        np.array([1e-4], dtype="f2"), np.array([1 / 3] * 9),
        np.array([1 / 3] * 9, dtype="f2"), np.array([2.0**-24], dtype="f2"),
        np.array([True, False]), np.array([[1 + 2j, np.nan], [0.5j, -1]]),
        np.array([complex(np.nan, np.inf), complex(-np.inf, np.nan)]),
        np.array([2**64 - 1, 0], dtype="u8"), np.array([-2**63, 1]),
    ]
    for x in fixed:
        yield x, {}
    generator = random.Random(11)
    names = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()
    shapes = [(1,), (3,), (7,), (40,), (2, 3), (3, 30), (1, 1, 1), (2, 2, 3),
              (2, 1, 2, 2), (4, 1), (1, 20), (2, 2, 9), ()]
    for i in range(180):
        dtype = np.dtype(names[i % len(names)])
        x = random_array(generator, dtype, generator.choice(shapes))
        options = {}
        if generator.random() < 0.15:
            options["precision"] = generator.choice([0, 1, 3, 4, 12, 17])
        if generator.random() < 0.3:
            options["threshold"] = generator.choice([0, 5, 10])
            options["edgeitems"] = generator.choice([1, 2, 3])
        yield x, options


def quoted(text):
    return '"' + text.replace("\n", "\\n") + '"'


def main():
    out = sys.stdout
    out.write("// SPDX-License-Identifier: Apache-2.0\n"
              f"// Written by numpy_text.py with NumPy {np.__version__}.\n"
              "// clang-format off\n"
              "// dtype, shape, bytes, threshold, edge items, precision, text\n"
              "constexpr Printed kPrinted[] = {\n")
    for x, options in cases():
        out.write("    {%s, {%s}, %d, %s, %d, %d, %d,\n     %s},\n" % (
            quoted(x.dtype.name), ", ".join(map(str, x.shape)) or "0", x.ndim,
            quoted(x.tobytes().hex()), options.get("threshold", 1000),
            options.get("edgeitems", 3), options.get("precision", 8),
            quoted(full_text(x, **options))))
    out.write("};\n// clang-format on\n")


if __name__ == "__main__":
    main()
