# SPDX-License-Identifier: Apache-2.0
"""The defaults on docs/reference/settings.md are those of a fresh process."""

import json
import os
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/reference/settings.md"
ROW = re.compile(r"^\| `DEVRT_\w+` `(\w+)` \| ([^|]*) \|", re.M)
PROGRAM = """
import json
import devrt
from devrt import simulator

print(json.dumps([simulator.config(), devrt.allocator_settings()]))
"""


def defaults():
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("DEVRT_MTIA", "DEVRT_ALLOC_CONF")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment,
                          check=True, capture_output=True, text=True)
    machine, allocators = json.loads(done.stdout)
    return {**machine, **dict(setting.split(":", 1)
                              for setting in allocators.split(","))}


def test_defaults_are_on_the_page():
    listed = dict(ROW.findall(PAGE.read_text(encoding="utf-8")))
    found = defaults()
    assert len(found) > 40
    assert {key: value for key, value in found.items()
            if f"`{value}`" not in listed.get(key, "")} == {}
