# SPDX-License-Identifier: Apache-2.0
"""The model in the script of the page of devrt memory, run by Node.js."""

import json
import random
import re
import shutil
import subprocess
import sys
import unittest

import memory_snapshots
from tool import ROOT, ToolTest

NODE = shutil.which("node") or shutil.which("nodejs")
MIB = 1 << 20
EVALUATE = """
const fs = require("fs");
const M = require(process.argv[2]);
const m = new M.Model(JSON.parse(fs.readFileSync(process.argv[3], "utf-8")));
const seen = [];
for (const expression of JSON.parse(fs.readFileSync(0, "utf-8"))) {
  const value = eval(expression);
  seen.push(value === undefined ? null : value);
}
console.log(JSON.stringify(seen));
"""


class Model(ToolTest):

    def evaluate(self, snapshot, *expressions):
        """Values of JavaScript expressions over `m`, the snapshot's model."""
        (self.folder / "run.json").write_text(json.dumps(snapshot),
                                              encoding="utf-8")
        self.run_tool("memory", "run.json", "-o", "run.html")
        page = (self.folder / "run.html").read_text(encoding="utf-8")
        data = re.search(r'id="data">(.*?)</script>', page, re.S).group(1)
        (self.folder / "data.json").write_text(data, encoding="utf-8")
        (self.folder / "evaluate.js").write_text(EVALUATE, encoding="utf-8")
        result = subprocess.run(
            [NODE, "evaluate.js", str(ROOT / "tools/memory/model.js"),
             "data.json"], cwd=self.folder, input=json.dumps(expressions),
            text=True, stdout=subprocess.PIPE, check=True)
        return json.loads(result.stdout)

    def spike(self):
        """Ten seconds of nothing but one microsecond, in the middle."""
        run = memory_snapshots.Run()
        run.allocate(2 * MIB, ("base.cc", 1))
        run.now += 5_000_000
        held = run.allocate(700 * MIB, ("spike.cc", 2))
        run.now -= 6
        run.free(held)
        run.now += 5_000_000
        run.allocate(2 * MIB, ("base.cc", 1))
        return run.snapshot()

    def test_no_spike_is_lost(self):
        snapshot = self.spike()
        for columns in [1, 7, 40, 1000]:
            (found,) = self.evaluate(
                snapshot, f"m.columns(0, m.duration, {columns})")
            self.assertEqual(len(found), columns)
            self.assertEqual(max(c["total"] for c in found), 702 * MIB)
            column = max(found, key=lambda c: c["total"])
            self.assertEqual(sum(column["in_use"]), column["total"])
            self.assertEqual(max(column["in_use"]), 700 * MIB)

    def test_spikes_of_waiting_and_of_reserved_bytes(self):
        """Also where most is in use at another moment of the column."""
        run = memory_snapshots.Run()
        first = run.allocate(300 * MIB, ("a.cc", 1))
        run.event("segment_alloc", run.address, 900 * MIB, 0)
        run.now += 1
        run.event("segment_free", run.address, 900 * MIB, 0)
        run.event("free_requested", first[0]["address"], 300 * MIB, 0)
        run.allocate(100 * MIB, ("b.cc", 2))
        second = run.allocate(150 * MIB, ("b.cc", 2))
        run.event("free_completed", first[0]["address"], 300 * MIB, 0)
        run.free(second)
        snapshot = run.snapshot()
        snapshot["segments"] = []
        (found,) = self.evaluate(snapshot, "m.columns(0, m.duration, 1)")
        self.assertEqual(found[0]["total"], 300 * MIB)
        self.assertEqual(found[0]["top"], 550 * MIB)
        self.assertGreaterEqual(found[0]["reserved"], 1200 * MIB)

    def test_columns_equal_a_replay(self):
        random.seed(5)
        run, held = memory_snapshots.Run(), []
        for _ in range(400):
            if held and random.random() < 0.45:
                run.free(held.pop(random.randrange(len(held))))
            else:
                held.append(run.allocate(random.randrange(1, 40) * MIB,
                                         (f"{random.randrange(12)}.cc", 1)))
            run.now += random.randrange(200)
        snapshot = run.snapshot()
        events = snapshot["events"]
        begin = events[0]["time_us"]
        duration = events[-1]["time_us"] - begin
        for low, high, columns in [(0, duration, 50), (0, duration, 3),
                                   (duration // 3, duration // 2, 17)]:
            (found,) = self.evaluate(snapshot,
                                     f"m.columns({low}, {high}, {columns})")
            width = (high - low) / columns
            for i, column in enumerate(found):
                start, end = low + i * width, low + (i + 1) * width
                total, most = 0, None
                for event in events:
                    at = event["time_us"] - begin
                    if at >= end and not (i + 1 == columns and at <= high):
                        break
                    if at >= start and most is None:
                        most = total
                    total += {"alloc": 1, "free_requested": -1}.get(
                        event["action"], 0) * event["size"]
                    most = None if most is None else max(most, total)
                self.assertEqual(column["total"],
                                 total if most is None else most, (i, low))

    def neighbours(self):
        run = memory_snapshots.Run()
        run.sites.append({"file": "/src/b.cc", "line": 2,
                          "frames": ["0x401a2c", "0x7f0000000001"]})
        first = run.allocate(3 * MIB, ("/src/a.cc", 1))
        run.allocate(4 * MIB - 1000, ("/src/b.cc", 2))
        run.allocate(5 * MIB, ("/src/c.cc", 3), stream=5)
        run.free(first)
        snapshot = run.snapshot()
        for event in snapshot["events"] + snapshot["segments"][0]["blocks"]:
            if event.get("site") == snapshot["sites"].index(
                    {"file": "/src/b.cc", "line": 2}):
                event["site"] = 0
        return snapshot

    def test_life_stack_and_neighbours_of_a_block(self):
        described, stack, beside, ended, gone = self.evaluate(
            self.neighbours(),
            "m.describe(m.segments[0].blocks[1].life)",
            "m.stack(m.segments[0].blocks[1].life)",
            "m.neighbours(m.segments[0], 1).map(b => m.blockText(b))",
            "m.blockText(m.neighbours(m.segments[0], 2)[1])",
            "m.describe(m.lives.find(l => l.freed >= 0))")
        self.assertEqual(described, [
            ["allocated at", "b.cc:2"],
            ["size", "4 MiB, 488 B of it rounding"],
            ["life", "from 7 us to the end"],
            ["stream", "default stream"],
            ["address", "0x7f2a00300000"]])
        self.assertEqual(stack, ["/src/b.cc:2", "0x401a2c", "0x7f0000000001"])
        self.assertEqual(beside, ["free: 3 MiB", "free: 13 MiB"])
        self.assertEqual(ended, "end of the segment")
        self.assertIn(["life", "from 0 us to 21 us: 21 us"], gone)

    def test_what_waits(self):
        described, = self.evaluate(
            memory_snapshots.training(steps=1, layers=3),
            "m.describe(m.lives.find(l => l.state === 2))")
        self.assertIn(["waits", "for stream 5, 9"], described)
        self.assertIn(["stream", "stream 5"], described)

    def test_blocks_of_a_moment(self):
        snapshot = self.spike()
        before, during, after = self.evaluate(
            snapshot, *(f"m.alive({at}).map(l => l.size)"
                        for at in [1000, 5_000_007, 6_000_000]))
        self.assertEqual(before, [2 * MIB])
        self.assertEqual(during, [700 * MIB, 2 * MIB])
        self.assertEqual(after, [2 * MIB])

    def test_blocks_from_before_the_history(self):
        snapshot = memory_snapshots.dropped()
        lives, first = self.evaluate(
            snapshot, "m.alive(0).map(l => [l.born, m.nameOf(l)])",
            "m.columns(0, 0, 1)[0].total")
        self.assertIn([-1, "adam.cc:40"], lives)
        self.assertIn([-1, "(place unknown)"], lives)
        self.assertGreater(first, 4 << 30)

    def test_events_of_a_time_and_of_a_block(self):
        snapshot = self.spike()
        everything, middle, one = self.evaluate(
            snapshot, "m.eventsBetween(0, m.duration).length",
            "m.eventsBetween(4e6, 6e6).map(i => "
            "m.data.actions[m.data.events[i][1]])",
            "m.eventsBetween(0, m.duration, m.lives[1]).length")
        self.assertEqual(everything, len(snapshot["events"]))
        self.assertEqual(middle, ["segment_alloc", "alloc", "free_requested",
                                  "free_completed"])
        self.assertEqual(one, 3)

    def test_sizes_and_axes(self):
        sizes, times, steps = self.evaluate(
            memory_snapshots.empty(),
            "[0, 1023, 1536, 16 * 1024 * 1024, 3.25 * 2**30].map(M.bytes)",
            "[0, 999, 1500, 2e6].map(M.time)",
            "[M.timeStep(225000, 10), M.byteStep(13e9, 5), M.timeStep(1, 9)]")
        self.assertEqual(sizes, ["0 B", "1023 B", "1.5 KiB", "16 MiB",
                                 "3.25 GiB"])
        self.assertEqual(times, ["0 us", "999 us", "1.5 ms", "2 s"])
        self.assertEqual(steps, [50000, 4 << 30, 1])

    def test_addresses_above_the_exact_numbers(self):
        run = memory_snapshots.Run()
        run.address = 0xFFFFFF0000000000
        run.allocate(2 * MIB, ("a.cc", 1))
        run.allocate(2 * MIB, ("a.cc", 1))
        addresses, = self.evaluate(run.snapshot(),
                                   "m.lives.map(l => l.address)")
        self.assertEqual(addresses, ["ffffff0000000000", "ffffff0000200000"])


if __name__ == "__main__":
    if NODE is None:
        print("skipped: there is no node (Debian: nodejs)")
        sys.exit(77)
    unittest.main()
