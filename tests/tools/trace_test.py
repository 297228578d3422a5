# SPDX-License-Identifier: Apache-2.0
"""devrt trace: what is in the file, and that the program's result is its own."""

import json
import os
import signal
import unittest

from tool import FAILURE, TOOL, USAGE, ToolTest

# Does what its arguments say; trace_program.cc has a list.
PROGRAM = os.environ["DEVRT_TEST_TRACE_PROGRAM"]
DRIVER = os.environ.get("DEVRT_FAKE_DRIVER")  # the folder of a fake one

# The fields that the Trace Event Format requires of an event, by its phase.
COMMON = {"ph": str, "pid": int, "tid": int, "name": str}
PHASES = {
    "M": {"args": dict},
    "X": {"ts": (int, float), "dur": (int, float), "args": dict},
    "C": {"ts": (int, float), "args": dict},
    "s": {"ts": (int, float), "id": int, "cat": str},
    "f": {"ts": (int, float), "id": int, "cat": str, "bp": str},
}


class TraceTest(ToolTest):

    def trace(self, *program, expect=0, **variables):
        """Runs a program under devrt trace; the result and the trace."""
        output = self.folder / "trace.json"
        result = self.run_tool("trace", "-o", str(output), "--", *program,
                               expect=expect, **variables)
        if not output.exists():
            return result, None
        return result, json.loads(output.read_text(encoding="utf-8"))

    def check(self, trace, one_clock=True):
        """The events, each as the format asks."""
        self.assertEqual(trace["displayTimeUnit"], "ns")
        events = trace["traceEvents"]
        named = set()
        for event in events:
            for key, kind in {**COMMON, **PHASES[event["ph"]]}.items():
                self.assertIsInstance(event[key], kind, event)
            if event["ph"] == "M" and event["name"] == "process_name":
                named.add(event["pid"])
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0, event)
                self.assertGreaterEqual(event["ts"], 0, event)
        self.assertEqual({event["pid"] for event in events}, named)
        self.check_arrows(events, one_clock)
        return events

    def check_arrows(self, events, one_clock=True):
        """Each lies on slices; by one clock it ends no earlier than it began."""
        starts = {e["id"]: e for e in events if e["ph"] == "s"}
        ends = {e["id"]: e for e in events if e["ph"] == "f"}
        self.assertEqual(starts.keys(), ends.keys())
        for number, start in starts.items():
            if one_clock:
                self.assertLessEqual(start["ts"], ends[number]["ts"])
            for end in (start, ends[number]):
                self.assertTrue(any(
                    e["ph"] == "X" and e["pid"] == end["pid"] and
                    e["tid"] == end["tid"] and
                    e["ts"] <= end["ts"] <= e["ts"] + e["dur"]
                    for e in events), end)
        return len(starts)

    def slices(self, events, process):
        pids = {e["pid"] for e in events
                if e["ph"] == "M" and e["name"] == "process_name" and
                e["args"]["name"].startswith(process)}
        return [e for e in events if e["ph"] == "X" and e["pid"] in pids]

    def demo(self, one_clock=True, **variables):
        result, trace = self.trace(TOOL, "demo", "--json", "--size=1",
                                   **variables)
        return (json.loads(result.stdout), self.check(trace, one_clock),
                result)

    def test_demo_is_traced_with_its_times(self):
        report, events, result = self.demo()
        self.assertTrue(report["verified"])
        self.assertIn("arrows in", result.stderr)
        host = self.slices(events, "host: ")
        self.assertIn("launch.launch square", {e["name"] for e in host})
        self.assertTrue(any("pipeline.cc:" in e["args"].get("at", "")
                            for e in host))
        device = [e for i in range(2) for e in self.slices(events, f"mtia:{i}")]
        # The demo's own timeline knows the same operations, at the same times.
        kernels = sorted(e["dur"] for e in device if e["name"] == "square")
        self.assertEqual(kernels, sorted(
            (o["end_ns"] - o["begin_ns"]) / 1000
            for o in report["operations"] if "square" in o["name"]))
        self.assertGreater(self.check_arrows(events), 20)
        self.assertEqual({e["name"] for e in events if e["ph"] == "C"},
                         {"memory mtia:0", "memory mtia:1"})

    def test_times_of_events(self):
        # Each device's events have a clock of their own.
        report, events, _ = self.demo(one_clock=False,
                                      DEVRT_TRACE_TIMES="events")
        self.assertTrue(report["verified"])
        device = self.slices(events, "mtia:0") + self.slices(events, "mtia:1")
        self.assertEqual(len(device), len(report["operations"]))
        self.assertGreater(self.check_arrows(events, one_clock=False), 20)

    def submissions(self, events):
        """Pairs of slices: a call, and an operation that it submitted."""
        def slice_at(end):
            return max((e for e in events if e["ph"] == "X" and
                        e["pid"] == end["pid"] and e["tid"] == end["tid"] and
                        e["ts"] <= end["ts"] <= e["ts"] + e["dur"]),
                       key=lambda e: e["ts"])
        flows = [e for e in events if e.get("cat") == "submit"]
        starts = {e["id"]: e for e in flows if e["ph"] == "s"}
        return [(slice_at(starts[e["id"]]), slice_at(e))
                for e in flows if e["ph"] == "f"]

    def test_calls_lead_to_their_operations(self):
        """Each operation, on one clock with the call that submitted it."""
        kinds = {"scale": "launch.launch scale", "record": "event_record",
                 "copy H2D": "copy_async", "copy P2P": "copy_peer_async",
                 "copy D2H": "copy_async", "host function": "host_func",
                 "fill": "fill_async"}
        for variables in [{}, {"DEVRT_MTIA": "mode=threaded"},
                          {"DEVRT_TRACE_TIMES": "events"}]:
            with self.subTest(**variables):
                _, events, _ = self.demo(
                    one_clock="DEVRT_TRACE_TIMES" not in variables, **variables)
                operations = [e for i in range(2)
                              for e in self.slices(events, f"mtia:{i}")]
                pairs = self.submissions(events)
                self.assertEqual(len(pairs), len(operations))
                self.assertEqual(
                    len({(o["tid"], o["ts"], o["name"]) for _, o in pairs}),
                    len({(o["tid"], o["ts"], o["name"]) for o in operations}))
                for call, operation in pairs:
                    self.assertLessEqual(call["ts"], operation["ts"])
                    self.assertEqual(kinds.get(operation["name"], call["name"]),
                                     call["name"])
                    self.assertEqual(call["args"]["at"],
                                     operation["args"]["at"])

    def test_the_host_lies_above_its_devices(self):
        _, events, _ = self.demo()
        names = {e["pid"]: e["args"]["name"] for e in events
                 if e["name"] == "process_name"}
        order = {names[e["pid"]]: e["args"]["sort_index"] for e in events
                 if e["name"] == "process_sort_index"}
        host, first, second = sorted(order, key=order.get)
        self.assertTrue(host.startswith("host: "), host)
        for name in (host, first, second):
            self.assertIn("mtia's virtual time", name)
        self.assertTrue(first.startswith("mtia:0"), first)
        self.assertTrue(second.startswith("mtia:1"), second)

    def test_names_not_addresses(self):
        for variables in [{}, {"DEVRT_TRACE_TIMES": "events"}]:
            with self.subTest(**variables):
                _, trace = self.trace(PROGRAM, "streams", **variables)
                events = self.check(trace)
                tracks = {e["tid"]: e["args"]["name"] for e in events
                          if e["name"] == "thread_name"}
                fills = [(c["args"]["stream"], tracks[o["tid"]])
                         for c, o in self.submissions(events)
                         if c["name"] == "fill_async"]
                # The program's numbers, of which an adopted stream has its own.
                expected = ["stream 1", "stream 2", "default stream",
                            "per-thread default stream 3",
                            "per-thread default stream 4", "stream 5"]
                self.assertEqual(sorted(fills), sorted(
                    (f"{name} of mtia:0", name) for name in expected))
                calls = {e["name"]: e["args"]
                         for e in self.slices(events, "host: ")}
                self.assertEqual(calls["event_record"]["event"], "event 1")
                self.assertEqual(calls["stream_wait_event"]["event"],
                                 "event 1")
                self.assertEqual(calls["device_sync"]["device"], "mtia:0")
                for name, arguments in calls.items():
                    for key, value in arguments.items():
                        if key != "memory":
                            self.assertNotIn("0x", str(value), name)

    def test_a_clock_that_is_set_back(self):
        """Calls do not overlap where the simulator's time begins anew."""
        for mode in ["virtual", "threaded"]:
            with self.subTest(mode):
                _, trace = self.trace(PROGRAM, "reset", "3",
                                      DEVRT_MTIA=f"mode={mode}")
                events = self.check(trace)
                calls = sorted(self.slices(events, "host: "),
                               key=lambda e: e["ts"])
                for before, after in zip(calls, calls[1:]):
                    self.assertLessEqual(before["ts"] + before["dur"],
                                         after["ts"] + 0.001)
                fills = [pair for pair in self.submissions(events)
                         if pair[0]["name"] == "fill_async"]
                self.assertEqual(len(fills), 60)
                for call, fill in fills:
                    self.assertLessEqual(call["ts"], fill["ts"])

    @unittest.skipIf(DRIVER is None, "the backend for CUDA is not built")
    def test_a_question_is_no_operation(self):
        """A call that asks or sets a mode for captures is no operation."""
        _, trace = self.trace(PROGRAM, "cached", "5", "cuda:0",
                              LD_LIBRARY_PATH=DRIVER)
        events = self.check(trace, one_clock=False)
        calls = {e["name"] for e in self.slices(events, "host: ")}
        self.assertIn("capture.exchange_thread_mode", calls)
        operations = [e["name"] for e in self.slices(events, "cuda:0")]
        self.assertEqual(operations, 5 * ["fill_async"])

    def test_errors_by_name(self):
        _, trace = self.trace(TOOL, "demo", "--size=64", expect=FAILURE,
                              DEVRT_MTIA="memory=8MiB")
        errors = {e["args"].get("error")
                  for e in self.slices(self.check(trace), "host: ")}
        self.assertIn("RESOURCE_EXHAUSTED", errors)

    def test_idle_time_is_no_work(self):
        # By one clock, the simulated one: 100 fills of another stream pass
        # between two of the first.
        _, trace = self.trace(PROGRAM, "idle", "100",
                              DEVRT_TRACE_TIMES="events")
        fills = self.slices(self.check(trace), "mtia:0")
        first, last = [f for f in fills
                       if f["tid"] == min(f["tid"] for f in fills)]
        others = [f for f in fills if f["tid"] != first["tid"]]
        self.assertEqual(len(others), 100)
        self.assertGreater(first["dur"], 0)
        self.assertLess(last["dur"], 2 * first["dur"])
        self.assertGreaterEqual(last["ts"],
                                max(f["ts"] + f["dur"] for f in others))

    def test_rings_of_ended_threads_are_used_again(self):
        for threads in [200, 600]:
            _, trace = self.trace(PROGRAM, "threads", str(threads))
            other = trace["otherData"]
            fills = [e for e in self.slices(self.check(trace), "host: ")
                     if e["name"] == "fill_async"]
            self.assertEqual(other["lost"], 0)
            self.assertEqual(len(fills) + other["overwritten"], threads)
            # Kept as long as there is room: for the main thread and the
            # simulator, and 254 others.
            self.assertEqual(len(fills), min(threads, 254))

    def test_operations_under_way_are_bounded(self):
        result, trace = self.trace(
            PROGRAM, "under_way", "3000", DEVRT_TRACE_TIMES="events",
            DEVRT_MTIA="mode=threaded")
        self.assertEqual(len(self.slices(self.check(trace), "mtia:0")), 1024)
        lost = 1 + 3000 - 1024  # the host function and the first fills
        self.assertEqual(trace["otherData"]["lost"], lost)
        self.assertIn(f"lost: {lost} operations with more than", result.stderr)

    def test_threaded_demo_is_traced(self):
        self.demo(DEVRT_MTIA="mode=threaded")

    def test_the_exit_code_is_the_programs(self):
        result, trace = self.trace("sh", "-c", "echo out; exit 3", expect=3)
        self.assertEqual(result.stdout, "out\n")
        self.assertIn("opened no devrt backend", result.stderr)
        self.assertIsNone(trace)
        self.trace("sh", "-c", "kill -9 $$", expect=128 + 9)
        for program, code in {"/nowhere/program": 127, "/dev/null": 126}.items():
            result, trace = self.trace(program, expect=code)
            self.assertIn(f"{program} cannot be run", result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1)
            self.assertIsNone(trace)

    def test_a_program_that_crashes(self):
        _, trace = self.trace(PROGRAM, "crash", "50", expect=128 + 6)
        events = self.check(trace)
        self.assertEqual(len(self.slices(events, "mtia:0")), 50)
        self.assertGreater(len(self.slices(events, "host: ")), 50)

    @unittest.skipIf("thread" in os.environ.get("DEVRT_TEST_SANITIZE", ""),
                     "ThreadSanitizer keeps signals from who waits for a process")
    def test_signals_to_the_command_are_for_the_program(self):
        # Under nohup programs are born deaf to it.
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        for number in [signal.SIGTERM, signal.SIGHUP]:
            with self.subTest(number):
                output = self.folder / "trace.json"
                tracer = self.start_tool("trace", "-o", str(output), "--",
                                         PROGRAM, "wait", "50")
                program = int(tracer.stdout.readline())
                tracer.send_signal(number)
                _, error = tracer.communicate(timeout=20)
                self.assertEqual(tracer.returncode, 128 + number, error)
                self.assertFalse(os.path.exists(f"/proc/{program}"))
                trace = json.loads(output.read_text(encoding="utf-8"))
                self.assertEqual(
                    len(self.slices(self.check(trace), "mtia:0")), 50)

    def test_only_one_process(self):
        script = f'for i in 1 2; do "{TOOL}" list >/dev/null; done'
        result, trace = self.trace("sh", "-c", script)
        self.assertIn("1 others used devrt too", result.stderr)
        self.check(trace)

    def test_a_file_that_cannot_be_written(self):
        result = self.run_tool("trace", "-o", "/nowhere/t.json", "--", "sh",
                               "-c", "echo ran", expect=FAILURE)
        self.assertEqual(result.stdout, "")
        self.assertIn("/nowhere/t.json cannot be written", result.stderr)

    def test_trace_is_written_to_pipes(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        result = self.run_tool("trace", "-o", str(pipe), "--", "sh", "-c",
                               "echo ran", expect=FAILURE)
        self.assertEqual(result.stdout, "")
        self.assertIn("it is a pipe that nobody reads", result.stderr)
        result = self.run_tool("trace", f"--from={pipe}", expect=FAILURE)
        self.assertIn("it is not a file of the trace layer", result.stderr)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.run_tool("trace", "-o", str(pipe), "--", PROGRAM, "idle")
        self.check(json.loads(os.read(reader, 1 << 16)))
        result = self.run_tool("trace", "-o", "/dev/stdout", "--", PROGRAM,
                               "idle")
        self.check(json.loads(result.stdout))

    def test_a_full_disk(self):
        result = self.run_tool("trace", "-o", "/dev/full", "--", TOOL, "list",
                               expect=FAILURE)
        self.assertIn("mtia", result.stdout)
        self.assertIn("/dev/full could not be written: No space left",
                      result.stderr)

    def test_what_was_there_stays(self):
        """Where no trace can be written, the file is as it was."""
        old, new = self.folder / "old.json", self.folder / "new.json"
        old.write_text("old", encoding="utf-8")
        ring = self.folder / "ring"
        self.run_program([PROGRAM, "idle"], DEVRT_LAYERS="trace",
                         DEVRT_TRACE=str(ring))
        failing = {
            "no backend": ["--", "true"],
            "no program": ["--", "/nowhere/program"],
            "no ring file": [f"--from={__file__}"],
        }
        tool = [TOOL, "trace"]
        small = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *tool]
        for name, words in {**failing, "no room": [f"--from={ring}"]}.items():
            for file in [old, new]:
                with self.subTest(name, file=file.name):
                    result = self.run_program(
                        [*(small if name == "no room" else tool), "-o",
                         str(file), *words], expect=None)
                    self.assertNotEqual(result.returncode, 0)
                    self.assertIn("devrt trace: ", result.stderr)
                    self.assertEqual(old.read_text(encoding="utf-8"), "old")
                    self.assertFalse(new.exists())
        result = self.run_tool("trace", f"--from={ring}", "-o", str(ring),
                               expect=FAILURE)
        self.assertIn("is the ring file itself", result.stderr)
        self.run_tool("trace", f"--from={ring}", "-o", str(new))

    def test_ring_files(self):
        ring = self.folder / "ring"
        self.run_tool("list", DEVRT_LAYERS="trace", DEVRT_TRACE=str(ring))
        output = self.folder / "ring.json"
        self.run_tool("trace", f"--from={ring}", f"--output={output}")
        self.check(json.loads(output.read_text(encoding="utf-8")))
        for bad in ["/dev/null", str(output), str(self.folder)]:
            with self.subTest(bad):
                result = self.run_tool("trace", f"--from={bad}",
                                       f"--output={output}", expect=FAILURE)
                self.assertIn("devrt trace: ", result.stderr)

    def test_ring_files_of_others(self):
        ring = self.folder / "ring"
        variables = {"DEVRT_LAYERS": "trace", "DEVRT_TRACE": str(ring)}
        first = self.start_program([PROGRAM, "wait"], **variables)
        number = first.stdout.readline().strip()
        other = self.run_tool("list", **variables)
        self.assertIn(f"{ring}: process {number} writes its trace there",
                      other.stderr)
        first.kill()
        first.communicate()
        other = self.run_tool("list", **variables)
        self.assertIn(f"{ring}: it holds the trace of process {number}, which "
                      "has ended", other.stderr)
        self.assertIn("remove the file", other.stderr)
        ring.unlink()
        self.assertEqual(self.run_tool("list", **variables).stderr, "")

    def test_a_ring_file_that_cannot_be_had(self):
        plain = self.run_tool("list", "--json").stdout
        for bad in ["/nowhere/ring", "/dev/null", __file__]:
            with self.subTest(bad):
                result = self.run_tool("list", "--json", DEVRT_LAYERS="trace",
                                       DEVRT_TRACE=bad)
                self.assertIn("no trace: ", result.stderr)
                self.assertEqual(json.loads(result.stdout)["backends"],
                                 json.loads(plain)["backends"])

    def test_a_limit_for_the_size_of_files(self):
        ring = self.folder / "ring"
        command = f'ulimit -f 64; exec "{TOOL}" list'
        result = self.run_program(["sh", "-c", command], DEVRT_LAYERS="trace",
                                  DEVRT_TRACE=str(ring))
        self.assertIn("mtia", result.stdout)
        self.assertRegex(result.stderr, "no trace: .*ulimit -f")
        self.assertEqual(ring.stat().st_size, 0)
        result = self.run_tool("trace", "--", "sh", "-c", command,
                               expect=FAILURE)
        self.assertRegex(result.stderr, "no trace: .*ulimit -f")

    def on_a_small_disk(self, size):
        """Traces more calls than fit on a disk of that size."""
        disk = self.folder / "disk"
        disk.mkdir()
        # A name space of its own: nothing is left mounted.
        mount = ["unshare", "-m", "sh", "-c",
                 f'mount -t tmpfs -o size={size} none "{disk}" || exit 77\n'
                 f'"{PROGRAM}" idle 20000 || exit\n'
                 f'"{TOOL}" trace --from="{disk}/ring" -o trace.json']
        try:
            self.run_program(["unshare", "-m", "true"])
        except (OSError, AssertionError):
            self.skipTest("only who may mount can make a small disk")
        result = self.run_program(mount, DEVRT_LAYERS="trace",
                                  DEVRT_TRACE=str(disk / "ring"), expect=None)
        return result

    def test_a_full_disk_under_the_rings(self):
        result = self.on_a_small_disk("1500k")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"lost: \d+ records for which there "
                         "was no room on the disk")
        trace = json.loads((self.folder / "trace.json").read_text("utf-8"))
        self.assertGreater(trace["otherData"]["lost"], 0)

    def test_a_disk_that_is_full_from_the_start(self):
        result = self.on_a_small_disk("512k")
        self.assertEqual(result.returncode, FAILURE, result.stderr)
        self.assertIn("no trace: ", result.stderr)
        self.assertIn("no room for it on the disk", result.stderr)

    def test_wrong_usage(self):
        self.run_tool("trace", expect=USAGE)
        self.run_tool("trace", "--from=x", "--", "ls", expect=USAGE)


if __name__ == "__main__":
    unittest.main()
