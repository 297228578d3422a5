# SPDX-License-Identifier: Apache-2.0
"""Output for a user on machines with a missing or broken CUDA.

The plugin for CUDA over the fake driver: no driver, an old one, no device, a
device that is lost.
"""

import json
import os
import subprocess
import unittest

from machines import CRASHES, HANGS, TOOL, MachineTest, entries, hidden, main_at_once

DRIVER = os.environ["DEVRT_FAKE_DRIVER"]  # folders
# Of the fake runtime for HIP, where there is one.
OTHERS = os.environ.get("DEVRT_FAKE_HIP_FOLDER")
NCCL = os.environ["DEVRT_FAKE_NCCL"]  # the file
PROGRAM = os.environ["DEVRT_LOST_PROGRAM"]


class Machines(MachineTest):

    def list(self, switches, usable=True, folders=(DRIVER,), **variables):
        """The entry of cuda in `devrt list`, and all the text.

        All the other backends are usable in every case.
        """
        # HIP reads CUDA_VISIBLE_DEVICES as well.
        has_hip = OTHERS and "CUDA_VISIBLE_DEVICES" not in variables
        others = [OTHERS] if has_hip else []
        variables["LD_LIBRARY_PATH"] = ":".join([*folders, *others])
        variables["DEVRT_FAKE_CUDA"] = switches
        text = self.run_tool("list", **variables)
        report = self.run_json("list", **variables)
        cuda = next(b for b in report["backends"] if b["name"] == "cuda")
        self.assertEqual(cuda["usable"], usable)
        for name in ["mtia"] + (["hip"] if has_hip else []):
            self.assertTrue(next(b for b in report["backends"]
                                 if b["name"] == name)["usable"], name)
            self.assertIn(f" {name}:1 ", text.stdout)
        return cuda, " ".join(text.stdout.split())

    def assert_refused(self, switches, *texts, **options):
        cuda, text = self.list(switches, usable=False, **options)
        for part in texts:
            self.assertIn(part, cuda["error"]["message"])
            self.assertIn(part, text)

    def test_a_working_machine(self):
        cuda, text = self.list("")
        self.assertEqual(cuda["device_count"], 2)
        self.assertIn("cuda:1 fake CUDA device sm_90", text)

    def engine(self, **variables):
        device, = self.run_json("info", "cuda:0", LD_LIBRARY_PATH=DRIVER,
                                **variables)["devices"]
        return device["collectives"]

    def test_engine_for_collectives(self):
        features = ["abort", "register", "revoke", "shared_device", "shrink", "split",
                    "stream_ordered"]
        self.assertEqual(
            self.engine(DEVRT_NCCL_LIBRARY=NCCL),
            {"engine": "nccl", "version": "2.32.3", "path": NCCL, "features": features})
        self.assertIn("keeps_order", self.engine(
            DEVRT_NCCL_LIBRARY=NCCL, NCCL_LAUNCH_ORDER_IMPLICIT="1")["features"])
        self.assertNotIn("keeps_order", self.engine(
            DEVRT_NCCL_LIBRARY=NCCL, NCCL_LAUNCH_ORDER_IMPLICIT="1",
            DEVRT_FAKE_NCCL_VERSION="22505")["features"])
        old = self.engine(DEVRT_NCCL_LIBRARY=NCCL, DEVRT_FAKE_NCCL_VERSION="21605")
        self.assertEqual(old["error"]["code"], "UNAVAILABLE")
        self.assertIn("2.16.5", old["error"]["message"])
        none = self.engine(**hidden("libnccl.so.2"))
        self.assertEqual(none["error"]["code"], "UNAVAILABLE")
        self.assertIn("DEVRT_NCCL_LIBRARY", none["error"]["message"])

    def test_topology_of_all_backends(self):
        variables = {"LD_LIBRARY_PATH": DRIVER, **hidden("libnvidia-ml.so.1")}
        report = self.run_json("topo", **variables)
        links = {(link["device"], link["peer"]): link["link"]
                 for link in report["links"]}
        self.assertEqual(links["cuda:0", "mtia:1"], "host")
        self.assertEqual(links["mtia:1", "cuda:0"], "host")
        self.assertEqual(links["mtia:0", "mtia:1"], "SIM")
        places = {place["device"]: place for place in report["devices"]}
        self.assertEqual(places["cuda:1"]["pci_address"], "0000:02:00.0")
        self.assertIsNone(places["mtia:1"]["pci_address"])
        missing = {entry["what"]: entry["why"] for entry in report["missing"]}
        self.assertIn("libnvidia-ml.so.1", missing["NVLink"])
        text = self.run_tool("topo", **variables).stdout
        self.assert_narrow(text)
        self.assertRegex(text, r"(?m)^  mtia:1 +host +host .*SIM +-$")
        self.assertIn("memory of the host", text)

    def test_trace_of_two_clocks(self):
        """Calls of a virtual clock stand apart, each host above its devices."""
        output = self.folder / "trace.json"
        self.run_tool("trace", "-o", str(output), "--", TOOL, "topo", "--try",
                      LD_LIBRARY_PATH=DRIVER)
        events = json.loads(output.read_text(encoding="utf-8"))["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events
                 if e["name"] == "process_name"}
        calls = {}
        for event in events:
            if event["ph"] == "X":
                device = event["args"].get("device", "").split(":")[0]
                calls.setdefault(names[event["pid"]], set()).add(device)
        real, simulated = sorted(calls)
        self.assertIn("virtual time", simulated)
        self.assertNotIn("virtual time", real)
        self.assertEqual(calls[real] - {""}, {"cuda"})
        self.assertEqual(calls[simulated] - {""}, {"mtia"})

    def test_number_of_devices(self):
        self.assertEqual(self.list("devices=3")[0]["device_count"], 3)

    def test_visible_devices(self):
        cuda, _ = self.list("devices=3", CUDA_VISIBLE_DEVICES="2,0")
        self.assertEqual(cuda["device_count"], 2)
        for value in ["", "7", "-1", "nonsense"]:
            with self.subTest(value=value):
                self.assert_refused("", "CUDA_ERROR_NO_DEVICE",
                                    CUDA_VISIBLE_DEVICES=value)

    def test_no_driver(self):
        self.assert_refused("", "there is no CUDA driver: libcuda.so.1",
                            **hidden("libcuda.so.1"))

    def test_no_device(self):
        self.assert_refused("no_device", "CUDA_ERROR_NO_DEVICE")

    def test_driver_that_does_not_start(self):
        for code, name in [(3, "NOT_INITIALIZED"), (802, "SYSTEM_NOT_READY"),
                           (803, "SYSTEM_DRIVER_MISMATCH"),
                           (999, "UNKNOWN")]:
            self.assert_refused(f"init={code}", f"CUDA_ERROR_{name}")

    def test_driver_too_old(self):
        self.assert_refused(
            "version=11080",
            "the driver is for CUDA 11.8; this needs one for 12.0 or later")

    def test_driver_without_an_entry_point(self):
        for name, _, required in entries("backends/cuda/entries.inc",
                                         "DEVRT_CUDA_ENTRY"):
            with self.subTest(name=name):
                if required == "true":
                    self.assert_refused(f"missing={name}",
                                        f"the driver has no {name}")
                else:
                    self.assertEqual(
                        self.list(f"missing={name}")[0]["device_count"], 2)

    def check_broken(self, switches, reason):
        self.check_left_out({"cuda": reason}, {
            "LD_LIBRARY_PATH": DRIVER, "DEVRT_FAKE_CUDA": switches,
            "DEVRT_BACKENDS": "cuda,mtia"})

    def test_driver_that_never_comes_back(self):
        self.check_broken("init=hang", HANGS)

    def test_driver_that_crashes(self):
        self.check_broken("init=crash", CRASHES)


class LostDevice(unittest.TestCase):

    def run_program(self, switches):
        """Its lines: first, later, free."""
        environment = dict(os.environ, LD_LIBRARY_PATH=DRIVER,
                           DEVRT_FAKE_CUDA=switches)
        result = subprocess.run([PROGRAM, "cuda:0"], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = dict(line.split(": ", 1) for line in result.stdout.splitlines())
        return result, lines

    def test_nothing_is_lost(self):
        result, lines = self.run_program("")
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual(lines, {"first": "OK", "later": "OK", "free": "OK"})

    def test_error_of_one_call(self):
        result, lines = self.run_program("fail=cuMemsetD8Async@3:2")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("RESOURCE_EXHAUSTED", lines["first"])
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", lines["first"])
        self.assertEqual(lines["later"], "OK")
        self.assertEqual(lines["free"], "OK")

    def test_unknown_error_of_one_call(self):
        _, lines = self.run_program("fail=cuMemsetD8Async@3:999")
        self.assertIn("CUDA_ERROR_UNKNOWN", lines["first"])
        self.assertEqual(lines["later"], "OK")

    def test_lost_device_is_quarantined(self):
        for code, name, status in [(46, "DEVICE_UNAVAILABLE", "UNAVAILABLE"),
                                   (719, "LAUNCH_FAILED", "INTERNAL"),
                                   (999, "UNKNOWN", "UNKNOWN")]:
            result, lines = self.run_program(f"lost=cuMemsetD8Async@3:{code}")
            self.assertEqual(result.returncode, 1, result)
            for line in ["first", "later"]:
                self.assertIn(status, lines[line])
                self.assertIn(f"CUDA_ERROR_{name}", lines[line])
            self.assertIn("quarantine", lines["later"])
            self.assertEqual(lines["free"], "OK")


if __name__ == "__main__":
    main_at_once()
