#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the headers of a minor version that does not exist.

usage: make_minor.py cut|appended FOLDER STAMP HEADER...

cut       as an older version: without the last slot and the last property
appended  as the next version: more slots, fields and a capability, each at the
          end of its struct

They are written to FOLDER/devrt/backends/abi/; STAMP is a header without content,
for the build to depend on.
"""

import pathlib
import re
import sys

LAST_SLOT = "event_native"
APPENDED = {
    "devrt_ops_v0": "  devrt_status (*stream_pause)(void* self, "
                    "devrt_stream stream);\n"
                    "  devrt_status (*device_light)(void* self, "
                    "uint32_t device, uint32_t on);\n",
    "devrt_host_v0": "  uint64_t (*clock_ns)(void* host);\n",
    "devrt_device_props_v0": "  uint64_t cache_bytes;\n",
    "devrt_manifest_v0": "  char homepage[64];\n",
    "devrt_backend_v0": "  uint64_t more_capabilities;\n",
}
CAPABILITY = "#define DEVRT_CAP_PAUSE (UINT64_C(1) << 40)\n"
SLOTS = ("DEVRT_SLOT(stream_pause, 0, DEVRT_CAP_PAUSE)\n"
         "DEVRT_SLOT(device_light, 0, 0)\n")


def once(pattern, replacement, text):
    text, count = re.subn(pattern, lambda match: replacement, text, flags=re.M)
    if count != 1:
        sys.exit(f"{count} places match {pattern!r}")
    return text


def cut(name, text):
    if name == "devrt_plugin.h":
        # With the comment before it.
        slot = rf"  /\*(?:(?!\*/)[\s\S])*\*/\n  devrt_status \(\*{LAST_SLOT}\)"
        text = once(slot + r"[^;]*;\n(?=\} devrt_ops_v0;)", "", text)
        text = once(r"^  uint32_t reserved0;.*\n(?=\} devrt_device_props_v0;)",
                    "", text)
        text = once(r"^  uint32_t device_reset;.*\n(?=\} devrt_device_props_v0;)",
                    "", text)
    if name == "devrt_slots.inc":
        text = once(rf"^DEVRT_SLOT\({LAST_SLOT}, .*\n", "", text)
    return text


def appended(name, text):
    if name == "devrt_plugin.h":
        minor = int(re.search(r"DEVRT_ABI_MINOR (\d+)u", text).group(1))
        text = once(r"DEVRT_ABI_MINOR \d+u", f"DEVRT_ABI_MINOR {minor + 1}u",
                    text)
        text = once(r"^(?=#define DEVRT_CAP_EVENT_TIMING )", CAPABILITY, text)
        for struct, fields in APPENDED.items():
            text = once(rf"^(?=\}} {struct};)", fields, text)
    if name == "devrt_slots.inc":
        text = once(r"^(?=#undef DEVRT_SLOT)", SLOTS, text)
    return text


def main():
    change = {"cut": cut, "appended": appended}[sys.argv[1]]
    folder = pathlib.Path(sys.argv[2]) / "devrt/backends/abi"
    folder.mkdir(parents=True, exist_ok=True)
    for header in map(pathlib.Path, sys.argv[4:]):
        text = change(header.name, header.read_text(encoding="utf-8"))
        (folder / header.name).write_text(text, encoding="utf-8")
    pathlib.Path(sys.argv[3]).write_text("", encoding="utf-8")


if __name__ == "__main__":
    main()
