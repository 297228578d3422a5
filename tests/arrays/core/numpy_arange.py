#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes numpy_arange.inc: what numpy.arange makes, as bytes.

    pip install numpy==2.4.6 ml_dtypes==0.6.0
    tests/arrays/core/numpy_arange.py > tests/arrays/core/numpy_arange.inc
"""

import random
import sys
import warnings

import ml_dtypes
import numpy as np

NAMES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16
float32 float64 complex64 complex128 bfloat16""".split()


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def ranges():
    yield from [(0, 5, 1), (5, 0, -1), (0, 0, 1), (3, 0, 1), (0, 10, 3),
                (10, 0, -3), (0, 5, 0.5), (0.5, 4.5, 1), (0, 1, 0.1),
                (1, 0, -0.1), (0, 1, 0.3), (0.0, 3.0, 1), (0, 2, 1),
                (0, 1, 1), (0, 300, 7), (-5, 5, 2), (1.0, 1.3, 0.1),
                (0, 2.0**-30, 2.0**-33), (100, 2000, 97.7), (0, 1e-320, 1)]
    generator = random.Random(5)
    for _ in range(16):
        begin = generator.uniform(-50, 50)
        step = generator.choice([-1, 1]) * generator.uniform(0.2, 7)
        end = begin + step * generator.uniform(-1, 25)
        if generator.random() < 0.5:
            begin, end, step = int(begin), int(end), int(step) or 1
        yield begin, end, step


def defined(begin, end, step, name):
    """Returns true if C defines the conversions of the first two values."""
    if "int" not in name or all(isinstance(n, int) for n in (begin, step)):
        return True
    info = np.iinfo(name)
    return all(info.min <= int(v) <= info.max for v in (begin, begin + step))


def main():
    warnings.simplefilter("ignore")
    out = sys.stdout
    out.write("// SPDX-License-Identifier: Apache-2.0\n"
              "// Written by numpy_arange.py with NumPy "
              f"{np.__version__} and ml_dtypes {ml_dtypes.__version__}.\n"
              "// clang-format off\n"
              "const Range kRanges[] = {\n")
    for begin, end, step in ranges():
        for name in NAMES:
            if not defined(begin, end, step, name):
                continue
            try:
                made = np.arange(begin, end, step, dtype=dtype_of(name))
            except (TypeError, OverflowError, ValueError):
                continue
            out.write("    {%s, %s, %s, \"%s\", \"%s\"},\n" % (
                repr(begin), repr(end), repr(step), name,
                made.tobytes().hex()))
    out.write("};\n// clang-format on\n")


if __name__ == "__main__":
    main()
