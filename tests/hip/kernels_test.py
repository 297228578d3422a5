# SPDX-License-Identifier: Apache-2.0
"""The code objects hold every kernel for every target: TARGETS IMAGE...

An image is a clang offload bundle; in it is one ELF file per target, with two
symbols per kernel: its code, and NAME.kd, by which a runtime launches it.
"""

import pathlib
import re
import struct
import sys
import unittest

GPU = pathlib.Path(__file__).resolve().parents[2] / "backends/gpu"
MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
DYNAMIC_SYMBOLS = 11  # a section's type


def listed(macro, text):
    return re.findall(rf"^{macro}\((\w+),", text, re.MULTILINE)


def kernels():
    """Returns the kernels that backends/gpu finds by name: one kernel, or one for each
    dtype, real dtype, tile, or operation and dtype."""
    text = (GPU / "kernel_dtypes.inc").read_text()
    dtypes = listed("DEVRT_KERNEL_DTYPE", text)
    real = listed("DEVRT_KERNEL_DTYPE",
                  text[:text.index("#ifndef DEVRT_REAL_DTYPES_ONLY")])
    tiles = (GPU / "kernel_tiles.inc").read_text()
    folds = [f"{fold}_{dtype}"
             for fold, of in [("sum", dtypes), ("prod", dtypes),
                              ("truth", dtypes), ("min", real), ("max", real)]
             for dtype in of]
    each = {"devrt_cast_": real, "devrt_adjacent_": folds,
            "devrt_short_": folds,
            "devrt_tile_": listed("DEVRT_KERNEL_TILE", tiles),
            "devrt_turn_": listed("DEVRT_KERNEL_TURN", tiles)}
    names = []
    for name in re.findall(r'"(devrt_\w+)"', (GPU / "kernels.h").read_text()):
        names += ([name + end for end in each.get(name, dtypes)]
                  if name.endswith("_") else [name])
    return names


def unbundle(data):
    """The code object of each device target."""
    if not data.startswith(MAGIC):
        raise ValueError("not an offload bundle")
    count, = struct.unpack_from("<Q", data, len(MAGIC))
    at = len(MAGIC) + 8
    objects = {}
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        identity = data[at + 24:at + 24 + length].decode()
        at += 24 + length
        if not identity.startswith("host"):
            objects[identity.rsplit("-", 1)[1]] = data[offset:offset + size]
    return objects


def symbols(elf):
    """Names of the defined dynamic symbols of a 64-bit ELF file."""
    if elf[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    table, = struct.unpack_from("<Q", elf, 0x28)
    entry, count = struct.unpack_from("<HH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, table + i * entry)
                for i in range(count)]
    names = set()
    for _, kind, _, _, offset, size, link, _, _, step in sections:
        if kind != DYNAMIC_SYMBOLS:
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, step):
            name, _, _, section = struct.unpack_from("<IBBH", elf, at)
            begin = strings + name
            if section != 0:
                names.add(elf[begin:elf.index(b"\0", begin)].decode())
    return names


class Kernels(unittest.TestCase):

    def test_every_target_has_every_kernel(self):
        self.assertGreater(len(kernels()), 30)
        found = {target: set() for target in TARGETS}
        for image in IMAGES:
            objects = unbundle(pathlib.Path(image).read_bytes())
            self.assertEqual(sorted(objects), sorted(TARGETS), image)
            for target, elf in objects.items():
                found[target] |= symbols(elf)
        for target in TARGETS:
            missing = [name for name in kernels()
                       if not {name, name + ".kd"} <= found[target]]
            self.assertEqual(missing, [], target)

    def test_no_kernel_is_unknown_to_the_backend(self):
        launched = {name[:-len(".kd")] for image in IMAGES
                    for elf in unbundle(pathlib.Path(image).read_bytes()).values()
                    for name in symbols(elf) if name.endswith(".kd")}
        self.assertEqual(launched, set(kernels()))


if __name__ == "__main__":
    TARGETS = sys.argv[1].split(",")
    IMAGES = sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
