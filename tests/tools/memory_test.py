# SPDX-License-Identifier: Apache-2.0
"""devrt memory: its text, its page and what it refuses."""

import html.parser
import io
import json
import pickle
import re
import unittest

import memory_snapshots
from tool import FAILURE, USAGE, ToolTest


class Page(html.parser.HTMLParser):
    """Collects the texts and everything that would need another file."""

    VOID = {"meta", "link", "img", "br", "input", "hr"}

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.outside, self.wrong = [], [], [], []
        self.feed(text)
        self.close()
        if self.open:
            self.wrong.append(f"not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        self.outside += [f"{name}={value}" for name, value in attributes
                         if name in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data):
        self.texts.append(data)


class MemoryTest(ToolTest):
    def write(self, snapshot, name="run.json"):
        (self.folder / name).write_text(json.dumps(snapshot), encoding="utf-8")
        return name

    def report(self, snapshot):
        text = self.run_tool("memory", self.write(snapshot), "-o",
                             "run.html").stdout
        return text, (self.folder / "run.html").read_text(encoding="utf-8")

    def test_report_sums_bytes_and_blocks(self):
        run = memory_snapshots.Run("mtia:1", 256 << 20)
        run.allocate(1000, ("/src/a.cc", 7))
        kept = run.allocate(3 << 20, ("/src/b.cc", 8))
        run.free(kept, waits=[4])
        text, _ = self.report(run.snapshot())
        self.assertIn("mtia:1: run.json", text)
        self.assertRegex(text, r"in use +1 KiB  1 block, 24 B of it rounding")
        self.assertRegex(text, r"waiting +3 MiB  .* 1 block")
        self.assertRegex(text, r"free +19 MiB  2 blocks, the largest 17 MiB")
        self.assertRegex(text, r"reserved +22 MiB  2 segments, 8.6 % of 256")
        self.assertRegex(text, r"b\.cc:8 +0 B +0 +3 MiB")
        self.assertRegex(text, r"a\.cc:7 +1 KiB +1 +1 KiB")

    def test_peak_is_that_of_the_history(self):
        run = memory_snapshots.Run()
        first = run.allocate(5 << 20, ("a.cc", 1))
        second = run.allocate(4 << 20, ("b.cc", 2))
        run.free(first)
        run.free(second)
        run.allocate(6 << 20, ("c.cc", 3))
        text, page = self.report(run.snapshot())
        self.assertIn("the peak of 9 MiB at 7 us", text)
        self.assertIn("most in use: 9 MiB at 7 us", page)

    def test_a_file_without_history_says_how_one_begins(self):
        # In C++ `{}` would be nullopt, which ends the history.
        text, page = self.report(memory_snapshots.no_history())
        for said in (text, page):
            self.assertIn("RecordMemoryHistory(device, HistoryOptions())", said)
            self.assertIn("devrt.record_memory_history()", said)

    def test_events_that_were_dropped(self):
        run = memory_snapshots.Run()
        early = run.allocate(2 << 20, ("a.cc", 1))
        run.allocate(2 << 20, ("b.cc", 2))
        before = len(run.events)
        run.free(early)
        run.allocate(1 << 10, ("c.cc", 3))
        snapshot = run.snapshot()
        snapshot["events"] = snapshot["events"][before:]
        text, page = self.report(snapshot)
        # A block with a free and no allocation existed before the first event.
        self.assertIn("the peak of 4 MiB at 0 us", text)
        self.assertIn(f"Older events were dropped: {before} of them.", text)
        self.assertIn(f"{before} older events were dropped", page)

    def test_out_of_memory(self):
        run = memory_snapshots.Run()
        run.fail(9 << 30, ("a.cc", 1))
        text, page = self.report(run.snapshot())
        self.assertIn("Out of memory at 0 us: 9 GiB asked for.", text)
        self.assertIn("1 request ran out of memory, the last one of 9 GiB",
                      page)

    def test_page_is_whole(self):
        snapshots = {kind: make()
                     for kind, make in memory_snapshots.KINDS.items()
                     if kind != "huge"}
        snapshots["huge"] = memory_snapshots.huge(900, 20, 6000)
        for kind, snapshot in snapshots.items():
            with self.subTest(kind):
                _, page = self.report(snapshot)
                parsed = Page(page)
                self.assertEqual(parsed.wrong, [])
                self.assertEqual(parsed.outside, [])
                self.assertNotRegex(page, r"https?://|@import|url\(")
                self.assertNotRegex(page, r"\b(nan|inf)\b")
                self.assertLess(len(page), 3_000_000)
                for heading in ("Memory over time", "Segments", "Top owners",
                                "Fragmentation", "Figures"):
                    self.assertIn(heading, parsed.texts)

    def test_long_histories(self):
        """The page has the last events, and says that others are gone."""
        snapshot = memory_snapshots.huge(3, 4, 200_010)
        _, page = self.report(snapshot)
        dropped = len(snapshot["events"]) - 200_000
        self.assertIn(f"{dropped} older events were dropped", page)
        data = json.loads(re.search(r'id="data">(.*?)</script>', page,
                                    re.S).group(1))
        self.assertEqual(len(data["events"]), 200_000)

    def test_every_block_is_drawn(self):
        run = memory_snapshots.Run()
        for _ in range(3):
            run.allocate(100 << 20, ("a.cc", 1))
        _, page = self.report(run.snapshot())
        self.assertEqual(page.count('data-b="a.cc:1: 100 MiB"'), 3)

    def test_names_that_are_markup(self):
        run = memory_snapshots.Run('<b>"&')
        run.allocate(4 << 20, ("</script><script>alert(1)</script>.cc", 1))
        text, page = self.report(run.snapshot())
        self.assertIn("script>.cc:1", text)
        self.assertNotIn("alert(1)</script>", page)
        self.assertEqual(Page(page).wrong, [])

    def test_names_with_control_characters(self):
        run = memory_snapshots.Run("a\x1b[31m")
        run.allocate(4 << 20, ("b\x1b[2J\n.cc", 1))
        text, page = self.report(run.snapshot())
        self.assertNotIn("\x1b", text + page)

    def test_torch_pickle_is_written(self):
        run = memory_snapshots.Run()
        run.allocate(4 << 20, ("a.cc", 1))
        out = self.run_tool("memory", self.write(run.snapshot()),
                            "--torch=run.pickle").stdout
        self.assertIn(str(self.folder / "run.pickle"), out)
        data = pickle.load(io.BytesIO((self.folder / "run.pickle").read_bytes()))
        self.assertEqual(data["segments"][0]["total_size"], 20 << 20)
        self.assertEqual([e["action"] for e in data["device_traces"][0]],
                         ["segment_alloc", "alloc"])

    def test_ascii_output_in_the_c_locale(self):
        run = memory_snapshots.Run()
        run.allocate(4 << 20, ("a.cc", 1))
        out = self.run_tool("memory", self.write(run.snapshot()),
                            LC_ALL="C").stdout
        self.assertTrue(out.isascii())

    def refused(self, *arguments, code=FAILURE):
        result = self.run_tool("memory", *arguments, expect=code)
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.startswith("devrt memory: "))
        return result.stderr

    def test_files_that_are_no_snapshots(self):
        good = json.dumps(memory_snapshots.no_history()).encode()
        for name, bytes_ in {
                "empty": b"", "zeros": bytes(100), "torch": b"\x80\x04}q\x00.",
                "array": b"[1, 2]", "other": b'{"schema": "other/1"}',
                "cut": good[:len(good) // 2]}.items():
            with self.subTest(name):
                (self.folder / name).write_bytes(bytes_)
                error = self.refused(name, "-o", "never.html")
                self.assertIn(f'"{name}" is not a memory snapshot: ', error)
                self.assertEqual(error.count("\n"), 1)
                self.assertFalse((self.folder / "never.html").exists())

    def test_files_that_cannot_be_read_or_written(self):
        self.assertIn("nowhere", self.refused("nowhere"))
        self.assertIn("cannot", self.refused("."))
        name = self.write(memory_snapshots.empty())
        result = self.run_tool("memory", name, "-o", "no/such/folder.html",
                               expect=FAILURE)
        self.assertIn("no/such/folder.html", result.stderr)

    def test_wrong_usage(self):
        self.assertIn("needs one snapshot", self.refused(code=USAGE))
        self.refused("a", "b", code=USAGE)
        self.assertIn("--output needs a value",
                      self.refused("a", "--output=", code=USAGE))
        self.assertTrue(re.search("--output", self.refused("a", "--outptu=b",
                                                           code=USAGE)))


if __name__ == "__main__":
    unittest.main()
