#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/evidence/interop.md is what scripts/interop_doc.py writes of the results."""

import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import interop_doc  # noqa: E402


def result(*cases):
  return {"schema": interop_doc.SCHEMA, "seed": 1, "date": "2026-01-01",
          "machine": "2 x a", "versions": {"numpy": "2"},
          "cases": [dict(zip(("id", "code", "outcome", "note"), case),
                         seconds=0) for case in cases]}


def page_of(*cases, **run):
  """The page of one result that was kept and read again."""
  text = interop_doc.kept({**result(*cases), **run})
  return interop_doc.page({"x": interop_doc.parsed(text)})


class InteropDocTest(unittest.TestCase):

  def test_page_is_up_to_date(self):
    page = interop_doc.page(interop_doc.load())
    self.assertEqual(interop_doc.PAGE.read_text(encoding="utf-8"), page,
                     "run scripts/interop_doc.py")

  def test_deviations_name_cases_and_reasons(self):
    known = interop_doc.deviations.load()
    for name, entry in known.items():
      self.assertGreater(len(entry["why"]), 20, name)

  def test_what_the_table_has_otherwise_deviates(self):
    page = page_of(("producer/mtia/numpy_cpu/device", "C", "passed", ""),
                   ("producer/mtia/numpy", "E:X", "passed", "RuntimeError: no"),
                   ("producer/cuda/numpy", "E:X", "passed", "BufferError: no"),
                   ("scenario/C7/mtia/2", "C", "passed", "MPI"),
                   ("scenario/C7/mtia_pinned/2", "Z", "passed", "MPI"))
    for text in ("W, here C **deviates**", "E:BufferError, here E:X **deviates**",
                 "| `scenario/C7/mtia/2` | **deviates** | messages pass, here C: MPI |",
                 "| `scenario/C7`, 1 | ok | |", "| E:X ok |",
                 "| 2 | 3 | 0 | 0 |"):
      self.assertIn(text, page)

  def test_a_cell_is_as_bad_as_its_worst_case(self):
    page = page_of(
        ("producer/cpu/numpy", "Z", "passed", ""),
        ("producer/cpu/numpy/variants", "Z", "failed", "why"),
        ("producer/cpu/jax_dlpack", "Z", "skipped", "no jax: x"),
        ("producer/mtia/numpy", "E:BufferError", "passed", ""))
    self.assertIn("| cpu | Z **failed** |", page)
    self.assertIn("| mtia | E:BufferError ok |", page)
    self.assertNotIn("jax_dlpack`", page)
    self.assertIn("| no jax | 1 |", page)

  def test_a_kept_result_has_one_line_a_case_that_ran(self):
    text = interop_doc.kept(result(
        ("a", "Z", "passed", ""), ("b", "Z", "failed", "why"),
        ("c", "Z", "skipped", "no jax: x"), ("d", "Z", "skipped", "no jax: y")))
    run, *cases = [json.loads(line) for line in text.splitlines()]
    self.assertEqual(run["skipped"], {"no jax": 2})
    self.assertEqual(cases, [
        {"id": "a", "code": "Z", "outcome": "passed"},
        {"id": "b", "code": "Z", "outcome": "failed", "note": "why"}])

  def test_another_schema_is_refused(self):
    text = interop_doc.kept(result()).replace("kept/1", "kept/9")
    with self.assertRaisesRegex(ValueError, "devrt.interop.kept/1"):
      interop_doc.parsed(text)

  def test_parts_are_merged(self):
    whole = interop_doc.merged([
        result(("b", "Z", "failed", ""), ("c", "Z", "passed", "")),
        result(("b", "Z", "passed", ""), ("a", "Z", "passed", ""))])
    self.assertEqual([(case["id"], case["outcome"]) for case in whole["cases"]],
                     [("a", "passed"), ("b", "passed"), ("c", "passed")])

  def test_every_commit_that_ran_is_named(self):
    parts = [{**result(), "commit": commit} for commit in ("a1", "b2", "a1")]
    self.assertEqual(interop_doc.merged(parts)["commit"], "a1, b2")
    self.assertIn("| x | 2026-01-01 | a1 | 2 x a |", page_of(commit="a1"))

  def test_runs_are_counted(self):
    page = page_of(("scenario/C1", "Z", "passed", ""),
                   ("scenario/C2", "Z", "deviates", "said"))
    self.assertIn("| x | 2026-01-01 |  | 2 x a | 1 | 1 | 0 | 0 |", page)
    self.assertIn("| `scenario/C2` | **deviates** | said |", page)


if __name__ == "__main__":
  unittest.main()
