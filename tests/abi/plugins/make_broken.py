#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes damaged and foreign files out of a good plugin.

usage: make_broken.py GOOD_PLUGIN OUTPUT...

What an output becomes follows from its name, libdevrt_KIND.so; README.md says
what each kind is for.
"""

import pathlib
import re
import struct
import sys

# Offsets in the ELF header (64 bit, little endian).
EI_CLASS, EI_DATA, EI_VERSION = 4, 5, 6
E_TYPE, E_MACHINE, E_PHOFF, E_SHOFF = 16, 18, 32, 40
E_PHENTSIZE, E_PHNUM, E_SHNUM, E_SHSTRNDX = 54, 56, 60, 62
PHDR_SIZE, DYN_SIZE, SYM_SIZE = 56, 16, 24
PT_LOAD, PT_DYNAMIC = 1, 2
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_GNU_HASH = 4, 5, 6, 10, 0x6ffffef5
MANIFEST = b"devrt_plugin_manifest_v0\0"
FAR = 0x7fff_ffff_ffff_f000


class Elf:
    """A shared library whose bytes can be looked up and overwritten."""

    def __init__(self, data):
        self.data = bytearray(data)

    def get(self, form, offset):
        return struct.unpack_from("<" + form, self.data, offset)[0]

    def put(self, form, offset, value):
        struct.pack_into("<" + form, self.data, offset, value)

    def program_headers(self, kind):
        """Offsets of the program headers of one type."""
        table = self.get("Q", E_PHOFF)
        headers = [table + i * PHDR_SIZE
                   for i in range(self.get("H", E_PHNUM))]
        return [h for h in headers if self.get("I", h) == kind]

    def offset(self, address):
        """Where in the file a virtual address is."""
        for header in self.program_headers(PT_LOAD):
            start = self.get("Q", header + 16)
            if start <= address < start + self.get("Q", header + 32):
                return self.get("Q", header + 8) + address - start
        raise ValueError(f"{address:#x} is in no segment")

    def dynamic(self):
        """Offset and size of the dynamic section."""
        header = self.program_headers(PT_DYNAMIC)[0]
        return self.get("Q", header + 8), self.get("Q", header + 32)

    def dynamic_entry(self, tag):
        """Offset of the value of a dynamic entry, None without it."""
        start, size = self.dynamic()
        for entry in range(start, start + size, DYN_SIZE):
            if self.get("Q", entry) == tag:
                return entry + 8
        return None

    def table(self, tag):
        """Offset of the table that a dynamic entry points to."""
        return self.offset(self.get("Q", self.dynamic_entry(tag)))

    def manifest_symbol(self):
        """Offset of the manifest's entry in the symbol table."""
        strings = self.table(DT_STRTAB)
        size = self.get("Q", self.dynamic_entry(DT_STRSZ))
        name = self.data.index(MANIFEST, strings, strings + size) - strings
        symbol = self.table(DT_SYMTAB)
        while self.get("I", symbol) != name:
            symbol += SYM_SIZE
        return symbol

    def manifest(self):
        """Offset of the manifest itself."""
        return self.offset(self.get("Q", self.manifest_symbol() + 8))

    def cut(self, size):
        del self.data[size:]

    def rename_library(self, old, new):
        """Exchanges a needed library for one of an equally long name."""
        assert len(old) == len(new) and self.data.count(old + b"\0")
        self.data = self.data.replace(old + b"\0", new + b"\0")


def without_sections(elf):
    elf.put("Q", E_SHOFF, 0)
    elf.put("H", E_SHNUM, 0)
    elf.put("H", E_SHSTRNDX, 0)


def endless_hash(elf):
    """A hash table whose chains never end, and more buckets than bytes."""
    table = elf.table(DT_GNU_HASH)
    buckets, _, bloom, _ = struct.unpack_from("<4I", elf.data, table)
    chains = table + 16 + 8 * bloom + 4 * buckets
    end = elf.table(DT_SYMTAB)
    for chain in range(chains, end - 3 if end > chains else chains, 4):
        elf.put("I", chain, elf.get("I", chain) & ~1)


def a_needed_library(data):
    """A library that the file needs, and a name of that length for none."""
    for name in (b"libc.so.6", b"libtsan.so.2", b"libasan.so.8"):
        if name + b"\0" in data:
            return name, name.replace(b"lib", b"laQ", 1)
    raise SystemExit("make_broken: the plugin needs no library that is known")


KINDS = {
    # Cut.
    "empty": lambda e: e.cut(0),
    "one_byte": lambda e: e.cut(1),
    "truncated": lambda e: e.cut(200),
    "truncated_header": lambda e: e.cut(63),
    "truncated_segments": lambda e: e.cut(
        e.get("Q", E_PHOFF) + PHDR_SIZE // 2),
    "truncated_dynamic": lambda e: e.cut(e.dynamic()[0] + 3 * DYN_SIZE + 5),
    "truncated_symbols": lambda e: e.cut(e.table(DT_SYMTAB) + SYM_SIZE + 7),
    "truncated_strings": lambda e: e.cut(e.table(DT_STRTAB) + 3),
    "truncated_manifest": lambda e: e.cut(e.manifest() + 40),
    "truncated_half": lambda e: e.cut(len(e.data) // 2),
    # Something else.
    "not_elf": None,
    "wrong_machine": lambda e: e.put("H", E_MACHINE, 183),  # aarch64
    "elf32": lambda e: e.put("B", EI_CLASS, 1),
    "big_endian": lambda e: e.put("B", EI_DATA, 2),
    "elf_version": lambda e: e.put("B", EI_VERSION, 9),
    "not_shared": lambda e: e.put("H", E_TYPE, 1),  # as an object file
    "missing_library": lambda e: e.rename_library(*a_needed_library(e.data)),
    # Wild numbers.
    "no_segments": lambda e: e.put("H", E_PHNUM, 0),
    "wild_phoff": lambda e: e.put("Q", E_PHOFF, FAR),
    "wild_phnum": lambda e: e.put("H", E_PHNUM, 0xffff),
    "wild_phentsize": lambda e: e.put("H", E_PHENTSIZE, 0),
    "wild_load": lambda e: e.put(
        "Q", e.program_headers(PT_LOAD)[0] + 32, 2**64 - 1),
    "wild_dynamic": lambda e: e.put(
        "Q", e.program_headers(PT_DYNAMIC)[0] + 8, FAR),
    "wild_symtab": lambda e: e.put("Q", e.dynamic_entry(DT_SYMTAB), FAR),
    "wild_strtab": lambda e: e.put("Q", e.dynamic_entry(DT_STRTAB), FAR),
    "wild_strsz": lambda e: e.put("Q", e.dynamic_entry(DT_STRSZ), FAR),
    "wild_hash_buckets": lambda e: e.put("I", e.table(DT_GNU_HASH), 2**32 - 1),
    "wild_hash_bloom": lambda e: e.put("I", e.table(DT_GNU_HASH) + 8, 3),
    "wild_hash_chain": endless_hash,
    "zero_hash_buckets": lambda e: e.put("I", e.table(DT_GNU_HASH), 0),
    "wild_name": lambda e: e.put("I", e.manifest_symbol(), 2**32 - 1),
    "wild_manifest": lambda e: e.put("Q", e.manifest_symbol() + 8, FAR),
    "zero_manifest": lambda e: e.put("Q", e.manifest_symbol() + 16, 0),
    # Legal.
    "no_sections": without_sections,
}


def make(kind, good):
    if kind == "not_elf":
        return b"#!/bin/sh\necho this is a script, not a shared library\n"
    elf = Elf(good)
    KINDS[kind](elf)
    return bytes(elf.data)


def main():
    good = pathlib.Path(sys.argv[1]).read_bytes()
    for output in map(pathlib.Path, sys.argv[2:]):
        kind = re.fullmatch(r"libdevrt_(\w+)\.so", output.name).group(1)
        output.write_bytes(make(kind, good))


if __name__ == "__main__":
    main()
