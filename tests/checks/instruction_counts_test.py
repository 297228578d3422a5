# SPDX-License-Identifier: Apache-2.0
"""scripts/instruction-counts: which counts it refuses."""

import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/instruction-counts"


def load():
    loader = importlib.machinery.SourceFileLoader("instruction_counts", str(SCRIPT))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Compare(unittest.TestCase):

    def verdict(self, before, now):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            passed = load().compare({"bench": {"Call": before}},
                                    {"bench": {"Call": now}})
        return passed, text.getvalue()

    def test_two_percent_more_pass(self):
        self.assertTrue(self.verdict(1000, 1020)[0])

    def test_more_than_two_percent_fail(self):
        passed, text = self.verdict(1000, 1021)
        self.assertFalse(passed)
        self.assertIn("MORE", text)
        self.assertIn("1 cost more", text)

    def test_a_short_call_has_three_instructions(self):
        self.assertTrue(self.verdict(12, 15)[0])
        self.assertFalse(self.verdict(12, 16)[0])

    def test_less_asks_for_an_update(self):
        passed, text = self.verdict(1000, 900)
        self.assertTrue(passed)
        self.assertIn("--update", text)


class Listed(unittest.TestCase):

    def test_a_function_with_inlined_code_counts_once(self):
        listed = """
1,063,951 (14.89%)  bench/guards_bench.cc:(anonymous namespace)::Same(benchmark::State&) [guards_bench]
    8,052 ( 0.11%)  devrt/guards/enter.h:(anonymous namespace)::Same(benchmark::State&)
    4,802 ( 0.07%)  bench/a.cc:bench::Other(benchmark::State&)::{lambda()#1}::operator()() const [a]
"""
        self.assertEqual(load().of_benchmarks(listed), {"Same": 1063951})


class Table(unittest.TestCase):

    def test_it_has_forty_calls_of_benchmarks_that_exist(self):
        stored = load().json.loads(load().TABLE.read_text(encoding="utf-8"))
        calls = [(program, call) for program, calls in stored["calls"].items()
                 for call in calls]
        self.assertGreaterEqual(len(calls), 40)
        for program, call in calls:
            source = (SCRIPT.parents[1] / "bench" / f"{program}.cc").read_text(
                encoding="utf-8")
            self.assertIn(f"BENCHMARK({call.partition('/')[0]})", source)


if __name__ == "__main__":
    unittest.main()
