# SPDX-License-Identifier: Apache-2.0
"""The pickle of a snapshot says what its JSON says, in the dictionaries that
PyTorch's documentation describes, and is made of what Python itself writes.

usage: torch_pickle_test.py WRITE_PICKLE
"""

import io
import json
import pickle
import pickletools
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop()

# Opcodes of Python's own pickler for dictionaries, lists, strings and numbers. Every
# reader of PyTorch's files knows them.
KNOWN = {
    "PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS",
    "SHORT_BINUNICODE", "BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1",
    "NEWTRUE", "NEWFALSE", "MEMOIZE", "BINGET", "LONG_BINGET", "STOP",
}  # fmt: skip


def made_up(seed):
    out = subprocess.run([PROGRAM, str(seed)], capture_output=True, check=True)
    parts, rest = [], out.stdout
    for _ in range(2):
        size, _, rest = rest.partition(b"\n")
        parts.append(rest[: int(size)])
        rest = rest[int(size) :]
    return json.loads(parts[0]), parts[1]


class NoClasses(pickle.Unpickler):
    def find_class(self, module, name):
        raise AssertionError(f"the pickle names {module}.{name}")


class TorchPickleTest(unittest.TestCase):
    def frames_of(self, ours, site):
        if site is None:
            return []
        site = ours["sites"][site]
        first = [{"filename": site["file"], "line": site["line"], "name": ""}]
        return first + [
            {"filename": "", "line": 0, "name": frame}
            for frame in site.get("frames", [])
        ]

    def compare_blocks(self, ours, segment, theirs):
        base = int(segment["address"], 16)
        blocks = [b for b in segment["blocks"] if b["state"] != "unmapped"]
        self.assertEqual(len(theirs["blocks"]), len(blocks))
        for block, other in zip(blocks, theirs["blocks"]):
            self.assertEqual(other["address"], base + block["offset"])
            self.assertEqual(other["size"], block["size"])
            self.assertEqual(other["state"], block["state"])
            self.assertEqual(
                other["requested_size"], block.get("requested", 0)
            )
            frames = self.frames_of(ours, block.get("site"))
            self.assertEqual(other["frames"], frames)

    def compare(self, ours, theirs):
        device = int(ours["device"].split(":")[1])
        self.assertEqual(len(theirs["device_traces"]), device + 1)
        self.assertEqual(len(theirs["segments"]), len(ours["segments"]))
        for segment, other in zip(ours["segments"], theirs["segments"]):
            self.assertEqual(other["device"], device)
            self.assertEqual(other["address"], int(segment["address"], 16))
            self.assertEqual(other["total_size"], segment["size"])
            self.assertEqual(other["segment_type"], segment["pool"])
            self.assertEqual(other["is_expandable"], segment["expandable"])
            self.compare_blocks(ours, segment, other)
            sizes = {"active_allocated": 0, "active_pending_free": 0}
            for block in segment["blocks"]:
                if block["state"] in sizes:
                    sizes[block["state"]] += block["size"]
            self.assertEqual(
                other["allocated_size"], sizes["active_allocated"]
            )
            self.assertEqual(other["active_size"], sum(sizes.values()))
        trace = theirs["device_traces"][device]
        self.assertEqual(len(trace), len(ours["events"]))
        for event, other in zip(ours["events"], trace):
            self.assertEqual(other["action"], event["action"])
            self.assertEqual(other["size"], event["size"])
            self.assertEqual(other["stream"], event["stream"])
            self.assertEqual(other["time_us"], event["time_us"])
            if event["action"] == "oom":
                self.assertIn("device_free", other)
            else:
                self.assertEqual(other["addr"], int(event["address"], 16))
            frames = self.frames_of(ours, event.get("site"))
            self.assertEqual(other["frames"], frames)

    def test_same_as_json(self):
        for seed in range(40):
            with self.subTest(seed=seed):
                ours, bytes_ = made_up(seed)
                theirs = NoClasses(io.BytesIO(bytes_)).load()
                self.assertEqual(set(theirs), {"segments", "device_traces"})
                self.compare(ours, theirs)
                used = {op.name for op, _, _ in pickletools.genops(bytes_)}
                self.assertLessEqual(used, KNOWN)


if __name__ == "__main__":
    unittest.main()
