# SPDX-License-Identifier: Apache-2.0
"""Compiles programs over PyTorch's C++ library where PyTorch is installed.

Google Benchmark comes from the folder that --pack filled, or is the system's.
"""

import pathlib
import shutil
import sys

from gpu_check.runner import FAILED, SKIPPED

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench/peers"
HEADERS = pathlib.Path("/usr/include/benchmark")
SYSTEM_LIBRARIES = [pathlib.Path("/usr/lib/x86_64-linux-gnu"),
                    pathlib.Path("/usr/lib64"), pathlib.Path("/usr/local/lib")]
PACKED = "include/benchmark"  # its libraries are in lib/
CUDA = pathlib.Path("/usr/local/cuda")
WHERE = "import torch; print(torch.__file__, torch._C._GLIBCXX_USE_CXX11_ABI)"
LIBRARIES = ["torch", "torch_cpu", "torch_cuda", "c10", "c10_cuda", "cudart"]


def pack(target):
    """Copies what the compilation needs and the other machine may lack."""
    if HEADERS.exists():
        shutil.copytree(HEADERS, target / PACKED, dirs_exist_ok=True)
    for folder in SYSTEM_LIBRARIES:
        for path in folder.glob("libbenchmark_main*"):
            shutil.copy(path, target / "lib" / path.name)


def google_benchmark(root):
    """Returns arguments to compile and to link with it, or None without it."""
    packed = [path for name in ["libbenchmark_main.*", "libbenchmark.so.*"]
              for path in sorted((root / "lib").glob(name))]
    if (root / PACKED).exists() and packed:
        return [f"-isystem{root / 'include'}"], [
            *packed, f"-Wl,-rpath,{root / 'lib'}"]
    if HEADERS.exists():
        return [], ["-lbenchmark_main", "-lbenchmark"]
    return None


def build(check, name):
    """Returns the program of bench/peers/NAME.cc, or None after adding a row with the
    reason.
    """
    compiler = shutil.which("g++")
    library = google_benchmark(check.root)
    if compiler is None or library is None:
        missing = "g++" if compiler is None else "Google Benchmark"
        check.add(check.part, SKIPPED, f"c10: there is no {missing}")
        return None
    asked = check.run([sys.executable, "-c", WHERE], 120)
    if asked.code != 0:
        check.add(check.part, SKIPPED, "c10: torch cannot be imported")
        return None
    file, new_abi = asked.output.splitlines()[-1].rsplit(" ", 1)
    torch = pathlib.Path(file).parent
    program = check.folder / name
    folders = [torch / "lib", CUDA / "lib64"]
    compiled = check.run(
        [compiler, "-std=c++17", "-O2", PEERS / f"{name}.cc", "-o", program,
         "-iquote", ROOT, f'-DDEVRT_BENCH_TRACES_DIR="{check.root}/tools/bench/traces"',
         f"-D_GLIBCXX_USE_CXX11_ABI={int(new_abi == 'True')}", *library[0],
         f"-isystem{torch / 'include'}", f"-isystem{CUDA / 'include'}",
         *(f"-L{folder}" for folder in folders),
         *(f"-Wl,-rpath,{folder}" for folder in folders),
         "-Wl,--no-as-needed,--allow-shlib-undefined", *library[1],
         *(f"-l{name}" for name in LIBRARIES)], 300)
    if compiled.code != 0:
        check.add(check.part, FAILED, "c10: it does not compile")
        return None
    return program
