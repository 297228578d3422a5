# SPDX-License-Identifier: Apache-2.0
"""scripts/evidence.py: its pages say what the result files say, and no more."""

import contextlib
import datetime
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import evidence  # noqa: E402
from gpu_check import mtia, parts, result  # noqa: E402

MOST_WORDS_OF_A_PARAGRAPH, MOST_WORDS_OF_A_CELL = 80, 40


def run_of(of_parts, date="2026-01-01", commit="0123abc", gpus=1):
    return {"format": 1, "date": date, "commit": commit,
            "machine": {"gpus": ["GPU A"] * gpus}, "parts": of_parts}


def passed(count=1, **more):
    return {"outcome": "passed", "passed": count, **more}


def headings(text):
    """Returns the anchors of a page's headings."""
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"(?m)^#+ (.+)$", text)]


class Evidence(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, **runs):
        for name, run in runs.items():
            (self.folder / f"{name}.json").write_text(json.dumps(run),
                                                      encoding="utf-8")

    def make(self, results=None):
        """Returns (exit code, error text, {name: text} of the pages)."""
        out, error = self.folder / "out", io.StringIO()
        arguments = ["evidence.py", "--out", str(out), "--results",
                     str(results or self.folder)]
        with mock.patch.object(sys, "argv", arguments), \
                contextlib.redirect_stderr(error):
            code = evidence.main()
        return code, error.getvalue(), {
            path.name: path.read_text(encoding="utf-8")
            for path in out.glob("*")}

    def rows(self, part):
        """Returns the rows of a part on the page of results, as lists of cells."""
        code, error, pages = self.make()
        self.assertEqual(code, 0, error)
        return [[cell.strip() for cell in line.split("|")[1:-1]]
                for line in pages["hardware.md"].splitlines()
                if line.startswith(f"| `{part}`")]


class KeptResults(Evidence):

    def test_pages_agree_with_the_result_files(self):
        code, error, pages = self.make(evidence.RESULTS)
        self.assertEqual((code, error), (0, ""))
        runs = evidence.load(evidence.RESULTS)
        names = {name for of in evidence.PARTS.values() for name in of}
        for run in runs:
            self.assertLessEqual(set(run.data["parts"]), names, run.name)
        for name in names:
            for run in evidence.results_of(runs, name):
                part = run.data["parts"][name]
                word = "**failed**" if part["outcome"] == "failed" else (
                    part["outcome"])
                self.assertRegex(
                    pages["hardware.md"],
                    rf"(?m)^\| `{name}`[^|]*\| {re.escape(word)} \| "
                    rf"{part.get('passed', '')} \|.*\| {run.age} \| "
                    rf"{re.escape(run.at)} \|")
                for failure in part.get("failures", []):
                    self.assertIn(failure, pages["hardware.md"])

    def test_no_file_is_superseded(self):
        runs = evidence.load(evidence.RESULTS)
        shown = {run.name for of in evidence.PARTS.values() for name in of
                 for run in evidence.results_of(runs, name)}
        shown |= {run.name for topic in evidence.newest_rows(runs).values()
                  for _, run in topic.values()}
        self.assertEqual({run.name for run in runs} - shown, set())

    def test_links_lead_to_files_and_headings(self):
        pages = self.make(evidence.RESULTS)[2]
        for name, text in pages.items():
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                path, _, heading = target.partition("#")
                with self.subTest(f"{name} links to {target}"):
                    found = text if not path else pages.get(path) or (
                        ROOT / "docs/evidence" / path).read_text(encoding="utf-8")
                    self.assertIn(heading, ["", *headings(found)])

    def test_readme_counts_the_bars_of_cuda(self):
        topics = evidence.newest_rows(evidence.load(evidence.RESULTS))
        bars = [met for topic, found in topics.items() if "hip" not in topic
                for row, run in found.values() if run.gpus
                for met in row.get("bars", {}).values()]
        self.assertIn(f"{bars.count(False)} of {len(bars)} benchmark bars missed",
                      (ROOT / "README.md").read_text(encoding="utf-8"))

    def test_pages_can_be_read(self):
        for name, text in self.make(evidence.RESULTS)[2].items():
            if not name.endswith(".md"):
                continue
            for block in re.split(r"\n\n|\n(?= *- )", text):
                if block.startswith("|"):
                    cells = re.split(r"(?<!\\)\||\n", block)
                    self.assertLessEqual(max(len(of.split()) for of in cells),
                                         MOST_WORDS_OF_A_CELL, name)
                else:
                    self.assertLessEqual(len(block.split()),
                                         MOST_WORDS_OF_A_PARAGRAPH, block)

    def test_every_part_of_gpu_check_has_a_backend(self):
        of_gpus = [*evidence.PARTS["cuda"], *evidence.PARTS["hip"]]
        self.assertEqual(sorted(of_gpus), sorted(parts.PARTS))
        self.assertEqual(sorted(evidence.PARTS["mtia"]), sorted(mtia.PARTS))

    def test_folders_exist(self):
        for of in evidence.PARTS.values():
            for folders in of.values():
                for folder in folders.split():
                    self.assertTrue((ROOT / folder).is_dir(), folder)


class Choice(Evidence):

    def test_a_failed_part_is_shown_as_failed(self):
        self.write(a=run_of({"soak": {"outcome": "failed", "failed": 1,
                                      "failures": ["it grows"]}}))
        self.assertEqual(self.rows("soak")[0][1:4], ["**failed**", "", "1"])
        self.assertIn("- failed: it grows", self.make()[2]["hardware.md"])

    def test_an_older_result_does_not_replace_a_newer_one(self):
        old = run_of({"soak": passed(1), "faults": passed(2)}, "2026-01-01")
        new = run_of({"soak": {"outcome": "failed", "failed": 1,
                               "failures": ["x"]}}, "2026-01-02", "4567def")
        for names in [("a", "b"), ("b", "a")]:
            self.write(**dict(zip(names, [old, new])))
            self.assertEqual([row[1] for row in self.rows("soak")], ["**failed**"])
            self.assertEqual([row[6] for row in self.rows("faults")], ["`0123abc`"])

    def test_the_hour_and_then_the_name_decide_within_a_day(self):
        self.write(a=run_of({"soak": passed(3)}, "2026-01-01T10:00Z"),
                   b=run_of({"soak": passed(2)}, "2026-01-01T09:00Z"),
                   c=run_of({"soak": passed(1)}, "2026-01-01"))
        self.assertEqual([row[2] for row in self.rows("soak")], ["3"])
        self.write(d=run_of({"soak": passed(4)}, "2026-01-01T10:00Z"))
        self.assertEqual([row[2] for row in self.rows("soak")], ["4"])

    def test_fewer_gpus_do_not_replace_more(self):
        self.write(a=run_of({"soak": passed(2)}, "2026-01-01", gpus=2),
                   b=run_of({"soak": passed(1)}, "2026-01-02", gpus=1))
        self.assertEqual([row[7] for row in self.rows("soak")],
                         ["1 x GPU A", "2 x GPU A"])
        self.write(c=run_of({"soak": passed(3)}, "2026-01-03", gpus=2))
        self.assertEqual([row[2] for row in self.rows("soak")], ["3"])

    def test_a_piece_of_a_part_does_not_replace_the_whole(self):
        self.write(a=run_of({"soak": passed(2)}, "2026-01-01"),
                   b=run_of({"soak": passed(1, partial="40 s")}, "2026-01-02"),
                   c=run_of({"soak": passed(3, partial="40 s")}, "2026-01-03"))
        self.assertEqual([row[0] for row in self.rows("soak")],
                         ["`soak`: 40 s", "`soak`"])
        self.assertEqual([row[2] for row in self.rows("soak")], ["3", "2"])

    def test_a_skip_does_not_replace_a_result(self):
        skip = {"outcome": "skipped", "skipped": 1, "skips": ["no tool"]}
        self.write(a=run_of({"soak": passed(), "sanitizer": skip}, "2026-01-01"),
                   b=run_of({"soak": skip}, "2026-01-02"))
        self.assertEqual([row[1] for row in self.rows("soak")], ["passed"])
        self.assertEqual([row[1] for row in self.rows("sanitizer")], ["skipped"])
        page = self.make()[2]["hardware.md"]
        self.assertIn("- skipped: no tool", page)
        self.assertIn("- The part `sanitizer` of `cuda`.", page)
        self.assertNotIn("- The part `soak` of `cuda`.", page)

    def test_ages_are_counted_to_the_newest_commit(self):
        self.write(a=run_of({"soak": passed()}, "2026-01-01T23:59Z"),
                   b=run_of({"faults": passed()}, "2026-01-02"))
        with mock.patch.object(evidence, "newest_date",
                               lambda: datetime.date(2026, 1, 3)):
            self.assertEqual(self.rows("soak")[0][5], "2026-01-01, 2 days")
            self.assertEqual(self.rows("faults")[0][5], "2026-01-02, 1 day")
            self.assertIn("counted to 2026-01-03", self.make()[2]["hardware.md"])

    def test_what_holds_is_the_worst_of_a_part(self):
        self.write(a=run_of({"soak": {"outcome": "failed", "failures": ["it grows"]},
                             "faults": passed()}, "2026-01-01"),
                   b=run_of({"soak": passed(1, partial="40 s")}, "2026-01-02"))
        page = self.make()[2]["hardware.md"]
        self.assertIn("1 of 25 parts passed; failed: `soak`; never run: `kernels`", page)

    def never(self):
        page = self.make()[2]["hardware.md"]
        return page.split("## Never run\n")[1].split("##")[0]

    def test_what_no_file_shows_has_never_run(self):
        never = self.never()
        for text in ["- The part `soak` of `cuda`", "- The part `mtia_tests` of `mtia`",
                     "`cuda` on a GPU of NVIDIA's", "`hip` on a GPU of AMD's",
                     "- More GPUs in one run than 0."]:
            self.assertIn(text, never)
        run = run_of({"soak": passed()}, gpus=4)
        run["machine"].update(gpus=["AMD Instinct"] * 4, architectures=["gfx90a"],
                              system="Debian GNU/Linux 12 (bookworm), Linux 6.1",
                              processor="AMD EPYC")
        self.write(a=run)
        never = self.never()
        for text in ["of AMD's", "`soak`", "gfx90a,", ", gfx90a\n"]:
            self.assertNotIn(text, never)
        for text in ["`cuda` on a GPU of NVIDIA's", "architecture than gfx90a.",
                     "Images of `hip` for gfx1010, ", "More GPUs in one run than 4.",
                     "operating system than Debian 12.",
                     "processor than AMD EPYC."]:
            self.assertIn(text, never)

    def test_a_system_is_named_once(self):
        for name, system in {"a": "Ubuntu 24.04", "b": "Ubuntu 24.04.3 LTS, Linux 6.18",
                             "c": "Debian 12",
                             "d": "Debian GNU/Linux 12 (bookworm), Linux 6.1"}.items():
            run = run_of({"soak": passed()})
            run["machine"]["system"] = system
            self.write(**{name: run})
        self.assertIn("operating system than Debian 12, Ubuntu 24.04.\n", self.never())

    def test_hip_without_a_gpu_of_its_maker(self):
        run = run_of({"hip_costs": passed()})
        self.write(a=run)
        said = "**No GPU of AMD's ran them.** These parts ran over `hip_on_cuda`"
        self.assertIn(said, self.make()[2]["hardware.md"])
        run["machine"]["gpus"] = ["AMD Instinct"]
        self.write(a=run)
        self.assertNotIn(said, self.make()[2]["hardware.md"])

    def test_a_commit_that_git_does_not_know(self):
        self.write(a=run_of({"soak": passed()}, commit="f" * 40))
        self.assertEqual(self.rows("soak")[0][-1], "not known")
        self.write(a=run_of({"soak": passed()}, commit=""))
        self.assertEqual(self.rows("soak")[0][6], "not recorded")


class Benchmarks(Evidence):

    def page(self):
        return self.make()[2]["benchmarks.md"]

    def test_the_newest_figure_of_each_row(self):
        def rows(*values):
            return {"benchmarks": passed(rows=[
                result.bench_row("Calls", name, "ns", value, {"driver": 10})
                for name, value in values])}
        self.write(a=run_of(rows(("one", 11), ("two", 12)), "2026-01-01"),
                   b=run_of(rows(("one", 9)), "2026-01-02", "4567def"))
        page = self.page()
        self.assertIn("| one | 9 ns | 10 ns | 0.9 | `4567def`, 1 x GPU A |", page)
        self.assertIn("| two | 12 ns | 10 ns | 1.2 | `0123abc`, 1 x GPU A |", page)
        self.assertNotIn("11 ns", page)

    def test_a_row_stays_if_a_newer_one_lacks_its_peers(self):
        def rows(value, **peers):
            return {"benchmarks": passed(rows=[
                result.bench_row("Calls", "one", "ns", value, peers)])}
        self.write(a=run_of(rows(11, a=10, b=20), "2026-01-01"),
                   b=run_of(rows(12, a=10), "2026-01-02"))
        page = self.page()
        self.assertIn("| one | 11 ns | 10 ns | 20 ns |", page)
        self.assertIn("| one | 12 ns | 10 ns |", page)
        self.write(c=run_of(rows(13, a=10, b=20, c=5), "2026-01-03"))
        page = self.page()
        self.assertIn("| one | 13 ns | 10 ns | 20 ns | 5 ns |", page)
        self.assertNotIn("11 ns", page)
        self.assertNotIn("12 ns", page)

    def test_bars_and_peers(self):
        row = result.bench_row("Calls", "one", "GB/s", 1234.5, {"a": 400, "b": 500},
                               {"1 x": True, "2000": False})
        self.write(a=run_of({"benchmarks": passed(rows=[row])}))
        self.assertIn("| one | 1,234 GB/s | 400 GB/s | 500 GB/s | 2.47 | "
                      "1 x, 2000 **missed** |", self.page())

    def test_missed_bars_are_counted_with_their_reasons(self):
        rows = [result.bench_row("Calls", "met", "ns", 5, {}, {"9 ns": True}),
                result.bench_row("Calls", "slow", "ns", 11, {}, {"9 ns": False}),
                result.bench_row("Calls", "bound", "ns", 11, {"driver": 10},
                                 {"9 ns": False, "0.2 of x": False}),
                result.bench_row("Calls on cuda", "current device", "ns", 11, {},
                                 {"9 ns": False})]
        self.write(a={**run_of({"benchmarks": passed(rows=rows)}), "quick": True})
        page = self.page()
        for text in ["**4 of 5 bars are missed.**",
                     "| Calls | 4 | 3 |",
                     "- **Calls**, bound: the driver alone takes as long as the bar.\n",
                     "- **Calls**, slow: not known.\n",
                     "- **Calls on cuda**, current device: each call asks",
                     "`0123abc`, `--quick`, 1 x GPU A.\n"]:
            self.assertIn(text, page)

    def test_reasons_and_notes_are_of_rows_that_exist(self):
        topics = evidence.newest_rows(evidence.load(evidence.RESULTS))
        for topic, reasons in evidence.REASONS.items():
            rows = {row["row"] for row, _ in topics[topic].values()}
            self.assertLessEqual(set(reasons), {*rows, "*"}, topic)
        self.assertLessEqual(set(evidence.NOTES), set(topics))

    def test_a_bound_is_no_peer(self):
        rows = [result.bench_row("Arrays", "cast", "GB/s", 20,
                                 {"a": 10, "driver's copy": 40}),
                result.bench_row("Arrays", "fill", "GB/s", 20, {"driver's copy": 40})]
        self.write(a=run_of({"benchmarks": passed(rows=rows)}))
        page = self.page()
        self.assertIn("| Row | devrt | a | driver's copy (a bound) | Ratio |", page)
        self.assertIn("| cast | 20 GB/s | 10 GB/s | 40 GB/s | 2 |", page)
        self.assertIn("| fill | 20 GB/s |  | 40 GB/s |  |", page)

    def test_the_picture(self):
        rows = [result.bench_row("Calls", "a & b", "ns", 5, {"a": 20}),
                result.bench_row("Calls", "slow", "GB/s", 5, {"a": 20}),
                result.bench_row("Calls", "alone", "ns", 5)]
        self.write(a=run_of({"benchmarks": passed(rows=rows)}))
        pages = self.make()[2]
        self.assertIn("](ratios-calls.svg)", pages["benchmarks.md"])
        picture = pages["ratios-calls.svg"]
        self.assertIn(">a &amp; b</text>", picture)
        self.assertEqual(re.findall(r'rect class="(\w+)"', picture),
                         ["better", "worse"])
        self.assertIn(">4</text>", picture)
        self.assertIn(">0.25</text>", picture)
        self.assertNotIn("alone", picture)


class BadFiles(Evidence):

    def complaint(self, text):
        (self.folder / "bad.json").write_text(text, encoding="utf-8")
        code, error, pages = self.make()
        self.assertEqual((code, pages), (1, {}))
        self.assertEqual(error.count("\n"), 1, error)
        self.assertIn("bad.json: ", error)
        return error

    def test_one_clear_error(self):
        good = run_of({"soak": passed()})
        row = result.bench_row("Calls", "one", "ns", 5, {"a": 20})

        def part(**changes):
            return json.dumps(run_of({"soak": {**passed(), **changes}}))

        for text, said in [
            ("{", "Expecting property name"),
            ("[]", "the file is no object"),
            (json.dumps({**good, "format": 2}), "format is 2"),
            (json.dumps({**good, "date": "yesterday"}), "date is 'yesterday'"),
            (json.dumps({**good, "commit": "main"}), "commit is 'main'"),
            (json.dumps({**good, "parts": []}), "parts has the wrong type"),
            (json.dumps({**good, "weather": "x"}), "unknown member weather"),
            (json.dumps({"format": 1}), "the file has no date"),
            (part(outcome="good"), "part soak: outcome is 'good'"),
            (part(passed="7"), "part soak: passed has the wrong type"),
            (part(failures=["x"]), "part soak has failures, and its outcome"),
            (part(outcome="failed"), "part soak failed, and names no failure"),
            (part(rows=["x"]), "row x is no object"),
            (part(rows=[{**row, "unit": "furlong"}]), "unit is 'furlong'"),
            (part(rows=[{**row, "ratio": 2}]), "ratio is 2, its figures give 0.25"),
        ]:
            with self.subTest(said):
                self.assertIn(said, self.complaint(text))

    def test_what_is_written_is_read(self):
        run = run_of({"benchmarks": passed(rows=[
            result.bench_row("Calls", "one", "ns", 5.04, {"a": 2, "b": None})]),
            "soak": passed()})
        (self.folder / "good.json").write_text(result.text_of(run), encoding="utf-8")
        self.assertEqual(result.load(self.folder / "good.json"), run)


if __name__ == "__main__":
    unittest.main()
