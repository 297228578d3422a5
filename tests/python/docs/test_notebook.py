# SPDX-License-Identifier: Apache-2.0
"""examples/python/tour.ipynb runs, and shows what its text says."""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
NOTEBOOK = ROOT / "examples/python/tour.ipynb"
# A drawn operation of a picture has its name first in a title.
BOX = re.compile(r"<g><title>([^:<]*)")


@pytest.fixture(scope="module")
def outputs():
    """The code cells' {"text", "picture"}, run in a process of their own."""
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("DEVRT_MTIA", "DEVRT_SIM_SEED")}
    done = subprocess.run(
        [sys.executable, pathlib.Path(__file__).with_name("run_notebook.py"),
         NOTEBOOK],
        env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_notebook_prints_its_texts(outputs):
    assert [cell["text"] for cell in outputs] == [
        "mtia:0 - devrt mtia simulator 256 MiB\n"
        "mtia:1 - devrt mtia simulator 256 MiB\n",
        "array([[ 0.,  1., -1.,  3.],\n"
        "       [ 4.,  5., -1.,  7.],\n"
        "       [ 8.,  9., -1., 11.]], dtype=float32, device='mtia:0')\n"
        "columns: [12.0, 15.0, -3.0, 21.0]\n",
        "", "",
        "[1.0, 2.0, 3.0, 4.0]\n",
        "",
        "memory of mtia:1, 256.00 MiB:\n"
        "  all: 22.00 MiB reserved: 13.18 MiB in 4 blocks held, "
        "0 bytes in 0 blocks freed but still used by a stream, "
        "8.82 MiB in 4 blocks free, the largest 5.84 MiB\n",
        "['no', 'yes']\n",
    ]


def test_notebook_draws_its_pictures(outputs):
    boxes = [collections.Counter(BOX.findall(cell["picture"]))
             for cell in outputs if cell["picture"]]
    step = {"copy H2D": 6, "spin": 6, "elementwise fill": 6,
            "elementwise apply": 6}
    assert boxes == [
        {**step, "record": 12},
        {**step, "record": 5},
        {"record": 12, "spin": 8, "wait": 8, "elementwise fill": 7,
         "copy P2P": 4, "elementwise apply": 4, "reduce": 4, "copy D2H": 4,
         "fill": 1},
        {"active_allocated": 4, "inactive": 4},
    ]


def test_no_outputs_are_committed():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)
