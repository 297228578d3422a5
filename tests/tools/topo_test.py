# SPDX-License-Identifier: Apache-2.0
"""devrt topo."""

import unittest

from tool import FAILURE, ToolTest

# An eighth of it is measured, 16 MiB: the host copies them faster than the 64 MiB
# of a device of the default size.
SMALL = "memory=128MiB"


class Topo(ToolTest):

    def parts(self, text):
        """The devices, the matrix, the legend and what is missing, each as
        rows of words under the first one."""
        paragraphs = [[line.split() for line in part.splitlines()]
                      for part in text.split("\n\n")]
        devices, (_,), matrix, legend = paragraphs[:4]
        missing = paragraphs[5] if len(paragraphs) > 4 else []
        return [{row[0]: row[1:] for row in rows}
                for rows in (devices[1:], matrix[1:], legend, missing)]

    def cells(self, text):
        """The rows of the matrix: {"mtia:0": ["-", "SIM"], ...}."""
        return self.parts(text)[1]

    def test_all_connected(self):
        for flags in [[], ["--try"]]:
            text = self.run_tool("topo", *flags).stdout
            self.assertEqual(self.cells(text), {"mtia:0": ["-", "SIM"],
                                                "mtia:1": ["SIM", "-"]})

    def test_links_of_a_ring(self):
        text = self.run_tool("topo", DEVRT_MTIA="devices=4,peers=ring").stdout
        self.assertEqual(self.cells(text)["mtia:0"], ["-", "SIM", "no", "SIM"])
        self.assert_narrow(text)

    def test_no_links_without_peers(self):
        text = self.run_tool("topo", "--try", DEVRT_MTIA="peers=none").stdout
        self.assertEqual(self.cells(text), {"mtia:0": ["-", "no"],
                                            "mtia:1": ["no", "-"]})

    def test_json_has_every_link(self):
        links = self.run_json("topo")["links"]
        self.assertEqual([(link["device"], link["peer"]) for link in links],
                         [("mtia:0", "mtia:1"), ("mtia:1", "mtia:0")])
        for link in links:
            self.assertTrue(link["can_access"])
            self.assertIsNone(link["enable_works"])
            self.assertEqual(link["link"], "SIM")
        for link in self.run_json("topo", "--try")["links"]:
            self.assertTrue(link["enable_works"])

    def test_names_the_place_of_devices_and_the_meaning_of_cells(self):
        for variables in [{}, {"DEVRT_MTIA": "devices=4,peers=ring"}]:
            text = self.run_tool("topo", **variables).stdout
            self.assert_narrow(text)
            devices, matrix, legend, missing = self.parts(text)
            self.assertEqual(devices.keys(), matrix.keys())
            self.assertEqual(devices["mtia:0"][-3:], ["none", "-", "-"])
            used = {cell for row in matrix.values() for cell in row} - {"-"}
            self.assertEqual(legend.keys(), used)
            # Nothing is said to be missing that is there.
            self.assertNotIn("mtia", missing)

    def test_names_missing_backends(self):
        text = self.run_tool("topo").stdout
        unusable = {b["name"]: b["error"]["message"]
                    for b in self.run_json("list", expect=None)["backends"]
                    if not b["usable"]}
        missing = self.parts(text)[3]
        self.assertLessEqual(unusable.keys(), missing.keys())
        told = {entry["what"]: entry["why"]
                for entry in self.run_json("topo")["missing"]}
        for name, why in unusable.items():
            self.assertEqual(told[name], why)

    def test_one_device_has_no_links(self):
        self.assertEqual(self.run_json("topo", DEVRT_MTIA="devices=1")["links"],
                         [])

    def test_measures_copies_on_request(self):
        config = {"DEVRT_MTIA": "devices=2,h2d=25GB/s,p2p=100GB/s"}
        text = self.run_tool("topo", "--measure", **config).stdout
        self.assert_narrow(text)
        matrix = text.split("memory:\n\n")[1].split("\n\n")[0]
        rows = [line.split() for line in matrix.splitlines()]
        self.assertEqual([row[0] for row in rows],
                         ["FROM", "mtia:0", "mtia:1", "host"])
        self.assertEqual(rows[1][1], "-")
        self.assertAlmostEqual(float(rows[1][2]), 100, delta=2)
        self.assertAlmostEqual(float(rows[3][1]), 25, delta=1)
        told = self.run_json("topo", "--measure", **config)
        self.assertAlmostEqual(told["links"][0]["bytes_per_second"], 100e9,
                               delta=2e9)
        device = told["devices"][1]
        self.assertAlmostEqual(device["bytes_per_second_from_host"], 25e9,
                               delta=1e9)
        self.assertGreater(device["bytes_per_second_to_host"], 0)

    def test_a_measurement_has_keys_of_the_simulator(self):
        config = f"devices=3,p2p=100GB/s,{SMALL}"
        keys = self.run_json("topo", "--measure",
                             DEVRT_MTIA=config)["simulator_keys"]["mtia"]
        link, alpha = (part.partition("=") for part in keys.split(","))
        self.assertEqual((link[0], alpha[0]), ("collective_link", "collective_alpha"))
        self.assertAlmostEqual(int(link[2][:-4]), 100_000, delta=2000)
        self.assertGreater(int(alpha[2][:-2]), 0)
        # The simulator takes them.
        text = self.run_tool("topo", "--measure", DEVRT_MTIA=f"{config},{keys}").stdout
        self.assertIn(f"DEVRT_MTIA={keys}\n", text)
        self.assertEqual(self.run_json("topo")["simulator_keys"], {})

    def test_does_not_measure_unasked(self):
        told = self.run_json("topo")
        self.assertIsNone(told["links"][0]["bytes_per_second"])
        self.assertIsNone(told["devices"][0]["bytes_per_second_to_host"])

    def test_a_failed_measurement_is_said(self):
        result = self.run_tool(
            "topo", "--measure", expect=FAILURE, DEVRT_LAYERS="faults",
            DEVRT_FAULTS="oom:nth=1", DEVRT_MTIA=SMALL)
        self.assertIn("fails", result.stdout)
        self.assertIn("out of memory", result.stdout)

    def test_bad_configuration(self):
        result = self.run_tool("topo", expect=FAILURE, DEVRT_MTIA="peers=star")
        self.assertIn("peers", result.stderr)


if __name__ == "__main__":
    unittest.main()
