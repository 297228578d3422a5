# SPDX-License-Identifier: Apache-2.0
"""Lists the shared libraries of the system's Abseil that a wheel needs.

    abseil_libraries.py MODULE...

Prints the file of each library that programs of these pkg-config modules may
load, one in each line, under its SONAME.
"""

import os
import re
import subprocess
import sys


def output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def soname(library: str) -> str:
    dynamic = output("readelf", "-d", "-W", library)
    return re.search(r"\(SONAME\).*\[(.*)\]", dynamic)[1]


def main(modules: "list[str]") -> None:
    folder = output("pkg-config", "--variable=libdir", modules[0]).strip()
    for flag in output("pkg-config", "--libs-only-l", *modules).split():
        library = os.path.join(folder, f"lib{flag[2:]}.so")
        if os.path.exists(library):
            print(os.path.join(folder, soname(library)))


if __name__ == "__main__":
    main(sys.argv[1:])
