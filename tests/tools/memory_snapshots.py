# SPDX-License-Identifier: Apache-2.0
"""Made-up memory snapshots, by a small allocator that is played through.

usage: memory_snapshots.py KIND FILE     for looking at the report by hand
"""

import json
import random
import sys

GIB, MIB = 1 << 30, 1 << 20
BEGIN_US = 1795000000000000


class Run:
    """Best fit in segments, with history and statistics enough for a report."""

    def __init__(self, device="cuda:0", total=80 * GIB):
        self.device, self.total = device, total
        self.sites, self.events, self.segments = [], [], []
        self.now = BEGIN_US
        self.address = 0x7F2A00000000
        self.current = self.peak = self.failures = 0

    def site(self, file, line):
        site = {"file": file, "line": line}
        if site not in self.sites:
            self.sites.append(site)
        return self.sites.index(site)

    def event(self, action, address, size, stream, site=None):
        event = {"number": len(self.events) + 1, "action": action,
                 "address": hex(address), "size": size, "stream": stream,
                 "time_us": self.now}
        if site is not None:
            event["site"] = site
        self.events.append(event)

    def segment(self, size, stream, pool):
        segment = {"address": self.address, "size": size, "stream": stream,
                   "pool": pool, "expandable": False, "blocks": [
                       {"offset": 0, "size": size, "state": "inactive",
                        "stream": stream}]}
        self.address += size + 2 * MIB
        self.segments.append(segment)
        self.event("segment_alloc", segment["address"], size, stream)
        return segment

    def allocate(self, requested, place, stream=0):
        size = -(-requested // 512) * 512
        pool = "small" if size <= MIB else "large"
        fits = [(b["size"], s["address"] + b["offset"], s, b)
                for s in self.segments
                if s["pool"] == pool and s["stream"] == stream
                for b in s["blocks"]
                if b["state"] == "inactive" and b["size"] >= size]
        if fits:
            _, _, segment, block = min(fits, key=lambda f: f[:2])
        else:
            segment = self.segment(
                2 * MIB if pool == "small" else
                20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB,
                stream, pool)
            block = segment["blocks"][0]
        rest = block["size"] - size
        if rest >= (512 if pool == "small" else MIB + 1):
            blocks = segment["blocks"]
            blocks.insert(blocks.index(block) + 1, {
                "offset": block["offset"] + size, "size": rest,
                "state": "inactive", "stream": stream})
            block["size"] = size
        site = self.site(*place)
        block.update(state="active_allocated", requested=requested, site=site)
        self.current += block["size"]
        self.peak = max(self.peak, self.current)
        self.event("alloc", segment["address"] + block["offset"],
                   block["size"], stream, site)
        self.now += 7
        return segment, block

    def free(self, held, waits=()):
        segment, block = held
        address = segment["address"] + block["offset"]
        self.event("free_requested", address, block["size"], segment["stream"])
        self.current -= block["size"]
        self.now += 3
        del block["site"]
        if waits:
            block.update(state="active_pending_free",
                         waiting_streams=list(waits))
            return
        self.event("free_completed", address, block["size"],
                   segment["stream"])
        del block["requested"]
        block["state"] = "inactive"
        blocks = segment["blocks"]
        at = blocks.index(block)
        for left in (at, at - 1):
            if 0 <= left < len(blocks) - 1 and {
                    blocks[left]["state"], blocks[left + 1]["state"]
            } == {"inactive"}:
                blocks[left]["size"] += blocks.pop(left + 1)["size"]

    def fail(self, size, place):
        self.failures += 1
        self.event("oom", 0, size, 0, self.site(*place))

    def snapshot(self):
        segments = sorted(self.segments, key=lambda s: s["address"])
        return {
            "schema": "devrt.memory/1", "device": self.device,
            "total_memory": self.total,
            "statistics": {"num_ooms": self.failures,
                           "allocated_bytes.all.current": self.current,
                           "allocated_bytes.all.peak": self.peak},
            "sites": self.sites,
            "segments": [{**s, "address": hex(s["address"])}
                         for s in segments],
            "events": self.events}


def training(steps=4, layers=24):
    """Weights and optimiser for good; activations up and down; some waits."""
    random.seed(7)
    run = Run()
    for layer in range(layers):
        run.allocate(96 * MIB + layer * 4096, ("/src/model/layers.cc", 88))
        run.allocate(12288 + layer, ("/src/model/layers.cc", 91))
        run.allocate(192 * MIB, ("/src/optim/adam.cc", 40))
    run.now += 2000
    for step in range(steps):
        batch = run.allocate(300 * MIB, ("/src/data/loader.cc", 212), stream=5)
        kept = []
        for _ in range(layers):
            kept.append(run.allocate(
                random.randrange(120, 190) * MIB, ("/src/model/attention.cc", 131)))
            kept.append(run.allocate(64 * MIB, ("/src/model/mlp.cc", 57)))
            for _ in range(3):
                kept.append(run.allocate(random.randrange(200, 400000),
                                         ("/src/model/norm.cc", 19)))
            workspace = run.allocate(32 * MIB, ("/src/kernels/gemm.cc", 310))
            run.now += 900
            run.free(workspace)
        if step == 2:
            run.fail(9 * GIB, ("/src/model/loss.cc", 12))
        gradients = []
        while kept:
            run.free(kept.pop())
            if len(kept) % 5 == 0:
                gradients.append(run.allocate(96 * MIB, ("/src/model/backward.cc", 74)))
            run.now += 260
        run.free(batch, waits=[5, 9] if step == steps - 1 else [])
        for gradient in gradients[step == steps - 1 and 6:]:
            run.free(gradient)
        run.now += 1500
    return run.snapshot()


def empty():
    return Run("mtia:0", 256 * MIB).snapshot()


def no_history():
    snapshot = training(steps=1, layers=6)
    snapshot["events"] = []
    return snapshot


def dropped():
    """The first half of the events went."""
    snapshot = training(steps=2)
    snapshot["events"] = snapshot["events"][len(snapshot["events"]) // 2:]
    return snapshot


def huge(segments=6000, blocks=40, events=60000):
    """Thousands of segments, hundreds of places, many streams."""
    random.seed(3)
    run = Run("cuda:7", 140 * GIB)
    places = [(f"/src/gen/op_{i % 90}.cc", i) for i in range(400)]
    for place in places:
        run.site(*place)
    for i in range(segments):
        large = i % 3 != 0
        size = 2 * MIB * random.choice([10, 10, 10, 16, 50]) if large else 2 * MIB
        segment = run.segment(size, i % 17, "large" if large else "small")
        segment["blocks"], at = [], 0
        while at < size:
            left = size - at
            part = min(left, max(512, int(size * random.random() / blocks * 2)
                                 // 512 * 512))
            live = random.random() < 0.8
            block = {"offset": at, "size": part, "stream": i % 17,
                     "state": "active_allocated" if live else "inactive"}
            if live:
                block.update(requested=part - random.randrange(512),
                             site=min(399, int(random.expovariate(0.03))))
                run.current += part
            segment["blocks"].append(block)
            at += part
        run.now += 11
    while len(run.events) < events:
        at = random.randrange(1 << 30) * 512
        size = 512 * random.randrange(1, 4000)
        run.event("alloc", at, size, 0, random.randrange(400))
        run.event("free_requested", at, size, 0)
        run.event("free_completed", at, size, 0)
        run.now += random.randrange(500)
    return run.snapshot()


KINDS = {"training": training, "empty": empty, "no_history": no_history,
         "dropped": dropped, "huge": huge}

if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(KINDS[sys.argv[1]](), file)
