# SPDX-License-Identifier: Apache-2.0
"""The files that devrt demo writes: the picture and the trace."""

import json
import os
import unittest
import xml.etree.ElementTree as ElementTree

from tool import FAILURE, ToolTest

SVG = "{http://www.w3.org/2000/svg}"


class Picture(ToolTest):

    def picture(self, *arguments, **variables):
        self.run_tool("demo", "--size=1", "--svg=p.svg", *arguments,
                      **variables)
        return ElementTree.parse(self.folder / "p.svg").getroot()

    def texts(self, root):
        return ["".join(text.itertext()) for text in root.iter(SVG + "text")]

    def test_default_place(self):
        result = self.run_tool("demo", "--size=1")
        path = self.folder / "devrt-demo.svg"
        self.assertIn(str(path.resolve()), result.stdout)
        ElementTree.parse(path)

    def test_no_file_is_written_without_a_place(self):
        self.run_tool("demo", "--size=1", "--svg=-")
        self.run_tool("demo", "--size=1", "--svg", "-", "--trace", "-")
        report = self.run_json("demo", "--size=1")
        self.assertIsNone(report["svg"])
        self.assertIsNone(report["trace"])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_has_every_operation(self):
        root = self.picture()
        report = self.run_json("demo", "--size=1")
        tips = [title.text for title in root.iter(SVG + "title")]
        for operation in report["operations"]:
            start = f"{operation['name']}, chunk {operation['chunk']}: "
            self.assertEqual(len([t for t in tips if t.startswith(start)]), 1,
                             start)

    def test_is_labelled(self):
        root = self.picture()
        texts = self.texts(root)
        for text in ["mtia:0", "mtia:1", "host", "copy in", "compute", "send",
                     "copy out", "kernel", "peer copy", "0 us"]:
            self.assertIn(text, texts)
        self.assertTrue(texts[0].startswith("devrt demo: 1 MiB in 6 chunks"))
        self.assertEqual(root.find(SVG + "title").text, texts[0])

    def test_every_host_function_has_its_label(self):
        """Also the last one, which is narrow and ends with the axis."""
        for size, devices in [("1", "1"), ("1", "2"), ("16", "2"), ("1", "4")]:
            with self.subTest(size=size, devices=devices):
                root = self.picture(f"--size={size}", f"--devices={devices}",
                                    DEVRT_MTIA="devices=4")
                labels = {group.find(SVG + "title").text.split(":")[0]:
                          [text.text for text in group.iter(SVG + "text")]
                          for group in root.iter(SVG + "g")}
                for chunk in range(1, 7):
                    name = f"host function, chunk {chunk}"
                    self.assertEqual(labels[name], [str(chunk)], name)
                width = float(root.get("viewBox").split()[2])
                for text in root.iter(SVG + "text"):
                    self.assertLess(float(text.get("x")), width)

    def test_has_an_arrow_for_every_wait(self):
        root = self.picture()
        report = self.run_json("demo", "--size=1")
        waits = sum(len(o["waits_for"]) for o in report["operations"])
        in_legend = 2
        arrows = [path for path in root.iter(SVG + "path")
                  if "marker-end" in path.attrib]
        self.assertEqual(len(arrows), waits + in_legend)

    def test_is_self_contained_and_has_a_background(self):
        root = self.picture()
        for element in root.iter():
            for name, value in element.attrib.items():
                self.assertNotIn("href", name)
                self.assertNotIn("http", value)
        self.assertEqual(root.find(SVG + "rect").get("fill"), "#ffffff")

    def test_nothing_lies_outside(self):
        for devices in ["1", "2", "4"]:
            root = self.picture(f"--devices={devices}", DEVRT_MTIA="devices=4")
            _, _, width, height = map(float, root.get("viewBox").split())
            for box in root.iter(SVG + "rect"):
                right = float(box.get("x")) + float(box.get("width"))
                bottom = float(box.get("y")) + float(box.get("height"))
                self.assertLessEqual(right, width)
                self.assertLessEqual(bottom, height)

    def test_cannot_be_written(self):
        os.mkdir(self.folder / "taken")
        for path in ["no/such/folder.svg", "taken", "/dev/full"]:
            result = self.run_tool("demo", "--size=1", f"--svg={path}",
                                   "--trace=t.json", expect=FAILURE)
            self.assertIn(f'cannot write "{path}": ', result.stderr)
            self.assertIn("Verified", result.stdout)
            self.assertIn("t.json", result.stdout)
            json.loads((self.folder / "t.json").read_text(encoding="utf-8"))

    def test_cannot_be_written_with_json(self):
        report = self.run_json("demo", "--size=1", "--svg=no/such/folder.svg",
                               expect=FAILURE)
        self.assertIsNone(report["svg"])
        self.assertTrue(report["verified"])


class Trace(ToolTest):

    def events(self):
        report = self.run_json("demo", "--size=1", "--trace=t.json")
        self.assertEqual(report["trace"],
                         str((self.folder / "t.json").resolve()))
        with open(self.folder / "t.json", encoding="utf-8") as file:
            return json.load(file)["traceEvents"], report

    def test_has_every_operation(self):
        events, report = self.events()
        slices = [event for event in events if event["ph"] == "X"]
        self.assertEqual(
            [(s["name"], s["ts"], s["dur"]) for s in slices],
            [(f"{o['name']} {o['chunk']}", o["begin_ns"] / 1000,
              (o["end_ns"] - o["begin_ns"]) / 1000)
             for o in report["operations"]])

    def test_names_processes_and_threads(self):
        events, _ = self.events()
        names = {(event["name"], event["args"].get("name"))
                 for event in events if event["ph"] == "M"}
        for name in ["mtia:0", "mtia:1", "host"]:
            self.assertIn(("process_name", name), names)
        for name in ["copy in", "compute", "send", "copy out", "functions"]:
            self.assertIn(("thread_name", name), names)
        threads = {(event["pid"], event["tid"]) for event in events}
        named = {(event["pid"], event["tid"]) for event in events
                 if event["name"] == "thread_name"}
        self.assertEqual(threads, named)

    def test_slices_of_a_thread_do_not_overlap(self):
        events, _ = self.events()
        end = {}
        for event in events:
            if event["ph"] != "X":
                continue
            self.assertGreaterEqual(event["ts"] + 1e-6,
                                    end.get(event["tid"], 0))
            end[event["tid"]] = event["ts"] + event["dur"]

    def test_flows_bind_to_slices(self):
        events, report = self.events()
        slices = [event for event in events if event["ph"] == "X"]
        flows = [event for event in events if event["ph"] in "sf"]
        waits = sum(len(o["waits_for"]) for o in report["operations"])
        self.assertEqual(len(flows), 2 * waits)
        ids = {}
        for flow in flows:
            ids.setdefault(flow["id"], []).append(flow["ph"])
            self.assertTrue(
                any(s["tid"] == flow["tid"] and s["pid"] == flow["pid"]
                    and s["ts"] <= flow["ts"] < s["ts"] + s["dur"]
                    for s in slices), flow)
        self.assertEqual(set(map(tuple, ids.values())), {("s", "f")})


if __name__ == "__main__":
    unittest.main()
