# SPDX-License-Identifier: Apache-2.0
"""Writes text files as constants of devrt::tools.

usage: embed_text.py OUTPUT HEADER NAME=FILE...
"""

import pathlib
import sys

DELIMITER = "text"


def main():
    lines = [f'#include "{sys.argv[2]}"', "", "namespace devrt::tools {", ""]
    for argument in sys.argv[3:]:
        name, _, path = argument.partition("=")
        text = pathlib.Path(path).read_text(encoding="utf-8")
        if f"){DELIMITER}\"" in text:
            sys.exit(f"{path}: holds the end of a raw string")
        lines.append(f'const char {name}[] = R"{DELIMITER}({text}){DELIMITER}";')
    lines += ["", "}  // namespace devrt::tools", ""]
    pathlib.Path(sys.argv[1]).write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
