# SPDX-License-Identifier: Apache-2.0
"""devrt list."""

import os
import pathlib
import unittest

from tool import FAILURE, PLUGIN, ToolTest

PLUGINS = pathlib.Path(os.environ["DEVRT_TEST_PLUGIN_DIR"])


def backend(report, name):
    return next(b for b in report["backends"] if b["name"] == name)


class List(ToolTest):

    def test_text_has_backends_devices_and_files(self):
        result = self.run_tool("list")
        self.assertRegex(result.stdout, r"(?m)^  mtia +2 ")
        self.assertRegex(result.stdout, r"(?m)^  mtia:0 ")
        self.assertRegex(result.stdout, r"(?m)^  mtia:1 .*256 MiB$")
        self.assertRegex(result.stdout, r"(?m)^  loaded .*libdevrt_mtia\.so$")
        self.assertEqual(result.stderr, "")

    def test_json_has_backends_devices_and_files(self):
        report = self.run_json("list", DEVRT_MTIA="devices=3,memory=64MiB")
        mtia = backend(report, "mtia")
        self.assertTrue(mtia["usable"])
        self.assertEqual(mtia["device_count"], 3)
        self.assertIn("host_func", mtia["capabilities"])
        self.assertTrue(mtia["path"].endswith("/libdevrt_mtia.so"))
        devices = {device["device"]: device for device in report["devices"]}
        self.assertEqual([name for name in devices if name.startswith("mtia")],
                         ["mtia:0", "mtia:1", "mtia:2"])
        self.assertEqual(devices["mtia:0"]["total_memory"], 64 << 20)
        loaded = [attempt for attempt in report["load_report"]
                  if attempt["result"] == "loaded"]
        self.assertIn("mtia", [attempt["backend"] for attempt in loaded])

    def test_default_device(self):
        # mtia's manifest has a lower priority than others' usual one, 100.
        good = str(PLUGINS / "libdevrt_good.so")
        for plugins, device in [(f"{good}:{PLUGIN}", "mtia:0"),
                                (good, "good:0")]:
            report = self.run_json("list", DEVRT_PLUGINS=plugins)
            self.assertEqual(report["default_device"], device)
            text = self.run_tool("list", DEVRT_PLUGINS=plugins).stdout
            self.assertIn(f"  {device} is the default where", text)
        empty = str(PLUGINS / "libdevrt_zero_devices.so")
        report = self.run_json("list", DEVRT_PLUGINS=empty)
        self.assertIsNone(report["default_device"])

    def test_bad_configuration_names_the_key(self):
        for value, *texts in [
                ("devices=0", "devices"), ("devices=999", "devices"),
                ("memory=-1", "memory"), ("devces=2", "devces", "devices"),
                ("mode=vrtual", "mode", "virtual")]:
            result = self.run_tool("list", expect=FAILURE, DEVRT_MTIA=value)
            for text in texts:
                self.assertIn(text, result.stderr)
            report = self.run_json("list", expect=FAILURE, DEVRT_MTIA=value)
            mtia = backend(report, "mtia")
            self.assertFalse(mtia["usable"])
            self.assertIn(texts[0], mtia["error"]["message"])

    def test_a_layer_that_is_not_there(self):
        plugins = ":".join([PLUGIN, str(PLUGINS / "libdevrt_good.so")])
        result = self.run_tool("list", expect=FAILURE, DEVRT_LAYERS="trase",
                               DEVRT_PLUGINS=plugins)
        text = result.stdout + result.stderr
        self.assertEqual(text.count("cannot be used: NOT_FOUND"), 2)
        self.assertEqual(text.count('no layer "trase" was found'), 1)
        self.assertIn("known layers: faults, trace, validate; searched: ", result.stderr)

    def test_refused_plugin(self):
        bad = self.folder / "libdevrt_bad.so"
        bad.write_bytes(b"not a plugin")
        result = self.run_tool("list", expect=FAILURE, DEVRT_PLUGINS=str(bad))
        self.assertRegex(result.stdout, r"(?m)^  refused .*libdevrt_bad\.so$")
        report = self.run_json("list", expect=FAILURE, DEVRT_PLUGINS=str(bad))
        self.assertNotIn("bad", [b["name"] for b in report["backends"]])
        refused = [attempt for attempt in report["load_report"]
                   if attempt["result"] == "refused"]
        self.assertEqual(refused[0]["path"], str(bad))
        self.assertTrue(refused[0]["error"]["message"])

    def test_plugins_that_end_the_process(self):
        plugins = ":".join([PLUGIN] + [
            str(PLUGINS / f"libdevrt_{name}.so")
            for name in ("opens_abort", "opens_exit")])
        result = self.run_tool("list", expect=FAILURE, DEVRT_PLUGINS=plugins)
        self.assertRegex(result.stdout, r"(?m)^  mtia:1 ")
        text = " ".join(result.stdout.split())
        for name, ending in [("opens_abort", "by signal 6"),
                             ("opens_exit", "with exit code")]:
            self.assertIn(f'backend "{name}" ended the process that used it '
                          f'{ending}', text)
        self.assertIn("(contract P4)", result.stderr)
        for command in ("info", "topo"):
            result = self.run_tool(command, expect=FAILURE,
                                   DEVRT_PLUGINS=plugins)
            self.assertIn("opens_abort", result.stderr)
            self.assertIn("mtia:1", result.stdout)

    def test_wrong_timeout(self):
        for value in ["0", "-1", "soon", ""]:
            self.assert_wrong_usage(["list", f"--timeout={value}"],
                                    "--timeout")

    def test_missing_plugin(self):
        path = str(self.folder / "missing.so")
        result = self.run_tool("list", expect=FAILURE, DEVRT_PLUGINS=path)
        self.assertIn("missing.so", result.stdout)

    def test_excluded_backend(self):
        result = self.run_tool("list", expect=FAILURE, DEVRT_BACKENDS="!mtia,!cuda,!hip")
        self.assertRegex(result.stdout, r"(?m)^  excluded .*mtia")
        self.assertIn("no backend", result.stderr)


if __name__ == "__main__":
    unittest.main()
