# SPDX-License-Identifier: Apache-2.0
"""devrt bench: what it measures and how it says so."""

import pathlib
import textwrap
import unittest

from tool import FAILURE, ROOT, TOOL, ToolTest

MEASURED = ["pair_512", "pair_1mib", "mixed_64", "beside_1k", "beside_1m",
            "random_of_1k", "random_of_1m", "raw_pair_512", "pinned_512",
            "pinned_mixed_64", "threads_16", "threads_16_mixed",
            "between_streams", "between_streams_held"]
TRACES = ["inference", "mixed", "training"]


def calls_in(trace):
    folder = pathlib.Path(TOOL).parent / "bench/traces"
    text = (folder / f"{trace}.trace").read_text(encoding="utf-8")
    return sum(line[:1] in ("a", "f") for line in text.splitlines())


def peaks(traces):
    return {name: (trace["reserved_bytes"], trace["allocated_bytes"],
                   trace["segments"]) for name, trace in traces.items()}


class Bench(ToolTest):

    def bench(self, *options, **variables):
        report = self.run_json("bench", "memory", "--quick", *options, **variables)
        return ({row["name"]: row for row in report["rows"]},
                {trace["name"]: trace for trace in report["traces"]}, report)

    def test_everything_is_measured(self):
        rows, traces, report = self.bench()
        self.assertEqual(report["device"], "mtia:0")
        for name in MEASURED:
            self.assertGreater(rows[name]["value"], 0, name)
        # Verdicts follow from what is there.
        for name, row in rows.items():
            if row["met"] is None:
                continue
            at_least = row["unit"] == "x"
            self.assertEqual(row["met"], row["value"] >= row["bar"] if at_least
                             else row["value"] <= row["bar"], name)
        self.assertAlmostEqual(rows["beside_1m"]["bar"],
                               2 * rows["beside_1k"]["value"], delta=0.01)
        if report["processors"] < 16:
            self.assertIsNone(rows["threads_16"]["met"])
        self.assertEqual(rows["between_streams_held"]["note"],
                         "the same block each time, no wait")
        for name in TRACES:
            trace = traces[name]
            self.assertEqual(trace["calls"], calls_in(name))
            self.assertGreaterEqual(trace["reserved_bytes"],
                                    trace["allocated_bytes"])
            self.assertAlmostEqual(
                trace["fragmentation"],
                1 - trace["allocated_bytes"] / trace["reserved_bytes"],
                delta=0.001)
        # Traces take the same in each run, on any device.
        _, others, report = self.bench("--device=1")
        self.assertEqual(report["device"], "mtia:1")
        self.assertEqual(peaks(others), peaks(traces))

    def test_no_room(self):
        rows, traces, _ = self.bench(DEVRT_MTIA="memory=64MiB,mode=threaded")
        self.assertIsNone(rows["beside_1m"]["value"])
        self.assertRegex(rows["beside_1m"]["note"], "takes .* is free")
        self.assertGreater(rows["pair_512"]["value"], 0)
        for name in TRACES:
            self.assertIsNone(traces[name]["call_ns"])
            self.assertIn("64 MiB", traces[name]["note"])

    # One thread's blocks fit, those of 16 do not.
    def test_no_room_for_threads(self):
        rows, _, _ = self.bench(DEVRT_MTIA="memory=36MiB,mode=threaded")
        self.assertGreater(rows["mixed_64"]["value"], 0)
        self.assertGreater(rows["threads_16"]["value"], 0)
        self.assertIsNone(rows["threads_16_mixed"]["value"])
        self.assertIsNone(rows["threads_16_mixed"]["met"])
        self.assertIn("36 MiB", rows["threads_16_mixed"]["note"])

    def test_bench_text_has_targets_and_verdicts(self):
        text = self.run_tool("bench", "memory", "--quick").stdout
        self.assertIn("mtia:0", text)
        self.assertRegex(text, r"(?m)^  512 B, allocate and free +\S+ ns +"
                               r"<= 60.0 ns +(met|missed)$")
        self.assertRegex(text, r"(?m)^  training +1888 ")
        self.assert_narrow(text)

    def test_wrong_usage(self):
        self.assert_wrong_usage(["bench"], "what is to be measured")
        self.assert_wrong_usage(["bench", "guards"], '"guards"', '"memory"')
        self.assert_wrong_usage(["bench", "memory", "more"], '"more"')
        self.assert_wrong_usage(["bench", "memory", "--device=x"], "--device")
        self.assert_wrong_usage(["bench", "memory", "--device=9"],
                                "index value 9")
        self.assert_wrong_usage(["bench", "memory", "--picture=x.svg"], "--picture")
        self.assert_wrong_usage(["bench", "calls", "--device=1"], "--device")
        for backend in [], ["--backend=mtia"]:
            self.assert_wrong_usage(["bench", "calls", "--picture=x.svg", *backend],
                                    "--picture", "mtia", "--backend")

    def test_missing_backend(self):
        result = self.run_tool("bench", "memory", "--backend=acme",
                               expect=FAILURE)
        self.assertIn("acme", result.stderr)
        self.assertEqual(result.stdout, "")


class BenchCalls(ToolTest):
    """tests/python/test_command.py has the figures: they take the Python package."""

    def interpreter(self, script):
        path = self.folder / "interpreter"
        path.write_text("#!/bin/sh\n" + textwrap.dedent(script), encoding="utf-8")
        path.chmod(0o755)
        return f"--python={path}"

    def test_the_program_and_what_it_draws_with_lie_in_one_folder(self):
        said = self.run_tool("bench", "calls", "--backend=cuda", self.interpreter("""
            cmp "$2" "$BENCH/python_bench.py" || exit 3
            cmp "${2%/*}/ratio_chart.py" "$BENCH/ratio_chart.py" || exit 3
            echo "$@"
            """), "--picture=p.svg", "--json", "--quick",
            BENCH=str(ROOT / "bench")).stdout.split()
        self.assertEqual(said[0], "-B")
        self.assertFalse(pathlib.Path(said[1]).parent.exists())
        self.assertEqual(said[2:], ["--backend=cuda", "--rounds=2", "--json=-",
                                    f"--picture={self.folder.resolve() / 'p.svg'}"])

    def test_other_libraries_stay_out_on_the_simulator(self):
        said = self.run_tool("bench", "calls", self.interpreter('echo "$@"')).stdout
        self.assertEqual(said.split()[2:],
                         ["--backend=mtia", "--rounds=9", "--no-peers"])

    def test_the_exit_code_is_that_of_python(self):
        self.run_tool("bench", "calls", self.interpreter("exit 7"), expect=7)

    def test_no_such_python(self):
        result = self.run_tool("bench", "calls", "--python=./none", expect=FAILURE)
        self.assertIn("./none cannot be run: No such file", result.stderr)
        self.assertIn("--python", result.stderr)

    def test_no_folder_for_temporary_files(self):
        for tmpdir, reason in [("/dev/null", "Not a directory"),
                               ("/proc", "No such file or directory")]:
            result = self.run_tool("bench", "calls", expect=FAILURE, TMPDIR=tmpdir)
            self.assertRegex(result.stderr, f"no folder .*{tmpdir}.* can be made: "
                                            f"{reason}; .*TMPDIR")


if __name__ == "__main__":
    unittest.main()
