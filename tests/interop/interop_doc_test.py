#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/interop_doc.py: its tables say what the result files and the cases say."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import interop_doc  # noqa: E402
from interop_doc import Cell  # noqa: E402

CASES = [
    Cell("producer/cpu/numpy", "Z", ("numpy_peer",)),
    Cell("producer/cpu/numpy/variants", "Z", ("numpy_peer",)),
    Cell("producer/cuda/numpy", "E:X", ("numpy_peer",), "cuda"),
    Cell("producer/mtia/numpy_cpu/device", "C", ("numpy_peer",), "mtia"),
    Cell("consumer/jax/cpu/dlpack", "Z", ("jax_peer",)),
    Cell("ordering/cuda:0/devrt", "Z", ("devrt_peer",), "cuda"),
    Cell("ordering/cuda:1/devrt", "Z", ("devrt_peer",), "cuda", 2),
    Cell("scenario/C7/mtia/2", "C", (), "mtia"),
    Cell("scenario/C7/cpu/2", "Z"),
]


def run_of(part, gpus=0, name="mtia_interop"):
    return {"format": 1, "date": "2026-01-01", "commit": "0123abc",
            "machine": {"gpus": ["GPU A"] * gpus, "libraries": {"numpy": "2.5"}},
            "parts": {name: part}}


class Tables(unittest.TestCase):

    def tables(self, *runs):
        with tempfile.TemporaryDirectory() as folder:
            for number, run in enumerate(runs):
                (pathlib.Path(folder) / f"{number}.json").write_text(
                    json.dumps(run), encoding="utf-8")
            return interop_doc.tables(CASES, interop_doc.newest(folder))

    def test_what_a_run_without_gpus_shows(self):
        text = self.tables(run_of({"outcome": "passed", "passed": 4, "skipped": 5,
                                   "skips": ["no jax_peer: jax not installed: 1 cases"]}))
        for line in ["| cpu | Z ok |  |", "| cuda | E:X *not run* |  |",
                     "| mtia |  | W, here C **deviates** |",
                     "| jax | cpu | dlpack | Z | *not run* |",
                     "| `scenario/C7` | 1 **deviates**, 1 ok |",
                     "| `ordering/cuda:0` | 1 *not run* |",
                     "- mtia: numpy 2.5.", "The matrix has 9 cases now.",
                     "skipped: no jax_peer: jax not installed: 1 cases"]:
            self.assertIn(line, text)
        self.assertRegex(text, r"\| mtia \| 2026-01-01, .* \| 4 \| 0 \| 0 \| 5 \| 9 \|")

    def test_a_run_on_one_gpu_adds_its_cells(self):
        text = self.tables(run_of({"outcome": "passed", "passed": 8}, 1, "interop"))
        for line in ["| cuda | E:X ok |", "| jax | cpu | dlpack | Z | ok |",
                     "| `ordering/cuda:0` | 1 ok |",
                     "| `ordering/cuda:1` | 1 *not run* |"]:
            self.assertIn(line, text)

    def test_a_cell_is_as_bad_as_its_worst_case_in_any_run(self):
        failed = {"outcome": "failed", "failed": 2, "failures": [
            "producer/cpu/numpy/variants: why", "ordering/cuda:0/devrt: late"]}
        text = self.tables(run_of(failed, 2, "interop"),
                           run_of({"outcome": "passed", "passed": 5}))
        for line in ["| cpu | Z **failed** |", "| `ordering/cuda:0` | 1 **failed** |",
                     "| `ordering/cuda:1` | 1 ok |", "**failed**: producer/cpu/numpy/"]:
            self.assertIn(line, text)

    def test_deviations_name_reasons(self):
        for name, entry in interop_doc.deviations.load().items():
            self.assertGreater(len(entry["why"]), 20, name)

    def test_the_cases_of_the_matrix(self):
        try:
            cases = interop_doc.cases_of(os.environ["DEVRT_TEST_PYTHON_PACKAGE"])
        except (KeyError, ImportError) as error:
            self.skipTest(f"no Python package or no NumPy: {error!r}")
        text = interop_doc.tables(cases, interop_doc.newest(interop_doc.evidence.RESULTS))
        self.assertIn("| cuda, read-only | ", text)
        ids = [case.id for case in cases]
        for result in interop_doc.newest(interop_doc.evidence.RESULTS):
            for failure in result.part.get("failures", []):
                self.assertTrue(any(failure.startswith(f"{id}:") for id in ids), failure)


if __name__ == "__main__":
    unittest.main()
