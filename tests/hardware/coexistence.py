#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""devrt in one process with the driver, PyTorch, CuPy and Numba.

Each sees the other's current device, guards restore exactly what was there,
streams that one made and the other adopted keep their order both ways, and
nobody empties the other's caches. Libraries that are missing are skipped.

Exit code 0: what ran passed; 1: something failed; 77: there is no CUDA device.
"""

import argparse
import ctypes
import json
import pathlib
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import coexistence_peers as peers  # noqa: E402
from coexistence_devrt import Devrt, Error  # noqa: E402

NOTHING_THERE = 77
MOST_HELD = 10  # seconds, should a call of a peer's wait for the held stream
devrt = None  # of main
loaded = {}  # peers by name: an object, or why it is missing


def peer_of(name):
    if name not in loaded:
        try:
            loaded[name] = peers.PEERS[name]()
        except peers.Missing as reason:
            loaded[name] = reason
    if isinstance(loaded[name], peers.Missing):
        raise unittest.SkipTest(str(loaded[name]))
    return loaded[name]


def in_thread(body):
    """Runs the test in a fresh thread, which no library has seen."""
    def run(self):
        raised = []

        def target():
            try:
                body(self)
            except BaseException as error:  # also a skip
                raised.append(error)

        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
        if raised:
            raise raised[0]
    return run


class Coexistence(unittest.TestCase):
    peer_name = "driver"

    def setUp(self):
        self.driver = peer_of("driver")
        self.peer = peer_of(self.peer_name)
        self.devices = range(devrt.device_count("cuda"))

    def other_than(self, index):
        return (index + 1) % len(self.devices)

    # ---- The current device

    @in_thread
    def test_they_see_our_device(self):
        for index in self.devices:
            with devrt.guard("cuda", index):
                self.assertEqual(self.peer.current(), index)

    @in_thread
    def test_we_see_their_device(self):
        for index in [*self.devices, 0]:
            self.peer.make_current(index)
            self.assertEqual(devrt.current("cuda"), index)

    @in_thread
    def test_a_guard_restores_their_context(self):
        for index in self.devices:
            self.peer.make_current(index)
            self.peer.new_array(index)  # some make a context only now
            context = self.driver.context()
            self.assertIsNotNone(context)
            with devrt.guard("cuda", self.other_than(index)):
                self.assertEqual(devrt.current("cuda"), self.other_than(index))
            self.assertEqual(self.driver.context(), context)
            self.assertEqual(self.peer.current(), index)

    # ---- Streams

    def assert_ordered(self, index, ours, theirs):
        """Both names of one stream: four steps, each needs the one before."""
        first, second = self.peer.new_array(index), self.peer.new_array(index)
        # The first call compiles or loads code, and must not do so beside a held
        # stream.
        self.peer.fill(index, theirs, first, 1)
        self.peer.copy(index, theirs, second, first)
        self.peer.synchronize(theirs)
        # Foreign memory and our own.
        far = self.peer.pointer(first)
        with devrt.block("cuda", index, peers.BYTES) as block, \
                devrt.flag("cuda", index) as gate:
            devrt.fill(ours, block, 9, peers.BYTES)
            devrt.synchronize(ours)
            begin = time.monotonic()
            devrt.wait_for_flag(gate, ours, MOST_HELD)
            try:
                self.peer.fill(index, theirs, first, 0x22)
                devrt.copy(ours, block, far, peers.BYTES)
                devrt.fill(ours, far, 0x11, peers.BYTES)
                self.peer.copy(index, theirs, second, first)
                done = devrt.query(ours)
                # A peer whose call waited for the stream cannot show it held.
                self.assertLess(time.monotonic() - begin, MOST_HELD)
                self.assertFalse(done)
            finally:
                devrt.set_flag(gate)
            self.peer.synchronize(theirs)
            self.assertTrue(devrt.query(ours))
            self.assertEqual(devrt.read(ours, block, peers.BYTES),
                             bytes([0x22]) * peers.BYTES)
            self.assertEqual(
                devrt.read(ours, self.peer.pointer(second), peers.BYTES),
                bytes([0x11]) * peers.BYTES)

    def test_we_adopt_their_stream(self):
        for index in self.devices:
            theirs = self.peer.new_stream(index)
            with devrt.adopted("cuda", index,
                               self.peer.native(theirs)) as ours:
                self.assertEqual(devrt.native(ours), self.peer.native(theirs))
                self.assert_ordered(index, ours, theirs)
            self.peer.synchronize(theirs)  # still theirs

    def test_they_adopt_our_stream(self):
        for index in self.devices:
            with devrt.stream("cuda", index) as ours:
                theirs = self.peer.adopt(devrt.native(ours), index)
                self.assert_ordered(index, ours, theirs)
                del theirs
                devrt.synchronize(ours)  # still ours

    def test_a_stream_of_another_device_is_refused(self):
        if len(self.devices) < 2:
            self.skipTest("takes two devices")
        theirs = self.peer.new_stream(1)
        with self.assertRaisesRegex(Error, "belongs to cuda:1, not to cuda:0"):
            with devrt.adopted("cuda", 0, self.peer.native(theirs)):
                pass

    # ---- Memory

    def test_their_memory_is_known(self):
        for index in self.devices:
            array = self.peer.new_array(index)
            self.assertEqual(devrt.device_of(self.peer.pointer(array)), index)

    @in_thread
    def test_memory_of_each_stays(self):
        for index in self.devices:
            arrays = [self.peer.new_array(index) for _ in range(4)]
            dropped = self.peer.new_array(index)
            del dropped  # into the peer's cache, if it has one
            held = self.peer.held_bytes(index)
            self.peer.make_current(index)
            # Both are asked for what the driver says.
            self.assertEqual(devrt.free_bytes("cuda", index),
                             self.driver.free_bytes())
            free = self.driver.free_bytes()
            size = 256 << 20 if free > 1 << 30 else 1 << 20
            for _ in range(3):
                with devrt.block("cuda", index, size), \
                        devrt.stream("cuda", index) as stream:
                    devrt.synchronize(stream)
            self.assertEqual(self.peer.held_bytes(index), held)
            # No block of ours is kept: only what a stream needs may be.
            self.assertLess(abs(self.driver.free_bytes() - free), 16 << 20)
            del arrays


class WithTorch(Coexistence):
    peer_name = "torch"


class WithCupy(Coexistence):
    peer_name = "cupy"


class WithNumba(Coexistence):
    peer_name = "numba"


class Contexts(unittest.TestCase):
    """A context that cuCtxCreate made, and a thread without a context."""

    def setUp(self):
        self.driver = peer_of("driver")
        self.devices = range(devrt.device_count("cuda"))

    def use(self, index):
        with devrt.guard("cuda", index), devrt.stream("cuda", index) as stream, \
                devrt.block("cuda", index, peers.BYTES) as block:
            devrt.fill(stream, block, 5, peers.BYTES)
            self.assertEqual(devrt.read(stream, block, peers.BYTES),
                             bytes([5]) * peers.BYTES)

    @in_thread
    def test_none_stays_none(self):
        self.assertIsNone(self.driver.context())
        for index in self.devices:
            self.use(index)
            self.assertIsNone(self.driver.context())

    @in_thread
    def test_a_foreign_context_stays(self):
        for mine in self.devices:
            context = self.driver.new_context(mine)
            for index in self.devices:
                self.use(index)
                self.assertEqual(self.driver.context(), context)
            self.assertEqual(devrt.current("cuda"), mine)
            self.driver.destroy_context(context)
            self.assertIsNone(self.driver.context())

    @in_thread
    def test_backends_nest_in_one_thread(self):
        """One program runs on each device, inside guards of both backends."""
        with devrt.guard("cuda", self.devices[-1]), devrt.guard("mtia", 1), \
                devrt.guard("cuda", 0), devrt.guard("mtia", 0):
            self.assertEqual(devrt.current("cuda"), 0)
            self.assertEqual(devrt.current("mtia"), 0)
            results = {self.program(backend, index)
                       for backend in ["cuda", "mtia"]
                       for index in range(devrt.device_count(backend))}
            self.assertEqual(len(results), 1)
        self.assertIsNone(self.driver.context())

    def program(self, backend, index):
        with devrt.stream(backend, index) as first, \
                devrt.stream(backend, index) as second, \
                devrt.block(backend, index, peers.BYTES) as source, \
                devrt.block(backend, index, peers.BYTES) as target, \
                devrt.flag(backend, index) as gate:
            devrt.wait_for_flag(gate, first, 0)
            devrt.fill(first, source, 3, peers.BYTES)
            devrt.wait_for_stream(second, first)
            devrt.copy(second, target, source, peers.BYTES)
            devrt.fill(second, target, 4, peers.BYTES // 2)
            self.assertFalse(devrt.query(second))
            devrt.set_flag(gate)
            return devrt.read(second, target, peers.BYTES)


class Result(unittest.TextTestResult):
    """Keeps one row for each test."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.rows = []

    def add(self, test, outcome, reason=""):
        name = ".".join(test.id().split(".")[-2:])
        self.rows.append({"name": name, "outcome": outcome, "reason": reason})

    def addSuccess(self, test):
        super().addSuccess(test)
        self.add(test, "passed")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.add(test, "failed", str(error[1]))

    def addError(self, test, error):
        super().addError(test, error)
        self.add(test, "failed", f"{error[0].__name__}: {error[1]}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.add(test, "skipped", reason)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", required=True, metavar="FILE",
                        help="libcoexistence.so of the build")
    parser.add_argument("--json", metavar="FILE",
                        help="also write a row for each test")
    parser.add_argument("--only", metavar="NAME", action="append",
                        help="only tests with this in their name")
    args = parser.parse_args()

    global devrt
    devrt = Devrt(ctypes.CDLL(args.library))
    if devrt.device_count("cuda") == 0:
        print(devrt.last_error(), file=sys.stderr)
        return NOTHING_THERE
    loader = unittest.TestLoader()
    if args.only:
        loader.testNamePatterns = [f"*{name}*" for name in args.only]
    suite = loader.loadTestsFromModule(sys.modules[__name__])
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=2)
    result = runner.run(suite)
    if args.json:
        pathlib.Path(args.json).write_text(
            json.dumps({"tests": result.rows}, indent=1), encoding="utf-8")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
