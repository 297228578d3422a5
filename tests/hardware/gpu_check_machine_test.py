# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu-check says of the machine."""

import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from gpu_check import machine  # noqa: E402


class Machine(unittest.TestCase):

    def test_names_of_visible_gpus(self):
        smi = ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-f0ec-1b59)\n"
               "GPU 1: NVIDIA H200 (UUID: GPU-0b35)\n")
        both = ["NVIDIA H100 80GB HBM3", "NVIDIA H200"]
        for entries, names in [("0,1", both), ("1, 0", both[::-1]), ("GPU-0b", both[1:]),
                               ("0,7,1", both[:1]), ("", []), ("GPU-", []),
                               ("MIG-7", ["MIG-7"])]:
            with mock.patch.object(machine, "output", lambda *words: smi), \
                    mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=entries):
                self.assertEqual(machine.gpus(), names, entries)

        with mock.patch.object(machine, "output", lambda *words: smi), \
                mock.patch.dict(os.environ):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            self.assertEqual(machine.gpus(), both)

    def test_name_of_the_driver(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        version = pathlib.Path(folder.name) / "version"
        version.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                           "580.159.04  Release Build\nGCC version:  gcc 15.3.0\n")
        with mock.patch.object(machine, "output", lambda *words: ""), \
                mock.patch.object(machine, "VERSION", version):
            self.assertEqual(machine.driver(), "580.159.04")


if __name__ == "__main__":
    unittest.main()
