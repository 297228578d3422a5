# SPDX-License-Identifier: Apache-2.0
"""The declarations of collectives/nccl/abi.h are those of installed headers of NCCL and RCCL.

    abi_test.py ASSERTIONS COMPILER...

Compiles ASSERTIONS, abi_check.cc, against each nccl.h and rccl.h that is found: in the folders of the
system, in an installed wheel nvidia-nccl-cu*, and by DEVRT_TEST_NCCL_HEADERS, paths
separated by ':'. Exits with 77 where there is none. The headers of the device's runtime
that they include are replaced by what they use of them.
"""

import os
import pathlib
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


def headers():
    named = os.environ.get("DEVRT_TEST_NCCL_HEADERS", "").split(":")
    wheels = [str(pathlib.Path(folder) / "nvidia/nccl/include/nccl.h")
              for folder in sys.path if folder]
    return [path for path in named + SYSTEM + wheels if path and os.path.exists(path)]


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
    found = headers()
    if not found:
        print("skipped: no header of NCCL or RCCL is installed")
        return 77
    failed = False
    for header in found:
        text = failure(sys.argv[1], sys.argv[2:], header)
        print(f"{header}: {'differs' if text else 'agrees'}\n{text}")
        failed = failed or bool(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
