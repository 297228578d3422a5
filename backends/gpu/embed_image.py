#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a C++ source with the bytes of a file: OUTPUT INPUT NAME."""

import pathlib
import sys


def main():
    output, source, name = sys.argv[1:]
    data = pathlib.Path(source).read_bytes()
    rows = [", ".join(str(b) for b in data[i:i + 16])
            for i in range(0, len(data), 16)]
    pathlib.Path(output).write_text(
        '#include "backends/gpu/backend.h"\n'
        "namespace devrt::gpu {\n"
        "namespace {\n"
        "alignas(16) constexpr unsigned char kBytes[] = {\n"
        + ",\n".join(rows) + "};\n"
        "}  // namespace\n"
        f"extern const KernelImage {name};\n"
        f"const KernelImage {name} = {{kBytes}};\n"
        "}  // namespace devrt::gpu\n", encoding="utf-8")


if __name__ == "__main__":
    main()
