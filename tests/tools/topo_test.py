# SPDX-License-Identifier: Apache-2.0
"""devrt topo."""

import unittest

from tool import FAILURE, ToolTest


class Topo(ToolTest):

    def cells(self, text):
        """The rows of the matrix: {"mtia:0": ["-", "yes"], ...}."""
        lines = [line.split() for line in text.splitlines()]
        return {line[0]: line[1:] for line in lines
                if line and line[0].startswith("mtia:")}

    def test_all_connected(self):
        for flags in [[], ["--try"]]:
            text = self.run_tool("topo", *flags).stdout
            self.assertEqual(self.cells(text), {"mtia:0": ["-", "yes"],
                                                "mtia:1": ["yes", "-"]})

    def test_ring(self):
        text = self.run_tool("topo", DEVRT_MTIA="devices=4,peers=ring").stdout
        self.assertEqual(self.cells(text)["mtia:0"], ["-", "yes", "no", "yes"])
        self.assert_narrow(text)

    def test_none(self):
        text = self.run_tool("topo", "--try", DEVRT_MTIA="peers=none").stdout
        self.assertEqual(self.cells(text), {"mtia:0": ["-", "no"],
                                            "mtia:1": ["no", "-"]})

    def test_json(self):
        links = self.run_json("topo")["links"]
        self.assertEqual([(link["device"], link["peer"]) for link in links],
                         [("mtia:0", "mtia:1"), ("mtia:1", "mtia:0")])
        for link in links:
            self.assertTrue(link["can_access"])
            self.assertIsNone(link["enable_works"])
        for link in self.run_json("topo", "--try")["links"]:
            self.assertTrue(link["enable_works"])

    def test_one_device_has_no_links(self):
        self.assertEqual(self.run_json("topo", DEVRT_MTIA="devices=1")["links"],
                         [])

    def test_bad_configuration(self):
        result = self.run_tool("topo", expect=FAILURE, DEVRT_MTIA="peers=star")
        self.assertIn("peers", result.stderr)


if __name__ == "__main__":
    unittest.main()
