# SPDX-License-Identifier: Apache-2.0
"""devrt demo: the run itself, and what it says about it."""

import fcntl
import os
import pty
import re
import struct
import termios
import threading
import unittest

from tool import FAILURE, TOOL, ToolTest

CHUNKS = 6
STAGES = ["copy in", "scale", "send", "square", "copy out", "host function"]


class Demo(ToolTest):

    def run_demo(self, *arguments, **variables):
        """Runs a small demo and returns its JSON, checked for consistency."""
        report = self.run_json("demo", "--size=1", *arguments, **variables)
        self.check_result(report)
        self.check_streams(report["operations"])
        return report

    def check_result(self, report):
        self.assertTrue(report["verified"])
        self.assertNotIn("first_difference", report)
        self.assertEqual(report["host_functions_run"], CHUNKS)
        self.assertEqual(report["chunks"], CHUNKS)
        operations = report["operations"]
        for operation in operations:
            self.assertLessEqual(operation["begin_ns"], operation["end_ns"])
            self.assertLessEqual(operation["end_ns"], report["elapsed_ns"])
        for kind in ["copy to device", "copy to host"]:
            self.assertEqual(report["bytes"],
                             sum(operation["bytes"] for operation in operations
                                 if operation["kind"] == kind))

    def check_streams(self, operations):
        """One after another in a stream, each after what it waits for."""
        last = {}
        for operation in operations:
            stream = (operation["device"], operation["stream"])
            before = [operations[i] for i in operation["waits_for"]]
            before += [last[stream]] if stream in last else []
            for other in before:
                self.assertLessEqual(other["end_ns"], operation["begin_ns"],
                                     f"{other} then {operation}")
            last[stream] = operation

    def test_verifies_the_result(self):
        result = self.run_tool("demo")
        self.assertIn("Verified: all 4194304 numbers equal", result.stdout)
        self.assertIn("6 of 6 host functions ran",
                      " ".join(result.stdout.split()))
        self.assertEqual(result.stderr, "")

    def test_names_a_backend_that_ends_the_process(self):
        plugin = os.environ["DEVRT_TEST_PLUGIN_DIR"] + "/libdevrt_thread_aborts.so"
        result = self.run_tool("demo", "--backend=thread_aborts", expect=FAILURE,
                               DEVRT_PLUGINS=plugin)
        self.assertIn('devrt demo: backend "thread_aborts" ended the process that '
                      "used it by signal 6", result.stderr)

    def test_names_the_steps(self):
        text = self.run_tool("demo").stdout
        self.assert_narrow(text)
        for words in ["libdevrt_mtia.so", "mtia:0", "mtia:1", "copy in",
                      "x = 3 * x + 1", "WAITS FOR", "copy in n",
                      "virtual clock", "It took", "ran at a time"]:
            self.assertIn(words, " ".join(text.split()))

    def test_runs_every_stage_for_every_chunk(self):
        operations = self.run_demo()["operations"]
        self.assertEqual(
            [(operation["name"], operation["chunk"])
             for operation in operations],
            [(stage, chunk) for chunk in range(1, CHUNKS + 1)
             for stage in STAGES])

    def test_waits_are_those_of_the_plan(self):
        operations = self.run_demo()["operations"]
        index = {(operation["name"], operation["chunk"]): i
                 for i, operation in enumerate(operations)}
        for chunk in range(1, CHUNKS + 1):
            plan = {"scale": [("copy in", chunk)],
                    "square": [("send", chunk)],
                    "copy out": [("square", chunk)],
                    "copy in": [("send", chunk - 2)],
                    "send": [("scale", chunk), ("copy out", chunk - 2)]}
            for name, waits in plan.items():
                expected = sorted(index[wait] for wait in waits
                                  if wait in index)
                self.assertEqual(
                    sorted(operations[index[name, chunk]]["waits_for"]),
                    expected, f"{name} of chunk {chunk}")

    def test_copies_and_kernels_overlap(self):
        report = self.run_json("demo")
        self.assertGreater(report["overlap"], 1.5)
        self.assertAlmostEqual(report["overlap"],
                               report["busy_ns"] / report["elapsed_ns"],
                               places=2)

    def test_is_the_same_every_time(self):
        self.assertEqual(self.run_demo(), self.run_demo())

    def test_number_of_devices(self):
        for devices in range(1, 5):
            report = self.run_demo(f"--devices={devices}",
                                   DEVRT_MTIA="devices=4")
            self.assertEqual(report["devices"],
                             [f"mtia:{i}" for i in range(devices)])
        self.assertEqual(self.run_demo(DEVRT_MTIA="devices=1")["devices"],
                         ["mtia:0"])

    def test_times_of_events(self):
        report = self.run_demo("--times=events")
        self.assertIn("events", report["clock"])
        self.assertGreater(report["overlap"], 1)
        text = self.run_tool("demo", "--times=events", "--size=1").stdout
        self.assertIn("Verified", text)
        self.assert_narrow(text)

    def test_configurations_of_the_simulator(self):
        for configuration in ["mode=threaded", "peers=none", "slots=1",
                              "profile=cuda", "profile=hip", "poison=full"]:
            with self.subTest(configuration):
                self.run_demo(DEVRT_MTIA=configuration)

    def test_orders_that_hardware_would_not_take(self):
        for strategy in ["asap", "alap", "lifo"] + [
                f"random,seed={seed}" for seed in range(5)]:
            with self.subTest(strategy):
                self.run_demo(DEVRT_MTIA=f"strategy={strategy}")

    def test_without_peer_access(self):
        text = self.run_tool("demo", "--size=1", DEVRT_MTIA="peers=none").stdout
        self.assertIn("mtia:0 cannot directly reach", " ".join(text.split()))
        self.assertIn("Verified", text)


class OtherBackends(ToolTest):
    """A backend need not have all that the demo uses on the simulator."""

    PLUGIN = os.path.join(os.environ["DEVRT_TEST_PLUGIN_DIR"],
                          "libdevrt_good.so")

    def test_without_kernels_pinned_memory_host_functions_and_timing(self):
        report = self.run_json("demo", "--size=1", "--backend=good",
                               DEVRT_PLUGINS=self.PLUGIN)
        self.assertTrue(report["verified"])
        self.assertEqual(report["devices"], ["good:0", "good:1"])
        self.assertEqual(report["lacks"],
                         ["kernels", "pinned_memory", "host_functions"])
        self.assertEqual(report["host_functions_run"], 0)
        self.assertEqual(report["clock"], "the host's clock")
        stages = ["copy in", "mark", "send", "mark", "copy out"]
        operations = report["operations"]
        self.assertEqual([operation["name"] for operation in operations],
                         stages * CHUNKS)
        for before, after in zip(operations, operations[1:]):
            self.assertLessEqual(before["end_ns"], after["begin_ns"])
        marks = [o for o in operations if o["name"] == "mark"]
        self.assertEqual({o["kind"] for o in marks}, {"fill"})
        # Two of three parts are marked, each by one device.
        self.assertAlmostEqual(sum(o["bytes"] for o in marks),
                               report["bytes"] * 2 / 3, delta=100)

    def test_names_the_substitutes(self):
        text = self.run_tool("demo", "--size=1", "--backend=good",
                             DEVRT_PLUGINS=self.PLUGIN).stdout
        self.assert_narrow(text)
        for words in ["in plain host memory", "fills stand in for them",
                      "mark: part 1 of 3 := 0xa0", "no host functions",
                      "each once the one before it was complete",
                      "Verified: all 262144 numbers equal what the host "
                      "computed serially."]:
            self.assertIn(words, " ".join(text.split()))

    @unittest.skipIf(os.environ.get("DEVRT_TEST_SANITIZE", "none") != "none",
                     "a sanitizer needs more addresses than the limit has")
    def test_more_than_the_host_has(self):
        result = self.run_program(
            ["bash", "-c", 'ulimit -v 4000000; exec "$@"', "bash", TOOL, "demo",
             "--backend=good", "--svg=-", f"--size={1 << 20}"],
            expect=FAILURE, DEVRT_PLUGINS=self.PLUGIN)
        self.assertIn("host memory for the data: the host has no 1099511627776 "
                      "bytes", result.stderr)

    def test_the_simulator_lacks_nothing(self):
        report = self.run_json("demo", "--size=1", "--times=host")
        self.assertEqual(report["lacks"], [])
        self.assertLessEqual(report["overlap"], 1)


class Refusals(ToolTest):

    def assert_fails(self, *texts, arguments=(), **variables):
        result = self.run_tool("demo", *arguments, expect=FAILURE, **variables)
        self.assertEqual(list(self.folder.iterdir()), [])
        self.assertTrue(result.stderr.startswith("devrt demo: "))
        for text in texts:
            self.assertIn(text, result.stderr)

    def test_more_devices_than_there_are(self):
        self.assert_fails("--devices=9", 'backend "mtia" has 2',
                          "DEVRT_MTIA=devices=9", arguments=["--devices=9"])

    def test_unknown_backend(self):
        self.assert_fails("nosuch", arguments=["--backend=nosuch"])

    def test_bad_configuration(self):
        self.assert_fails("devices", DEVRT_MTIA="devices=0")
        self.assert_fails("memory", DEVRT_MTIA="memory=-1")
        self.assert_fails("devces", "devices", DEVRT_MTIA="devces=2")

    def test_times_of_a_simulator_that_is_none(self):
        self.assert_fails('backend "good" is no simulator', "--times=events",
                          "--times=host",
                          arguments=["--backend=good", "--times=simulator"],
                          DEVRT_PLUGINS=OtherBackends.PLUGIN)

    def test_excluded_backend(self):
        self.assert_fails("DEVRT_BACKENDS", DEVRT_BACKENDS="!mtia")

    def test_too_little_memory(self):
        self.assert_fails("out of memory", arguments=["--size=64"],
                          DEVRT_MTIA="memory=8MiB")
        self.assert_fails("pinned", arguments=["--size=64"],
                          DEVRT_MTIA="pinned=8MiB")


class Terminal(ToolTest):

    def run_in_terminal(self, columns=80, **variables):
        """Returns the output of `devrt demo` on a terminal of that width."""
        try:
            controller, terminal = pty.openpty()
        except OSError as error:  # a bare root without /dev/pts
            self.skipTest(f"no pseudo-terminal: {error}")
        fcntl.ioctl(terminal, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 50, columns, 0, 0))
        printed = []

        def read():
            try:
                while data := os.read(controller, 65536):
                    printed.append(data)
            except OSError:  # the other side is closed
                pass

        reader = threading.Thread(target=read)
        reader.start()
        try:
            self.run_tool("demo", "--size=1", stdout=terminal, **variables)
        finally:
            os.close(terminal)
            reader.join()
            os.close(controller)
        return b"".join(printed).decode().replace("\r\n", "\n")

    def test_colour_in_a_terminal(self):
        text = self.run_in_terminal(TERM="xterm")
        self.assertIn("\x1b[30;", text)
        self.assertEqual(text.count("\x1b[30;"), text.count("\x1b[0m"))
        self.assert_narrow(re.sub("\x1b\\[[0-9;]*m", "", text))

    def test_no_color_and_dumb_terminals_get_no_colour(self):
        for variables in [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}]:
            self.assertNotIn("\x1b", self.run_in_terminal(**variables))

    def test_uses_the_width_there_is(self):
        for columns in [60, 80, 100]:
            text = self.run_in_terminal(columns, TERM="dumb")
            timeline = text.split("\nmtia:0\n")[1].split("\n5. ")[0]
            self.assert_narrow(timeline, columns)
            widest = max(map(len, timeline.splitlines()))
            self.assertGreater(widest, columns - 6)

    def test_unicode_in_a_unicode_locale(self):
        text = self.run_tool("demo", "--size=1").stdout
        self.assertIn("█", text)
        self.assertNotIn("\x1b", text)

    def test_ascii_elsewhere(self):
        text = self.run_tool("demo", "--size=1", LC_ALL="C").stdout
        self.assertTrue(text.isascii())
        self.assertRegex(text, r"(?m)^  copy in +1>")
        self.assert_narrow(text)


if __name__ == "__main__":
    unittest.main()
