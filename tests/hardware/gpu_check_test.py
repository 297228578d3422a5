# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check over the fake driver: what it runs, reports and answers."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts"
BUILD = os.environ["DEVRT_BUILD"]
DRIVER = os.environ["DEVRT_FAKE_DRIVER"]  # a folder

sys.path.insert(0, str(SCRIPTS))
from gpu_check import (arrays, hip, machine, memory, parts,  # noqa: E402
                       report, runner)

# Meson puts the fake driver into that path.
INHERITED = {name: value for name, value in os.environ.items()
             if name != "LD_LIBRARY_PATH"}
PASSED, FAILED, USAGE, NOTHING_THERE = 0, 1, 2, 77
HAS_HIP = all((pathlib.Path(BUILD) / name).exists()
              for name in [hip.PLUGIN, hip.FORWARDER, hip.EXAMPLE])
HAS_BENCHMARKS = (pathlib.Path(BUILD) / memory.FILES[0]).exists()


class GpuCheck(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, *arguments, expect, **variables):
        result = subprocess.run(
            [sys.executable, "-B", SCRIPTS / "gpu-check", *arguments],
            env={**INHERITED, **variables}, cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, expect, result.stdout)
        return result.stdout

    def simulate(self, only, *arguments, driver=DRIVER, root=BUILD, **options):
        others = [name for name in parts.PARTS if name not in only]
        return self.check("--prebuilt", root, "--library-path", driver,
                          "--quick", "--soak-seconds=2",
                          "--memory-soak-seconds=2", *arguments, "--skip",
                          *others, **options)

    @unittest.skipIf(machine.gpus(), "there is a GPU")
    def test_no_gpu(self):
        text = self.check("--prebuilt", BUILD, expect=NOTHING_THERE)
        self.assertIn("there is no NVIDIA GPU", text)

    def test_usage(self):
        self.assertIn("everything",
                      self.check("--skip", "everything", expect=USAGE))
        self.check("--build=a", "--prebuilt=b", expect=USAGE)
        text = self.simulate(["soak"], root=self.folder, expect=USAGE)
        self.assertIn("has no cts/libdevrt_cts.so.0", text)
        self.assertIn("--soak-seconds", self.check("--help", expect=PASSED))

    def test_all_is_well(self):
        quick = [name for name in parts.PARTS
                 if not name.endswith("conformance")]
        written = self.folder / "report.md"
        text = self.simulate(quick, "--report", written, expect=PASSED)
        markdown = written.read_text(encoding="utf-8")
        self.assertRegex(text, r"(?m)^kernels +passed +[\d.]+ s +[1-9]\d+ launches")
        for part in ["contexts", "bad_input", "environment", "faults",
                     "coexistence", "soak", "memory", "memory_soak"]:
            self.assertRegex(text, rf"(?m)^{part} +passed ")
            self.assertRegex(markdown, rf"(?m)^\| {part} \| passed \|")
        self.assertRegex(text, r"(?m)^conformance +skipped .* --skip$")
        self.assertRegex(text, r"(?m)^sanitizer +skipped ")
        self.assertRegex(text, r"(?m)^benchmarks +skipped .*simulated")
        if HAS_BENCHMARKS:
            self.assertRegex(text, r"passed +traces_bench: 3 rows")
            self.assertRegex(text, r"(?m)^arrays_benchmarks +passed ")
            self.assertRegex(markdown, r"(?m)^\| peer copy of arrays, 1 GiB \| \d+ ")
            self.assertRegex(markdown, r"(?m)^\| view, a slice \| \d+ ns ")
            self.assertRegex(text, r"skipped +c10, and verdicts")
            self.assertNotIn("without rows", text)
            self.assertRegex(markdown, r"(?m)^\| mixed sizes, 64 live \| \S+ ns ")
            self.assertRegex(markdown, r"(?m)^\| training \| \d+ \| \d+ \|  \|")
        self.assertRegex(text, r"(?m)^hip_costs +skipped ")
        if HAS_HIP:
            self.assertRegex(text, r"(?m)^three_backends +passed .* 6 orders$")
        self.assertIn("| Driver | simulated", markdown)
        self.assertIn("cuda:1 fake CUDA device", markdown)
        self.assertIn("| rss_bytes |", markdown)
        self.assertIn("tests/hardware/faults", markdown)

    def test_conformance(self):
        written = self.folder / "report.md"
        text = self.simulate(["conformance"], "--report", written,
                             expect=PASSED)
        self.assertRegex(text, r"(?m)^conformance +passed .* 0 failed")
        self.assertRegex(written.read_text(encoding="utf-8"),
                         r"(?m)^\| event \| \d+ \| 0 \|")

    @unittest.skipUnless(HAS_HIP, "HIP's plugin was not built")
    def test_hip_over_cuda(self):
        written = self.folder / "report.md"
        text = self.simulate(["hip_conformance"], "--report", written,
                             expect=PASSED)
        self.assertRegex(text, r"(?m)^hip_conformance +passed .* 0 failed")
        self.assertRegex(written.read_text(encoding="utf-8"),
                         "hip:0: .*, as HIP, hip:1: .*, as HIP")

    def test_a_failure(self):
        written = self.folder / "report.md"
        text = self.simulate(["contexts", "soak"], "--report", written,
                             expect=FAILED,
                             DEVRT_FAKE_CUDA="fail=cuEventRecord@2:1")
        self.assertRegex(text, r"(?m)^contexts +FAILED ")
        self.assertRegex(text, r"FAILED +context_audit: WorkOnTheLast")
        self.assertRegex(text, r"(?m)^soak +FAILED .*CUDA_ERROR_INVALID_VALUE")
        markdown = written.read_text(encoding="utf-8")
        self.assertRegex(markdown, r"(?m)^\| soak \| FAILED \|")
        self.assertIn("exit code 1:", markdown)

    # Beside a GPU a program that finds none has shown nothing.
    def test_nothing_but_skips_is_a_failure(self):
        text = self.simulate(["contexts"], driver=str(self.folder),
                             expect=FAILED)
        self.assertIn("context_audit: exit code 77", text)

    def test_nothing_chosen(self):
        self.simulate([], expect=NOTHING_THERE)

    def test_carried_elsewhere(self):
        packed = self.folder / "packed"
        text = self.check("--prebuilt", BUILD, "--pack", packed, expect=PASSED)
        self.assertIn("--prebuilt", text)
        self.assertTrue(list(packed.glob("lib/libabsl_status*")))
        only = ["contexts", "faults"] + ["three_backends"] * HAS_HIP
        self.simulate(only, root=packed, expect=PASSED)


class Pieces(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.check = runner.Runner(pathlib.Path(BUILD),
                                   pathlib.Path(folder.name), None)
        self.check.part = "soak"

    def test_time_is_up(self):
        # The grandchild holds the pipe, too.
        command = self.check.run(["sh", "-c", "echo begun; sleep 100 & wait"],
                                 0.5)
        self.assertIsNone(command.code)
        self.assertLess(command.seconds, 50)
        self.assertIn("begun", command.output)
        self.assertIn("did not end", command.ending)

    def test_signals_are_named(self):
        command = self.check.run(["sh", "-c", "kill -SEGV $$"], 10)
        self.assertEqual(command.ending, "ended by signal 11")

    def test_its_own_defects_are_failures(self):
        def broken(check, options):
            raise KeyError("counts")
        self.check.run_part("soak", broken, None)
        self.assertEqual(self.check.rows[-1].outcome, runner.FAILED)
        self.assertIn("KeyError('counts')", self.check.rows[-1].detail)

    def test_costs_beside_each_other(self):
        def row(name, time):
            return {"run_name": name, "real_time": time, "time_unit": "ns"}
        rows = [row("Guard/cuda", 20), row("Guard/hip", 25), row("Only/hip", 1)]
        self.assertEqual(hip.beside(rows),
                         [("Guard", "20 ns", "25 ns", "1.25")])

    def test_figures_of_memory(self):
        def row(name, ns, **more):
            return {"run_name": name, "real_time": ns, "cpu_time": ns,
                    "time_unit": "ns", **more}
        few, many = (f"BesideLive/live:{n}/random:0" for n in [1000, 1000000])
        figures = memory.Figures([
            row("Pair/512", 50), row("C10Pair/512", 400),
            row("Mixed64", 140), row("C10Mixed64", 500),
            row(few, 50), row(many, 110),
            row("PairThreads/real_time/threads:1", 50, items_per_second=2e7),
            row("PairThreads/real_time/threads:16", 5, items_per_second=2e8),
            row("TraceOf/mixed", 1, reserved_MiB=400, allocated_MiB=300),
            row("C10TraceOf/mixed", 1, reserved_MiB=380, allocated_MiB=300),
            row("BetweenStreams", 900, other_blocks=0),
            row("CachedPair/512/real_time", 50),
            row("RawAsyncPair/512/real_time", 500)])
        self.assertEqual(dict(figures.verdicts()), {
            "512 B, allocate and free 50 ns": True,
            "512 B, allocate and free 0.12 of c10": True,
            "mixed sizes, 64 live 140 ns": True,
            "mixed sizes, 64 live 0.28 of c10": False,
            "a million live 2.20 x": False,
            "16 threads 10.0 x": True,
            "mixed reserves 400 of 380 MiB": False,
            "the same block between streams": True})
        self.assertIn("PinnedPair/512", figures.missing)
        tables = {title: rows for title, _, rows in figures.tables()}
        self.assertEqual(tables["Times"][0],
                         ("512 B, allocate and free", "50 ns", "400 ns",
                          "0.12", "60 ns, 0.2 of c10"))
        self.assertEqual(tables["16 threads beside one"][0][1], "10.0 x")
        self.assertEqual(tables["Peaks of reserved memory, MiB"][2],
                         ("mixed", "300", "400", "380", "25.0 %", "21.1 %"))
        self.assertEqual(tables["Stream-ordered memory"][0],
                         ("512 B", "50 ns", "", "500 ns", "0.10"))

    ROWS_OF_ARRAYS = [
        # Name, bytes a second or nanoseconds.
        ("RawDeviceCopy/iterations:10/manual_time", 4e12, None),
        ("AddContiguous/iterations:10/manual_time", 3.6e12, None),
        ("CopyTransposed/iterations:10/manual_time", 2.2e12, None),
        ("RawPeerCopy/iterations:10/manual_time", 400e9, None),
        ("PeerCopy/iterations:10/manual_time", 398e9, None),
        ("LaunchAddInto/iterations:50/manual_time", None, 1500),
        ("ViewSlice", None, 70),
    ]

    def figures_of_arrays(self, theirs, ring):
        # The wall's time of a view is the wrong one, the processor's of a
        # launch, too.
        rows = [{"run_name": name, "time_unit": "ns",
                 "real_time": ns if "manual" in name else 1e6,
                 "cpu_time": 1e6 if "manual" in name else ns,
                 **({"bytes_per_second": rate} if rate else {})}
                for name, rate, ns in self.ROWS_OF_ARRAYS]
        return arrays.Figures(rows, theirs, ring)

    def test_figures_of_arrays(self):
        theirs = {
            "pytorch": {"version": "2.11", "rows": {
                "AddContiguous": 4e12, "LaunchAddInto": 3e-6},
                "nccl": {"version": "2.28.9", "bytes_per_second": 300e9}},
            "cupy": {"version": "14.2", "rows": {
                "AddContiguous": 3e12, "LaunchAddInto": 6e-6}}}
        ring = arrays.ring_of(
            "1024 MiB on 2 devices: every sum is right\n"
            "all-reduce      3000.0 us    360.0 GB/s sent by each device\n"
            "one peer copy   2700.0 us    400.0 GB/s\n"
            "90.0 % of the bound that one peer copy sets\n")
        self.assertEqual(ring, {"all-reduce": 360, "one peer copy": 400,
                                "percent": 90})
        figures = self.figures_of_arrays(theirs, ring)
        self.assertEqual(dict(figures.verdicts()), {
            "add of three contiguous arrays 90.0 %": True,
            "copy of a transpose 55.0 %": False,
            "peer copy of arrays, 1 GiB 99.5 %": True,
            "add, 1024 elements, into an array 1500 ns": True,
            "view, a slice 70 ns": False,
            "ring all-reduce 90.0 %": True})
        tables = {title: {row[0]: row[1:] for row in rows}
                  for title, _, rows in figures.tables()}
        bandwidths = tables["Bandwidth, GB/s"]
        self.assertEqual(bandwidths["add of three contiguous arrays"],
                         ("3600", "90.0 %", ">= 80 %", "3000", "4000", "0.90",
                          ""))
        self.assertEqual(bandwidths["copy of a transpose"],
                         ("2200", "55.0 %", ">= 60 %", "", "", "", "missed"))
        times = tables["The host's time"]
        self.assertEqual(times["add, 1024 elements, into an array"],
                         ("1500 ns", "<= 2000 ns", "6000 ns", "3000 ns", "0.50",
                          ""))
        self.assertEqual(times["view, a slice"][-1], "missed")
        self.assertEqual(tables["All-reduce on two devices"]["NCCL 2.28.9"],
                         ("300.0", "75.0 %", "", ""))

    def test_figures_of_arrays_that_are_missing(self):
        figures = self.figures_of_arrays({}, {})
        titles = [title for title, _, _ in figures.tables()]
        self.assertEqual(titles, ["Bandwidth, GB/s", "The host's time"])
        missing = figures.missing(raw=True, peer=True)
        self.assertIn("Fill", missing)
        self.assertIn("RawEmptyLaunch", missing)
        self.assertNotIn("RawEmptyLaunch",
                         figures.missing(raw=False, peer=True))
        del figures.rows["PeerCopy"]
        self.assertIn("PeerCopy", figures.missing(raw=True, peer=True))
        self.assertNotIn("PeerCopy", figures.missing(raw=True, peer=False))

    def test_peers_of_arrays_say_why_they_are_missing(self):
        self.check.run = lambda words, timeout: runner.Command(
            "arrays_benchmarks", words, 0, "", 1)
        self.check.read_json = lambda path: {
            "pytorch": {"version": "2.11", "rows": {"Fill": 1},
                        "errors": {"PeerCopy": "no access"},
                        "nccl": {"skipped": "no NCCL"}},
            "cupy": {"skipped": "No module named 'cupy'"}}
        arrays.peers(self.check, parts.Options(True, 1))
        self.assertEqual(
            [(row.outcome, row.detail) for row in self.check.rows],
            [("skipped", "CuPy: No module named 'cupy'"),
             ("skipped", "PyTorch PeerCopy: no access"),
             ("skipped", "PyTorch NCCL: no NCCL"),
             ("passed", "PyTorch 2.11: 1 rows")])

    def sanitize(self, output, code=0):
        command = runner.Command("soak", [], code, output, 1)
        parts.add_sanitizer(self.check, command, "tool")
        return self.check.rows[-1].outcome

    def test_what_the_sanitizer_says(self):
        clean = "========= ERROR SUMMARY: 0 errors\n"
        self.assertEqual(self.sanitize(clean), runner.PASSED)
        self.assertEqual(self.sanitize(clean * 2), runner.PASSED)
        self.assertEqual(
            self.sanitize(clean + "========= ERROR SUMMARY: 3 errors\n"),
            runner.FAILED)
        self.assertEqual(self.sanitize("", 0), runner.FAILED)
        self.assertEqual(self.sanitize(clean, 1), runner.FAILED)
        self.assertEqual(
            self.sanitize("========= RACECHECK SUMMARY: 1 hazard displayed "
                          "(1 error, 0 warnings)\n"), runner.FAILED)
        self.assertEqual(
            self.sanitize("========= RACECHECK SUMMARY: 0 hazards displayed "
                          "(0 errors, 0 warnings)\n"), runner.PASSED)

    def test_tables_survive_their_texts(self):
        self.assertEqual(report.table(["a"], [["x|y\nz"]]),
                         "| a |\n|---|\n| x\\|y z |")


if __name__ == "__main__":
    unittest.main()
