# SPDX-License-Identifier: Apache-2.0
"""The declarations of collectives/nccl/abi.h are those of installed headers of NCCL and RCCL.

    abi_test.py ASSERTIONS COMPILER...

Compiles ASSERTIONS, abi_check.cc, against each nccl.h and rccl.h that is found: in the folders of the
system, in an installed wheel nvidia-nccl-cu*, and by DEVRT_TEST_NCCL_HEADERS, paths
separated by ':'. The headers of the device's runtime that they include are replaced by what
they use of them. Libraries of such a wheel and of DEVRT_TEST_NCCL_LIBRARIES, paths as well,
export what entries.inc requires; what else they lack is printed. The libraries are not loaded.
Exits with 77 where there is no header and no library.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
SYSTEM = ["/usr/include/nccl.h", "/usr/local/include/nccl.h", "/usr/include/rccl/rccl.h",
          "/usr/include/rccl.h", "/opt/rocm/include/rccl/rccl.h"]
CUDA = ("#include <stddef.h>\ntypedef struct CUstream_st* cudaStream_t;\n"
        "typedef struct CUevent_st* cudaEvent_t;\n")
HIP = ("#include <stddef.h>\ntypedef struct ihipStream_t* hipStream_t;\n"
       "typedef struct ihipEvent_t* hipEvent_t;\n")
STUBS = {"cuda_runtime.h": CUDA, "cuda_fp16.h": "", "hip/hip_runtime.h": HIP,
         "hip/hip_runtime_api.h": HIP, "hip/hip_fp16.h": ""}


def installed(variable, in_wheel, in_system=()):
    named = os.environ.get(variable, "").split(":")
    wheels = [str(pathlib.Path(folder) / "nvidia/nccl" / in_wheel)
              for folder in sys.path if folder]
    return [path for path in [*named, *in_system, *wheels] if path and os.path.exists(path)]


def lacking(library):
    """Returns the required and the other functions that a library does not export."""
    exported = set(re.findall(r" [TWi] (\w+)", subprocess.run(
        ["nm", "-D", "--defined-only", library], text=True, check=True,
        stdout=subprocess.PIPE).stdout))
    entries = re.findall(r'^DEVRT_NCCL_ENTRY\(\w+, "(\w+)", (true|false)\)',
                         (ROOT / "collectives/nccl/entries.inc").read_text(encoding="utf-8"),
                         re.MULTILINE)
    assert len(entries) > 20, entries
    entries.append(("ncclGetVersion", "true"))
    # The all-to-all has two names, see flavor.cc.
    entries.append(("ncclAllToAll" if "rccl" in pathlib.Path(library).name
                    else "ncclAlltoAll", "false"))
    return [[name for name, required in entries
             if name not in exported and required == wanted] for wanted in ("true", "false")]


def failure(assertions, compiler, header):
    """Returns the compiler's text, or "" if all assertions hold."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in STUBS.items():
            stub = pathlib.Path(folder) / name
            stub.parent.mkdir(exist_ok=True)
            stub.write_text("#pragma once\n" + text, encoding="utf-8")
        result = subprocess.run(
            [*compiler, "-std=c++17", "-fsyntax-only", "-x", "c++", "-I", folder,
             "-iquote", str(ROOT), f'-DDEVRT_NCCL_HEADER="{header}"',
             assertions],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return "" if result.returncode == 0 else result.stdout


def main():
    found = installed("DEVRT_TEST_NCCL_HEADERS", "include/nccl.h", SYSTEM)
    libraries = installed("DEVRT_TEST_NCCL_LIBRARIES", "lib/libnccl.so.2")
    if not found and not libraries:
        print("skipped: no header and no library of NCCL or RCCL is installed")
        return 77
    failed = False
    for header in found:
        text = failure(sys.argv[1], sys.argv[2:], header)
        print(f"{header}: {'differs' if text else 'agrees'}\n{text}")
        failed = failed or bool(text)
    for library in libraries:
        required, others = lacking(library)
        print(f"{library}: lacks {', '.join(required) or 'nothing'} that is required, and "
              f"{', '.join(others) or 'nothing'} besides")
        failed = failed or bool(required)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
