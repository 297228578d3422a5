# SPDX-License-Identifier: Apache-2.0
"""Writes all names of a vendor's enum of errors as MACRO(name) lines.

list_errors.py OUTPUT HEADER ENUM MACRO PREPROCESSOR...: the header's name, its
enum's (cudaError_enum, cudaError, hipError_t), the macro's, and the command that
preprocesses stdin.
"""

import pathlib
import re
import subprocess
import sys


def main():
    output, header, enum, macro, *preprocessor = sys.argv[1:]
    text = subprocess.run(preprocessor, input=f"#include <{header}>\n",
                          text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    body = re.search(rf"\benum\s[^{{}};]*\b{enum}\s*\{{(.*?)\}}", text,
                     re.DOTALL)
    if body is None:
        sys.exit(f"{header} has no enum {enum}")
    names = re.findall(r"(\w+)\s*=\s*\d+", body.group(1))
    if len(names) < 70:
        sys.exit(f"{header}'s {enum} has only {len(names)} names")
    lines = [f"{macro}({name})\n" for name in names]
    pathlib.Path(output).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
