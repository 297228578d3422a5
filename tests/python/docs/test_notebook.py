# SPDX-License-Identifier: Apache-2.0
"""examples/python/tour.ipynb has the outputs that its cells give."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
NOTEBOOK = ROOT / "examples/python/tour.ipynb"


def check(notebook):
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("DEVRT_MTIA", "DEVRT_SIM_SEED")}
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts/run_notebook.py"), "--check",
         str(notebook)],
        env=environment, capture_output=True, text=True, timeout=120)


def test_outputs():
    done = check(NOTEBOOK)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_small_and_has_pictures():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    pictures = [output for cell in cells for output in cell.get("outputs", [])
                if "image/svg+xml" in output.get("data", {})]
    assert len(pictures) >= 4
    assert NOTEBOOK.stat().st_size < 100_000


def test_another_output_is_found(tmp_path):
    changed = tmp_path / "tour.ipynb"
    text = NOTEBOOK.read_text(encoding="utf-8")
    changed.write_text(text.replace("256 MiB", "255 MiB", 1), encoding="utf-8")
    done = check(changed)
    assert done.returncode == 1 and "[1]: other outputs" in done.stdout
