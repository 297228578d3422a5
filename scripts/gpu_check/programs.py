# SPDX-License-Identifier: Apache-2.0
"""The programs to run, from a build folder or from a folder that --pack filled."""

import os
import pathlib
import re
import shutil
import subprocess

from gpu_check import (arrays, c10, collectives, examples, hip, machine, memory, mtia,
                       validate)

ROOT = pathlib.Path(__file__).resolve().parents[2]

# By their paths in a build folder, from where programs find their libraries.
NEEDED = [
    "collectives/libdevrt_collectives.so.0",
    "cts/libdevrt_cts.so.0",
    "lib/devrt/libdevrt_cuda.so",
    "lib/devrt/libdevrt_mtia.so",
    "lib/libdevrt.so.0",
    memory.SHIM,
    "tests/hardware/bad_input",
    "tests/hardware/context_audit",
    "tests/hardware/dead_stream_program",
    "tests/hardware/device_view",
    "tests/hardware/environment",
    "tests/hardware/fault_program",
    "tests/hardware/faults",
    "tests/hardware/interprocess",
    "tests/hardware/kernel_sweep",
    "tests/hardware/libcoexistence.so",
    "tests/hardware/arrays_tests",
    "tests/hardware/memory_tests",
    "tests/hardware/nccl",
    "tests/hardware/nccl_killed",
    "tests/hardware/memory_program",
    "tests/hardware/memory_soak",
    "tests/hardware/reset_program",
    "tests/hardware/soak",
    "tools/devrt",
]
# Optional: they need Google Benchmark or HIP's headers, or lie outside of tests/hardware.
# TRACE is the layer that counts calls for the interop matrix.
TRACE = "lib/devrt/layers/libdevrt_layer_trace.so"
SWEEP = ["lib/devrt/layers/libdevrt_layer_faults.so",
         "tests/sim/sim_fault_sweep_backend"]
WANTED = ["bench/cuda_bench", TRACE, *SWEEP, *arrays.FILES, *collectives.FILES,
          *examples.FILES, *memory.FILES, *hip.FILES, *validate.FILES]
# Libraries that every machine has, and those of MPI, which belong to its launcher.
SYSTEM = re.compile(r"^(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|atomic)\.so"
                    r"|lib(mpi|open-rte|open-pal|hwloc|event\w*|pmix|munge|udev|z)\b"
                    r"|ld-linux|linux-vdso)")


class Unusable(Exception):
    """There is nothing to run.  The text says what to do."""


def missing(root, needed=None):
    return [name for name in needed or NEEDED if not (root / name).exists()]


def root_of(args):
    if args.mtia:
        return prebuilt(args.prebuilt or args.build, mtia.NEEDED)
    return prebuilt(args.prebuilt) if args.prebuilt else build(args.build)


def prebuilt(folder, needed=None):
    root = pathlib.Path(folder).resolve()
    absent = missing(root, needed)
    if absent and needed:
        raise Unusable(f"{folder} has no {absent[0]}: scripts/setup builds it")
    if absent:
        raise Unusable(f"{folder} has no {absent[0]}: fill it with "
                       "scripts/gpu-check --build DIR --pack DIR")
    return root


def build(folder):
    """Builds what is missing or older than its sources, if possible."""
    root = pathlib.Path(folder).resolve()
    if not (root / "build.ninja").exists():
        if shutil.which("meson") is None:
            raise Unusable(f"{folder} is no build folder, and there is no "
                           "meson to make it one")
        call("meson", "setup", str(root), str(ROOT), "-Dwith_cuda=enabled")
    if shutil.which("ninja") is not None:
        call("ninja", "-C", str(root), *targets(root))
    absent = missing(root)
    if absent:
        raise Unusable(f"{folder} has no {absent[0]}: it was configured without "
                       "-Dwith_cuda=enabled, or not built")
    return root


def targets(root):
    """Returns what ninja knows of it.  Shared libraries have longer names there."""
    known = subprocess.run(["ninja", "-C", str(root), "-t", "targets", "all"],
                           stdout=subprocess.PIPE, text=True, check=True)
    names = {line.split(":")[0] for line in known.stdout.splitlines()}
    wanted = [name.removesuffix(".0") if name.endswith(".so.0") else name
              for name in NEEDED + WANTED]
    return [name for name in wanted if name in names]


def call(*command):
    if subprocess.run(command).returncode != 0:
        raise Unusable(f"this failed: {' '.join(command)}")


def libraries_of(path):
    """Returns the libraries that it is linked with, by name, as found here."""
    result = subprocess.run(["ldd", str(path)], stdout=subprocess.PIPE,
                            text=True, check=True)
    found = re.findall(r"^\s*(\S+) => (/\S+)", result.stdout, re.MULTILINE)
    return {name: file for name, file in found if not SYSTEM.match(name)}


def pack(root, folder, commit=None):
    """Copies the programs without debug information, and their libraries.

    Writes the commit, too, as the sources may go without their repository.
    """
    target = pathlib.Path(folder).resolve()
    files = [name for name in NEEDED + WANTED if (root / name).exists()]
    programs = [name for name in files if is_elf(root / name)]
    for name in files:
        if name in programs:
            copy_stripped(root / name, target / name)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, target / name)
    for name in programs:
        for library, path in libraries_of(root / name).items():
            inside = os.path.realpath(path).startswith(str(root))
            if not inside and not (target / "lib" / library).exists():
                copy_stripped(path, target / "lib" / library)
    c10.pack(target)
    name, dirty = machine.commit(root, commit)
    (target / machine.COMMIT_FILE).write_text(f"{name}{'-dirty' * dirty}\n",
                                              encoding="utf-8")
    size = sum(path.stat().st_size for path in target.rglob("*")
               if path.is_file())
    print(f"{target}: {size / 2**20:.1f} MiB; on the other machine: "
          f"scripts/gpu-check --prebuilt {folder}")
    for name in WANTED:
        if name not in files:
            print(f"without {name}, which was not built")


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def copy_stripped(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        target.unlink()
    shutil.copy(source, target)  # the file, not the link
    subprocess.run(["strip", "--strip-debug", str(target)], check=True)
    target.chmod(0o755)
