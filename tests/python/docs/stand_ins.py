# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for files that pages assume: a vendor's backend, a snapshot, a program.

prepare(PAGE, FOLDER) makes the files in the folder where the page is followed, and
returns variables of the environment for it.
"""

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
SNAPSHOT = """
import json, pathlib, devrt
kept = devrt.ones(1 << 20, device="mtia:0")
pathlib.Path("run.json").write_text(json.dumps(devrt.memory_snapshot("mtia:0")))
"""
PROGRAM = f"""#!{sys.executable}
import devrt
devrt.ones(8, device="mtia:0").sum().item()
"""


@functools.lru_cache(maxsize=None)
def compiled_backend():
    """The file of the backend in C that `devrt new-backend` writes."""
    with tempfile.TemporaryDirectory() as name:
        sources, out = pathlib.Path(name) / "sources", pathlib.Path(name) / "out.so"
        subprocess.run([os.environ["DEVRT_TOOL"], "new-backend", "acme", sources,
                        "--language=c"], check=True, capture_output=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-fvisibility=hidden",
                        f"-Wl,--version-script,{sources}/plugin.map", "-Wl,-z,nodelete",
                        f"-I{ROOT}/include", *sorted(sources.glob("*.c")), "-o", out],
                       check=True)
        return out.read_bytes()


def backend(folder):
    (folder / "build").mkdir()
    (folder / "build/libdevrt_acme.so").write_bytes(compiled_backend())


def program(folder, name):
    (folder / name).write_text(PROGRAM, encoding="utf-8")
    (folder / name).chmod(0o755)


def for_the_command(folder):
    backend(folder)
    subprocess.run([sys.executable, "-c", SNAPSHOT], check=True, cwd=folder)
    program(folder, "train")
    (folder / "acme.waivers").write_text("", encoding="utf-8")
    return {"DEVRT_PLUGIN_PATH": str(folder / "build"),
            "DEVRT_BACKENDS": "mtia,acme"}


def for_settings(folder):
    program(folder, "program")
    return {}


def for_a_package(folder):
    backend(folder)
    (folder / "acme.waivers").write_text("", encoding="utf-8")
    # pip has no network here, and must not change the environment that runs the test.
    installed = folder / "installed"
    return {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_TARGET": str(installed), "DEVRT_BACKENDS": "mtia,acme",
            "PYTHONPATH": f"{installed}:{os.environ['PYTHONPATH']}"}


PREPARED = {
    "docs/how-to/package-a-plugin.md": for_a_package,
    "docs/reference/cli.md": for_the_command,
    "docs/reference/conformance.md": for_the_command,
    "docs/reference/settings.md": for_settings,
}


def prepare(page, folder):
    make = PREPARED.get(str(page.relative_to(ROOT))) if page.is_relative_to(ROOT) else None
    can = "DEVRT_TOOL" in os.environ and shutil.which("cc")
    return make(folder) if make and can else {}
