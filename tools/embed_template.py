#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes files as the array that tools/new_backend.h declares.

usage: embed_template.py OUTPUT ROOT FILE...

A file below ROOT/c is of the language c, the others are of c++; of the latter
those that no file in c replaces, memory.c for memory.cc, are of both.
"""

import pathlib
import sys

DELIMITER = "template"


def languages(path, in_c):
    if path.parts[0] == "c":
        return ["c"]
    replaced = {path.name, path.name.replace(".cc", ".c")}
    return ["c++"] if replaced & in_c else ["c++", "c"]


def main():
    output, root = map(pathlib.Path, sys.argv[1:3])
    paths = [pathlib.Path(name).relative_to(root) for name in sys.argv[3:]]
    in_c = {path.name for path in paths if path.parts[0] == "c"}
    lines = ['#include "tools/new_backend.h"', "",
             "namespace devrt::tools {", "",
             "const TemplateFile kTemplate[] = {"]
    for path in sorted(paths):
        text = (root / path).read_text(encoding="utf-8")
        if f"){DELIMITER}\"" in text:
            sys.exit(f"{path}: holds the end of a raw string")
        for language in languages(path, in_c):
            lines.append(f'    {{"{language}", "{path.name}", '
                         f'R"{DELIMITER}({text}){DELIMITER}"}},')
    lines += ["};", "const size_t kTemplateSize =",
              "    sizeof kTemplate / sizeof kTemplate[0];", "",
              "}  // namespace devrt::tools", ""]
    output.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
