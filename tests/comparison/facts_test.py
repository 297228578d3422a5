# SPDX-License-Identifier: Apache-2.0
"""docs/coming-from/ and facts.py have the same claims, and pages are short."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGES = ROOT / "docs/coming-from"
RESULTS = PAGES / "facts.json"  # of the last run on GPUs
PAGE_OF = {"torch": "pytorch.md", "cupy": "cupy.md", "numba": "numba.md",
           "cuda.core": "cuda-core.md", "rmm": "rmm.md"}
NAMES_OF_DEVRT = {"python/devrt": ["*.py", "*.pyi"], "guards": ["*.h"],
                  "streams": ["*.h"], "memory": ["*.h"], "arrays": ["*.h"]}
NAME = re.compile(r"\b(?:PT|CP|NB|CC|RM)\d+\b")
CODE = re.compile(r"^```.*?^```$", re.M | re.S)
LONGEST_PARAGRAPH = 80  # words
LONGEST_CELL = 40


def claims():
    done = subprocess.run([sys.executable, str(HERE / "facts.py"), "--list"],
                          check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def read(page):
    return (PAGES / page).read_text(encoding="utf-8")


def introduction(text):
    """The lines in front of the first heading, which name one claim as an example."""
    return text.split("\n## ")[0]


class Facts(unittest.TestCase):

    maxDiff = None

    def test_pages_cite_exactly_the_claims(self):
        found = {library: set() for library in PAGE_OF}
        for claim in claims():
            found[claim["library"]].add(claim["id"])
        for library, page in PAGE_OF.items():
            text = read(page)
            body = text[len(introduction(text)):]
            with self.subTest(page):
                self.assertEqual(set(NAME.findall(body)), found[library])

    def test_examples_in_introductions_exist(self):
        known = {claim["id"] for claim in claims()}
        for page in PAGES.glob("*.md"):
            cited = set(NAME.findall(introduction(read(page.name))))
            with self.subTest(page.name):
                self.assertEqual(cited - known, set())

    def test_claims_have_a_measurement_or_a_document(self):
        for claim in claims():
            with self.subTest(claim["id"]):
                self.assertRegex(claim["source"], r"^measured$|^https://")
                self.assertEqual(claim["library"] == "rmm",
                                 claim["source"] != "measured")

    def test_the_last_run_bears_the_claims_out(self):
        if not RESULTS.exists():
            self.skipTest(f"there is no {RESULTS.name}")
        run = json.loads(RESULTS.read_text(encoding="utf-8"))
        for key in ("date", "commit", "machine", "versions"):
            self.assertTrue(run[key], key)
        outcomes = {fact["id"]: fact["outcome"] for fact in run["facts"]}
        self.assertEqual(set(outcomes.values()) - {"holds", "documented"}, set())
        self.assertEqual({fact["id"]: fact["code"] for fact in run["facts"]},
                         {claim["id"]: claim["code"] for claim in claims()},
                         f"run facts.py, or facts.py --not-measured {RESULTS}")

    def test_pages_mark_unmeasured_facts(self):
        run = json.loads(RESULTS.read_text(encoding="utf-8"))
        for fact in run["facts"]:
            if fact["library"] == "rmm":  # its page says so of all statements
                continue
            found = re.findall(rf"\b{fact['id']}(, documented)?\b",
                               read(PAGE_OF[fact["library"]]))
            with self.subTest(fact["id"]):
                self.assertEqual(set(map(bool, found)),
                                 {fact["outcome"] == "documented"})
                if fact["outcome"] == "documented":
                    self.assertRegex(fact["observed"], "^https://")

    def test_what_changed_is_not_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "facts.json"
            run = json.loads(RESULTS.read_text(encoding="utf-8"))
            changed, gone, *kept = run["facts"]
            changed["code"] = "0"
            run["facts"].remove(gone)
            path.write_text(json.dumps(run), encoding="utf-8")
            subprocess.run([sys.executable, "-B", str(HERE / "facts.py"),
                            "--not-measured", str(path)], check=True)
            facts = json.loads(path.read_text(encoding="utf-8"))["facts"]
            self.assertEqual([fact["outcome"] for fact in facts[:2]],
                             ["documented", "documented"])
            self.assertEqual(facts[2:], kept)

    def test_names_of_devrt_exist(self):
        """Every word of the tables' second column is one of devrt's sources."""
        known = set()
        for folder, kinds in NAMES_OF_DEVRT.items():
            for kind in kinds:
                for path in sorted((ROOT / folder).rglob(kind)):
                    known |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        for page in PAGE_OF.values():
            for cell in re.findall(r"^\|[^|\n]+\|([^|\n]+)\|[^|\n]*\|$", read(page),
                                   re.M):
                words = set(re.findall(r"[A-Za-z_]\w+", " ".join(
                    re.findall(r"`([^`]+)`", cell))))
                with self.subTest(page, cell=cell.strip()):
                    self.assertEqual(words - known, set())

    def test_pages_are_short(self):
        for page in PAGES.glob("*.md"):
            text = CODE.sub("", page.read_text(encoding="utf-8"))
            for paragraph in re.split(r"\n\n+|\n(?=- )", text):
                with self.subTest(page.name, begins=paragraph[:40]):
                    if paragraph.startswith("|"):
                        for cell in re.split(r"(?<!\\)\||\n", paragraph):
                            self.assertLessEqual(len(cell.split()), LONGEST_CELL)
                    else:
                        self.assertLessEqual(len(paragraph.split()),
                                             LONGEST_PARAGRAPH)


if __name__ == "__main__":
    unittest.main()
