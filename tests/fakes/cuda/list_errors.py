# SPDX-License-Identifier: Apache-2.0
"""Writes all names of cuda.h's CUresult as DEVRT_CUDA_ERROR(name) lines.

list_errors.py OUTPUT PREPROCESSOR...: the command that preprocesses stdin.
"""

import pathlib
import re
import subprocess
import sys


def main():
    output, *preprocessor = sys.argv[1:]
    text = subprocess.run(preprocessor, input="#include <cuda.h>\n", text=True,
                          check=True, stdout=subprocess.PIPE).stdout
    enum = re.search(r"typedef enum cudaError_enum \{(.*?)\}\s*CUresult;", text,
                     re.DOTALL)
    if enum is None:
        sys.exit("cuda.h has no enum CUresult")
    names = re.findall(r"(CUDA_[A-Z0-9_]+)\s*=\s*\d+", enum.group(1))
    if len(names) < 80:
        sys.exit(f"cuda.h's CUresult has only {len(names)} names")
    lines = [f"DEVRT_CUDA_ERROR({name})\n" for name in names]
    pathlib.Path(output).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
