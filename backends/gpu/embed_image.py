#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a C++ source with the bytes of a file: OUTPUT INPUT NAME.

Assumes little-endian machines, as GPUs and their hosts are.
"""

import pathlib
import struct
import sys


def main():
    output, source, name = sys.argv[1:]
    data = pathlib.Path(source).read_bytes()
    data += bytes(-len(data) % 8)
    # A compiler reads 64-bit words in an eighth of the time of bytes.
    words = struct.unpack(f"<{len(data) // 8}Q", data)
    rows = [", ".join(f"{w:#x}" for w in words[i:i + 4])
            for i in range(0, len(words), 4)]
    pathlib.Path(output).write_text(
        '#include "backends/gpu/kernel_image.h"\n'
        "namespace devrt::gpu {\n"
        "namespace {\n"
        "alignas(16) constexpr unsigned long long kWords[] = {\n"
        + ",\n".join(rows) + "};\n"
        "}  // namespace\n"
        f"const KernelImage {name} = {{kWords}};\n"
        "}  // namespace devrt::gpu\n", encoding="utf-8")


if __name__ == "__main__":
    main()
