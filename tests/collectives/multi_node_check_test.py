# SPDX-License-Identifier: Apache-2.0
"""scripts/multi-node-check with several processes on this machine.

The engine is the one that passes bytes through files, on simulated devices.
"""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/multi-node-check"
BUILD = os.environ["DEVRT_BUILD"]
USAGE = 2
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def load():
    """Returns the script as a module."""
    loader = importlib.machinery.SourceFileLoader("multi_node_check", str(SCRIPT))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("multi_node_check", loader))
    loader.exec_module(module)
    return module


class MultiNodeCheck(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.result = self.folder / "result.json"
        self.words = [sys.executable, "-B", str(SCRIPT), f"--folder={folder.name}/job",
                      f"--build={BUILD}", "--backend=mtia", "--engine=folder",
                      "--timeout=1", "--max-bytes=8192", f"--result={self.result}"]

    def start(self, words, **variables):
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**os.environ, **variables})

    def test_three_ranks(self):
        ranks = self.start([*self.words, "--ranks=3"])
        text, errors = ranks.communicate(timeout=100)
        self.assertEqual(ranks.returncode, 0, text + errors)
        self.assertIn("all checks passed", text)
        self.assertIn("nothing but the protocol", text)
        self.assertIn("they differ at 6", text)
        found = json.loads(self.result.read_text(encoding="utf-8"))
        self.assertEqual((found["ranks"], found["machines"]), (3, 1))
        self.assertEqual(found["parts"], ["values", "latency", "killed"])
        self.assertEqual(found["problems"], [])
        self.assertEqual([row["bytes"] for row in found["all_reduce"]], [1024, 8192])
        self.assertLessEqual(found["killed"]["slowest_seconds"], 2)

    @unittest.skipUnless(shutil.which("mpiexec"), "there is no mpiexec")
    def test_under_mpiexec(self):
        launcher = self.start(
            ["mpiexec", "--oversubscribe", "--bind-to", "none", "-n", "2", *self.words],
            **AS_ROOT)
        told = launcher.communicate(timeout=100)
        self.assertEqual(launcher.returncode, 0, told)
        found = json.loads(self.result.read_text(encoding="utf-8"))
        self.assertEqual(found["parts"], ["values", "values_pmix", "latency", "killed"])
        self.assertEqual(found["problems"], [])

    def test_results_of_an_earlier_run_do_not_count(self):
        words = [*self.words, "--job=twice"]
        alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
        first = self.start(words, **alone)
        told = first.communicate(timeout=100)
        self.assertEqual(first.returncode, 0, told)
        second = self.start(words, **alone)
        self.assertIn("an earlier run", second.communicate(timeout=100)[1])
        self.assertEqual(second.returncode, USAGE)

    def test_the_name_of_the_run(self):
        job_of = load().job_of
        self.assertEqual(job_of({"TORCHELASTIC_RUN_ID": "mine"}), "mine")
        slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2"}
        self.assertEqual(job_of({"TORCHELASTIC_RUN_ID": "none", **slurm}), "7_2")
        self.assertEqual(job_of({"TORCHELASTIC_RUN_ID": "none"}), "job")

    def test_no_launcher(self):
        alone = self.start(self.words)
        self.assertIn("no launcher has set a rank", alone.communicate()[1])
        self.assertEqual(alone.returncode, USAGE)

    def test_problems(self):
        check = load()
        right = {"checks": [{"check": "broadcast", "wrong": ""}]}
        wrong = {"checks": [{"check": "broadcast", "wrong": "element 0 is 1"}]}
        self.assertEqual(check.problems("values", {0: right, 1: right}, 2), [])
        self.assertEqual(check.problems("values", {1: wrong}, 2), [
            "values: rank 0 did not answer", "values: rank 1: broadcast: element 0 is 1"])
        late = {"state": "failed", "error": "DEADLINE", "seconds": 2.5, "limit": 2}
        fine = {"state": "ready", "error": "OK", "seconds": 0.1, "limit": 2}
        self.assertEqual(check.problems("killed", {0: late, 1: fine}, 3), [
            "killed: rank 0 returned after 2.5 s", "killed: rank 1 saw no failure"])
        self.assertIn("2 machines", check.basis({"engine": "nccl 2.28.9"}, 2, 16))
        self.assertIn("no network", check.basis({"engine": "nccl 2.28.9"}, 1, 8))


if __name__ == "__main__":
    unittest.main()
