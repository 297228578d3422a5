# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check over the fake driver: what it runs, reports and answers."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts"
BUILD = os.environ["DEVRT_BUILD"]
DRIVER = os.environ["DEVRT_FAKE_DRIVER"]  # a folder

sys.path.insert(0, str(SCRIPTS))
from gpu_check import (arrays, collectives, driver_costs, hip,  # noqa: E402
                       machine, memory, mtia, parts, python, result, rows, runner)

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
                          "--quick", "--soak-seconds=0.25",
                          "--memory-soak-seconds=0.25", *arguments, "--skip",
                          *others, **options)

    def result_of(self, only, *arguments, **options):
        """Returns what is printed, and the result file."""
        written = self.folder / "result.json"
        text = self.simulate(only, "--result", written, *arguments, **options)
        return text, result.load(written)

    @unittest.skipIf(machine.gpus(), "there is a GPU")
    def test_no_gpu(self):
        text = self.check("--prebuilt", BUILD, expect=NOTHING_THERE)
        self.assertIn("there is no NVIDIA GPU", text)

    def test_wrong_usage(self):
        self.assertIn("everything", self.check("--skip", "everything", expect=USAGE))
        self.check("--build=a", "--prebuilt=b", expect=USAGE)
        self.check("--only=arrays", "--skip=python", expect=USAGE)
        text = self.simulate(["soak"], root=self.folder, expect=USAGE)
        self.assertIn("has no collectives/libdevrt_collectives.so.0", text)
        self.assertIn("--soak-seconds", self.check("--help", expect=PASSED))

    def test_all_is_well(self):
        quick = [name for name in parts.PARTS if not name.endswith("conformance")]
        text, found = self.result_of(quick, expect=PASSED)
        self.assertNotIn("conformance", found["parts"])
        self.assertRegex(text, r"(?m)^kernels +passed +[\d.]+ s +[1-9]\d+ launches")
        for part in ["contexts", "bad_input", "environment", "faults",
                     "coexistence", "soak", "memory", "memory_soak"]:
            self.assertRegex(text, rf"(?m)^{part} +passed ")
            self.assertEqual(found["parts"][part]["outcome"], "passed")
            self.assertGreater(found["parts"][part]["passed"], 0)
        self.assertRegex(text, r"(?m)^conformance +skipped .* --skip$")
        self.assertRegex(text, r"(?m)^sanitizer +skipped ")
        self.assertRegex(text, r"(?m)^benchmarks +skipped .*simulated")
        if HAS_BENCHMARKS:
            self.assertRegex(text, r"passed +traces_bench: 3 rows")
            self.assertRegex(text, r"passed +cuda_bench: 1 rows")
            step, = found["parts"]["validate_benchmarks"]["rows"]
            self.assertEqual(step["row"], "a launch of a training step")
            self.assertGreater(step["peers"]["without"], 0)
            self.assertRegex(text, r"(?m)^arrays_benchmarks +passed ")
            measured = {row["row"]: row for name in
                        ["memory_benchmarks", "arrays_benchmarks"]
                        for row in found["parts"][name]["rows"]}
            self.assertEqual(measured["peer copy of arrays, 1 GiB"]["unit"], "GB/s")
            self.assertEqual(measured["view, a slice"]["unit"], "ns")
            self.assertNotIn("bars", measured["view, a slice"])
            self.assertIn("mixed sizes, 64 live", measured)
            self.assertTrue([row for row in measured if row.startswith("training, ")])
            self.assertRegex(text, r"skipped +c10, and verdicts")
            self.assertNotIn("without rows", text)
        if (pathlib.Path(BUILD) / collectives.PROGRAM).exists():
            self.assertRegex(text, r"passed +2 ranks: 5 rows")
            self.assertNotIn("bars", found["parts"]["nccl_benchmarks"]["rows"][0])
        self.assertRegex(text, r"(?m)^hip_costs +skipped ")
        if HAS_HIP:
            self.assertRegex(text, r"(?m)^three_backends +passed .* 6 orders$")
        self.assertEqual(found["machine"]["driver"], "simulated")
        self.assertIn("cuda:1 fake CUDA device", found["machine"]["devices"])
        self.assertIn("python", found["machine"]["libraries"])
        self.assertGreater(found["parts"]["soak"]["figures"]["rounds"], 0)
        self.assertEqual(found["parts"]["soak"]["partial"], "0.25 s of 600")

    def test_conformance_result_has_commit_and_counts(self):
        text, found = self.result_of(["conformance"], "--commit=0123abc-dirty", expect=PASSED)
        self.assertRegex(text, r"(?m)^conformance +passed .* 0 failed")
        self.assertEqual((found["commit"], found["dirty"]), ("0123abc", True))
        self.assertEqual(list(found["parts"]), ["conformance"])
        self.assertGreater(found["parts"]["conformance"]["passed"], 100)
        self.assertEqual(found["parts"]["conformance"]["failed"], 0)

    def test_the_driver_compiles_kernels_before_the_only_part(self):
        text = self.check("--prebuilt", BUILD, "--library-path", DRIVER, "--quick",
                          "--only=contexts", expect=PASSED)
        self.assertRegex(text, r"(?ms)^kernels +passed .*^contexts +passed ")

    def test_mtia_needs_no_gpu_and_writes_a_result(self):
        written = self.folder / "result.json"
        only = ["mtia_examples", "mtia_interop", "pinned_bench"]
        text = self.check("--mtia", "--prebuilt", BUILD, "--quick", "--result", written,
                          "--only", *only, expect=PASSED)
        self.assertRegex(text, r"(?m)^mtia_interop +skipped .* needs --python")
        found = result.load(written)
        self.assertEqual(sorted(found["parts"]), sorted(only))
        self.assertEqual(found["machine"]["gpus"], [])
        self.assertEqual(found["machine"]["driver"], "")
        if HAS_BENCHMARKS:
            self.assertEqual(found["parts"]["pinned_bench"]["outcome"], "passed")
            self.assertEqual(len(found["parts"]["pinned_bench"]["rows"]), 3)

    @unittest.skipUnless(HAS_HIP, "HIP's plugin was not built")
    def test_hip_over_cuda(self):
        text = self.simulate(["hip_conformance"], expect=PASSED)
        self.assertRegex(text, r"(?m)^hip_conformance +passed .* 0 failed")
        self.assertRegex(text, "hip:0: .*, as HIP, hip:1: .*, as HIP")

    def test_a_failure(self):
        text, found = self.result_of(["contexts", "soak"], expect=FAILED,
                                     DEVRT_FAKE_CUDA="fail=cuEventRecord@2:1")
        self.assertRegex(text, r"(?m)^contexts +FAILED ")
        self.assertRegex(text, r"FAILED +context_audit: WorkOnTheLast")
        self.assertRegex(text, r"(?m)^soak +FAILED .*CUDA_ERROR_INVALID_VALUE")
        contexts, soak = found["parts"]["contexts"], found["parts"]["soak"]
        self.assertEqual(soak["outcome"], "failed")
        self.assertIn("exit code 1", soak["failures"][0])
        self.assertEqual(contexts["failed"], len(contexts["failures"]))
        self.assertRegex(contexts["failures"][0], r"^WorkOnTheLast\w+: .*context_audit")

    # Beside a GPU a program that finds none has shown nothing.
    def test_nothing_but_skips_is_a_failure(self):
        text = self.simulate(["contexts"], driver=str(self.folder),
                             expect=FAILED)
        self.assertIn("context_audit: exit code 77", text)

    def test_nothing_chosen(self):
        self.simulate([], expect=NOTHING_THERE)

    def test_carried_elsewhere(self):
        packed = self.folder / "packed"
        text = self.check("--prebuilt", BUILD, "--pack", packed,
                          "--commit=0123abc", expect=PASSED)
        self.assertIn("--prebuilt", text)
        self.assertTrue(list(packed.glob("lib/libabsl_status*")))
        only = ["contexts", "faults"] + ["three_backends"] * HAS_HIP
        _, found = self.result_of(only, root=packed, expect=PASSED)
        self.assertEqual((found["commit"], found["dirty"]), ("0123abc", False))


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
        self.assertEqual(hip.beside(rows), [{
            "topic": "hip beside cuda, on CUDA's driver", "row": "Guard",
            "unit": "ns", "devrt": 25, "peers": {"cuda": 20}, "ratio": 1.25,
            "bars": {"1.1 of cuda": False}}])

    def test_costs_beside_the_driver(self):
        def row(name, time, **more):
            return {"run_name": name, "real_time": time, "time_unit": "us", **more}
        made = driver_costs.bench_rows([
            row("DevrtStreamQuery", 1.3), row("RawStreamQuery", 1.25),
            row("DevrtLaunch/real_time", 3), row("RawLaunch/real_time", 2),
            row("DevrtCurrentDevice", 0.011), row("RawCurrentContext", 0.008),
            row("DevrtCopyToHost/1073741824/real_time", 1, bytes_per_second=2**31),
            row("RawCopyToHost/1073741824/real_time", 1, bytes_per_second=2**31)])
        self.assertEqual(
            [(of["row"], of["unit"], of["devrt"], of["ratio"], of["bars"])
             for of in made],
            [("current device", "ns", 11, 1.38, {"the driver + 4 ns": True}),
             ("stream query, idle", "ns", 1300, 1.04, {"1360 ns": True}),
             ("launch of an own kernel", "ns", 3000, 1.5, {"1.1 of the driver": False}),
             ("to the host, 1 GiB", "GiB/s", 2, 1, {"0.99 of the driver": True})])

    def test_missed_bars_are_no_failure_and_missing_rows_are(self):
        row = result.bench_row("t", "r", "ns", 9.04, {}, {"5 ns": False, "9 x": True})
        rows.add_bench_rows(self.check, [row], ["other"])
        self.assertEqual([(of.outcome, of.detail) for of in self.check.rows],
                         [(runner.FAILED, "without rows: other"),
                          (runner.PASSED, "2 bars; missed: r 9.04 ns, 5 ns")])
        self.assertEqual(result.part_of(self.check, "soak"), {
            "outcome": "failed", "failed": 1, "seconds": 0,
            "failures": ["without rows: other"], "rows": [row]})

    def test_what_pytest_says(self):
        self.assertEqual(
            python.counts_of("== 1 failed, 12 passed, 3 skipped, 2 errors in 0.12s =="),
            {"failed": 3, "passed": 12, "skipped": 3})
        self.assertEqual(python.failed_of(
            "FAILED a/test_b.py::test_c - assert 0\nERROR test_d.py\n"),
            ["test_b.py::test_c", "test_d.py"])

    def test_what_the_matrix_says(self):
        cases = [("producer/cpu/numpy", "passed", ""),
                 ("producer/cpu/numpy/variants", "failed", "another value"),
                 ("producer/mtia/numpy", "deviates", ""),
                 ("consumer/jax/cpu", "skipped", "no jax_peer: not installed"),
                 ("consumer/jax/cuda", "skipped", "no jax_peer: not installed")]
        command = runner.Command("interop", ["matrix.py"], 1, "", 1.0)
        python.add_cases(self.check, command, {"cases": [
            dict(zip(("id", "outcome", "note"), case)) for case in cases]})
        part = result.part_of(self.check, "interop")
        self.assertEqual({key: part[key] for key in result.COUNTS if key in part},
                         {"passed": 1, "failed": 1, "skipped": 2, "deviates": 1})
        self.assertEqual(part["failures"], ["producer/cpu/numpy/variants: another value"])
        self.assertEqual(part["skips"], ["no jax_peer: not installed: 2 cases"])

    def meson_run(self, total, results):
        """Makes a build folder of `total` tests whose log has these results.

        It also has mutants, which a run without names leaves out.
        """
        root = pathlib.Path(self.check.folder)
        for name, lines in [
                (mtia.KNOWN, [[{"suite": ["devrt:unit"]}] * total
                              + [{"suite": ["devrt:mutants"]}] * 9]),
                (mtia.LOG, [{"name": f"t{number}", "result": result}
                            for number, result in enumerate(results)])]:
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text("".join(json.dumps(line) + "\n"
                                             for line in lines), encoding="utf-8")
        self.check.root = root
        self.check.run_part("mtia_tests", mtia.tests, None)
        return result.part_of(self.check, "mtia_tests")

    def test_what_meson_ran(self):
        part = self.meson_run(4, ["OK", "SKIP", "TIMEOUT", "EXPECTEDFAIL"])
        self.assertEqual({key: part[key] for key in result.COUNTS if key in part},
                         {"passed": 2, "failed": 1, "skipped": 1})
        self.assertEqual(part["failures"], ["t2"])

    def test_a_log_of_a_few_tests_is_no_result(self):
        part = self.meson_run(4, ["OK"])
        self.assertEqual(part["outcome"], "skipped")
        self.assertEqual(part["skips"], ["the last meson test there ran 1 of 4 tests"])

    def test_figures_of_mtia(self):
        made, missing = mtia.bench_rows("simulator_bench", {
            "RunsLifo/64": {"items_per_second": 4000.0}})
        self.assertEqual(made, [{
            "topic": "Simulated runs", "row": "64 operations, the last first",
            "unit": "runs/s", "devrt": 4000, "bars": {"5,000 runs/s": False}}])
        self.assertEqual(len(missing), 5)
        made, _ = mtia.bench_rows("traces_bench", {
            "TraceOf/mixed": {"items_per_second": 1e7, "cpu_time": 5}})
        self.assertEqual(made[0]["devrt"], 100)

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
            row("PairThreads/real_time/threads:16", 5, items_per_second=2.6e8),
            row("TraceOf/mixed", 1, reserved_MiB=400, allocated_MiB=300),
            row("C10TraceOf/mixed", 1, reserved_MiB=380, allocated_MiB=300),
            row("BetweenStreams", 900, other_blocks=0),
            row("CachedPair/512/real_time", 50),
            row("RawAsyncPair/512/real_time", 500)])
        found = {(row["topic"], row["row"]): row for row in figures.bench_rows()}
        self.assertEqual(
            found["Allocators", "512 B, allocate and free"],
            {"topic": "Allocators", "row": "512 B, allocate and free",
             "unit": "ns", "devrt": 50, "peers": {"c10": 400}, "ratio": 0.125,
             "bars": {"60 ns": True, "0.2 of c10": True}})
        bars = {text: met for row in found.values()
                for text, met in row.get("bars", {}).items()}
        self.assertEqual(bars, {
            "60 ns": True, "0.2 of c10": True, "150 ns": True, "0.25 of c10": False,
            "2 x that beside 1,000 live": False, "12 x": True, "1000 ns": True,
            "at most c10's": False, "the same block": True})
        self.assertEqual(
            found["Allocators, 16 threads beside one", "512 B"]["devrt"], 13)
        peaks = found["Allocators, peaks of reserved memory",
                      "mixed, 300 MiB in use"]
        self.assertEqual((peaks["devrt"], peaks["peers"]), (400, {"c10": 380}))
        ordered = found["Stream-ordered memory", "512 B, cached"]
        self.assertEqual((ordered["peers"], ordered["ratio"]), ({"driver": 500}, 0.1))
        self.assertIn("PinnedPair/512", figures.missing)

    ROWS_OF_ARRAYS = [
        # Name, bytes a second or nanoseconds.
        ("RawDeviceCopy/iterations:10/manual_time", 4e12, None),
        ("AddContiguous/iterations:10/manual_time", 3.6e12, None),
        ("CopyTransposed/iterations:10/manual_time", 2.2e12, None),
        ("Sum_int8_all/iterations:10/manual_time", 3.8e12, None),
        ("Sum_int8_rows_64/iterations:10/manual_time", 3.8e12, None),
        ("Transpose_int8_8191/iterations:10/manual_time", 3.8e12, None),
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
                "AddContiguous": 3e12, "LaunchAddInto": 6e-6,
                "Sum_int8_all": 3.9e12}}}
        ring = arrays.ring_of(
            "1024 MiB on 2 devices: every sum is right\n"
            "all-reduce      3000.0 us    360.0 GB/s sent by each device\n"
            "one peer copy   2700.0 us    400.0 GB/s\n"
            "90.0 % of the bound that one peer copy sets\n")
        self.assertEqual(ring, {"all-reduce": 360, "one peer copy": 400,
                                "percent": 90})
        figures = self.figures_of_arrays(theirs, ring)
        figures.rows["RawEmptyLaunch"] = {
            "run_name": "RawEmptyLaunch/manual_time", "time_unit": "ns",
            "real_time": 1400}
        found = {row["row"]: row for row in figures.bench_rows()}
        add = found["add of three contiguous arrays"]
        self.assertEqual(add["peers"], {"CuPy": 3000, "PyTorch": 4000,
                                        "driver's copy": 4000})
        self.assertEqual((add["devrt"], add["ratio"], add["bars"]),
                         (3600, 0.9, {"80 % of the driver's copy": True}))
        self.assertEqual(found["copy of a transpose"]["bars"],
                         {"60 % of the driver's copy": False})
        # A sum is measured by CuPy's, if that is there.
        self.assertEqual(found["sum of int8, all"]["bars"], {"CuPy's": False})
        self.assertNotIn("bars", found["sum of int8, over rows, 64 columns"])
        self.assertEqual(found["copy of a transpose, int8, 8191 columns"]["bars"],
                         {"90 % of the driver's copy": True})
        self.assertEqual(found["peer copy of arrays, 1 GiB"]["bars"],
                         {"99 % of the driver's copy": True})
        launch = found["add, 1024 elements, into an array"]
        self.assertEqual((launch["devrt"], launch["ratio"], launch["bars"]),
                         (1500, 0.5, {"the driver's empty launch + 150 ns": True}))
        self.assertEqual(found["view, a slice"]["bars"], {"60 ns": False})
        all_reduce = found["ring_allreduce, 1 GiB, of one peer copy"]
        self.assertEqual((all_reduce["devrt"], all_reduce["peers"],
                          all_reduce["bars"]),
                         (90, {"NCCL": 75}, {"85 %": True}))

    def test_figures_of_arrays_that_are_missing(self):
        figures = self.figures_of_arrays({}, {})
        self.assertNotIn("All-reduce on two devices",
                         {row["topic"] for row in figures.bench_rows()})
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

    def test_bars_of_collectives(self):
        row = {"op": "all_reduce", "bytes": 1024, "in_place": False, "bus": 1}
        us = {"devrt": 5.1, "devrt, arrays": 5.2, "NCCL": 5}
        found = {"ranks": 2, "threads": 1, "alone_us": 5, "turns_us": 6.5, "rows": [
            {**row, "us": us}, {**row, "bytes": 1 << 30, "us": {
                "devrt": 1e4, "devrt, arrays": 1.01e4, "NCCL": 0.995e4}}]}
        rows = {row["row"]: row for row in
                collectives.program_rows(found, judged=True)}
        self.assertEqual(
            [(name, *row["bars"].values()) for name, row in rows.items()],
            [("all-reduce, 1 KiB, 2 ranks", True),
             ("all-reduce of arrays, 1 KiB, 2 ranks", False),
             ("all-reduce, 1 GiB, 2 ranks, bus bandwidth", True),
             ("all-reduce of arrays, 1 GiB, 2 ranks, bus bandwidth", False),
             ("two communicators in turns, 1 KiB, 2 ranks", False)])
        apart = collectives.program_rows({**found, "threads": 2}, judged=True)
        self.assertEqual({row["topic"] for row in apart},
                         {"Collectives, a thread for each rank"})
        large = rows["all-reduce, 1 GiB, 2 ranks, bus bandwidth"]
        self.assertEqual((large["devrt"], large["peers"], large["ratio"]),
                         (107, {"NCCL": 108}, 0.991))
        ours = {"ranks": 1, "ns": {"devrt": {"all_reduce": {"1024": [5000, 4000]}},
                                   "torch": {"all_reduce": {"1024": [9000, 8000]}}}}
        slow, = collectives.rows_beside_torch(ours, judged=True)
        self.assertEqual((slow["ratio"], slow["bars"]),
                         (0.556, {"0.6 of PyTorch's": True}))

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


if __name__ == "__main__":
    unittest.main()
