# SPDX-License-Identifier: Apache-2.0
"""Writes traces as the constants of tools/bench/traces.h.

usage: embed_traces.py OUTPUT FILE...
"""

import pathlib
import sys

HEAD = """\
#include "tools/bench/traces.h"

namespace devrt::tools {
namespace {

"""


def calls_of(path):
    """(is_allocation, block, stream, bytes) of each line."""
    calls = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "a" and len(words) == 4:
            calls.append((True, int(words[1]), int(words[3]), int(words[2])))
        elif words[0] == "f" and len(words) == 2:
            calls.append((False, int(words[1]), 0, 0))
        else:
            sys.exit(f"{path}: not a call: {line}")
    return calls


def main():
    arrays, table = [], []
    for name in sys.argv[2:]:
        path = pathlib.Path(name)
        calls = calls_of(path)
        blocks = 1 + max(call[1] for call in calls)
        streams = 1 + max(call[2] for call in calls)
        values = ",\n".join(f"{{{int(a)}, {b}, {s}, {n}}}"
                            for a, b, s, n in calls)
        arrays.append(f"const bench::TraceCall k_{path.stem}[] = {{\n{values}}};\n")
        table.append(f'{{"{path.stem}", k_{path.stem}, {len(calls)}, {blocks}, '
                     f"{streams}}},\n")
    text = (HEAD + "\n".join(arrays) + "\nconst MemoryTrace kAll[] = {\n"
            + "".join(table) + "};\n\n}  // namespace\n\n"
            "absl::Span<const MemoryTrace> MemoryTraces() { return kAll; }\n\n"
            "}  // namespace devrt::tools\n")
    pathlib.Path(sys.argv[1]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
