# SPDX-License-Identifier: Apache-2.0
"""devrt info."""

import unittest

from tool import FAILURE, ToolTest


class Info(ToolTest):

    def test_all_devices(self):
        text = self.run_tool("info").stdout
        self.assertRegex(text, r"(?m)^mtia:0$")
        self.assertRegex(text, r"(?m)^mtia:1$")
        self.assertIn("256 MiB", text)
        self.assert_narrow(text)

    def test_one_device(self):
        text = self.run_tool("info", "mtia:1").stdout
        self.assertNotIn("mtia:0\n", text)
        self.assertIn("mtia:1\n", text)

    def test_backend_alone_is_its_first_device(self):
        self.assertEqual(self.run_tool("info", "mtia").stdout,
                         self.run_tool("info", "mtia:0").stdout)

    def test_json_has_every_device(self):
        report = self.run_json("info", DEVRT_MTIA="devices=3,memory=64MiB")
        self.assertEqual([device["device"] for device in report["devices"]],
                         ["mtia:0", "mtia:1", "mtia:2"])
        device = report["devices"][2]
        self.assertEqual(device["total_memory"], 64 << 20)
        self.assertLessEqual(device["free_memory"], device["total_memory"])
        self.assertRegex(device["uuid"], r"^[0-9a-f-]{36}$")
        self.assertEqual(len({d["uuid"] for d in report["devices"]}), 3)
        self.assertIn("peer_copy", device["capabilities"])

    def test_engine_for_collectives(self):
        text = self.run_tool("info", "mtia:0").stdout
        self.assertRegex(text, r"(?m)^  collectives +mtia \d")
        device, = self.run_json("info", "mtia:0")["devices"]
        self.assertEqual(device["collectives"]["engine"], "mtia")
        self.assertEqual(device["collectives"]["path"], "")
        self.assertEqual(device["collectives"]["features"], [
            "abort", "compares", "own_deadlines", "register", "revoke",
            "shared_device", "shrink", "split", "stream_ordered"])
        self.assertIn("abort, compares", text)

    def test_bad_device_names(self):
        for name in ["cuda0", "mtia:99", "mtia:-1", "", "mtia:", "mtia:0x1",
                     "x" * 100000, "nosuch:0"]:
            result = self.run_tool("info", name, expect=FAILURE)
            self.assertEqual(result.stdout, "")
            self.assertTrue(result.stderr.startswith("devrt info: "))
            self.assertLess(len(result.stderr), 2000)
        result = self.run_tool("info", "mtia:99", expect=FAILURE)
        self.assertIn("99", result.stderr)

    def test_bad_configuration(self):
        result = self.run_tool("info", expect=FAILURE, DEVRT_MTIA="memory=-1")
        self.assertIn("memory", result.stderr)


if __name__ == "__main__":
    unittest.main()
