# SPDX-License-Identifier: Apache-2.0
"""The page of devrt memory in a browser: pointer, clicks, zoom, keys."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import memory_snapshots
from tool import ToolTest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
# As a user acts on the page, then what there is to be seen.
HELPERS = """
function point(what, type, x, y) {
  const node = typeof what === "string" ? document.querySelector(what) : what;
  const box = node.getBoundingClientRect();
  const at = {bubbles: true, clientX: box.left + box.width * x,
              clientY: box.top + box.height * y};
  node.dispatchEvent(type === "click" ? new MouseEvent(type, at)
                                      : new PointerEvent(type, at));
}
function hover(what, x = 0.5, y = 0.5) { point(what, "pointermove", x, y); }
function click(what, x = 0.5, y = 0.5) {
  for (const type of ["pointerdown", "pointerup", "click"]) {
    point(what, type, x, y);
  }
}
function drag(what, from, to) {
  point(what, "pointerdown", from, 0.5);
  point(what, "pointermove", to, 0.5);
  point(what, "pointerup", to, 0.5);
}
function press(what, key) {
  document.querySelector(what).dispatchEvent(
    new KeyboardEvent("keydown", {key, bubbles: true}));
}
function text(what) {
  const node = document.querySelector(what);
  return node && !node.hidden ? node.innerText : null;
}
function events() { return parseInt(text("#event-count").replace(",", "")); }
"""
# Before all scripts of the page, so that none of their errors is missed.
SEEN = """const seen = [];
window.addEventListener("error", e => seen.push("error: " + e.message));"""
LOADED = """new Promise(loaded => document.readyState === "complete" ?
  loaded() : window.addEventListener("load", () => loaded()))"""


class Browser:
    """One browser for all pages, since its start takes longer than a page does.

    The DevTools protocol makes it read commands from file 3 and answer in
    file 4."""

    def __init__(self, profile):
        commands, self.commands = os.pipe()
        answers, to_answer = os.pipe()
        self.answers = open(answers, "rb")
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{to_answer}', "bash",
             BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--remote-debugging-pipe",
             f"--user-data-dir={profile}"],
            pass_fds=(commands, to_answer), stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(to_answer)
        self.count = 0

    def answer(self):
        text = b""
        while not text.endswith(b"\0"):
            read = self.answers.read(1)
            if not read:
                raise EOFError("the browser has ended")
            text += read
        return json.loads(text[:-1])

    def call(self, method, session=None, **parameters):
        self.count += 1
        command = {"id": self.count, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while (answer := self.answer()).get("id") != self.count:
            pass  # an event
        return answer["result"]

    def evaluate(self, session, expression):
        result = self.call("Runtime.evaluate", session, expression=expression,
                           awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def close(self):
        self.call("Browser.close")
        self.process.wait()
        os.close(self.commands)
        self.answers.close()


class MemoryPage(ToolTest):

    @classmethod
    def setUpClass(cls):
        profile = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, profile, ignore_errors=True)
        cls.browser = Browser(profile)
        cls.addClassCleanup(cls.browser.close)

    def see(self, snapshot, *steps, width=1280):
        """Returns the result of each step, which is JavaScript."""
        (self.folder / "run.json").write_text(json.dumps(snapshot),
                                              encoding="utf-8")
        self.run_tool("memory", "run.json", "-o", "run.html")
        target = self.browser.call("Target.createTarget", url="about:blank")
        session = self.browser.call("Target.attachToTarget", flatten=True,
                                    **target)["sessionId"]
        self.browser.call("Emulation.setDeviceMetricsOverride", session,
                          width=width, height=900, deviceScaleFactor=1,
                          mobile=False)
        self.browser.call("Page.enable", session)
        self.browser.call("Page.addScriptToEvaluateOnNewDocument", session,
                          source=SEEN)
        self.browser.call("Page.navigate", session,
                          url=(self.folder / "run.html").as_uri())
        self.browser.evaluate(session, LOADED)
        values = self.browser.evaluate(session, (
            "(() => {" + HELPERS +
            "".join(f"seen.push((() => {{ {step} }})());\n" for step in steps) +
            "return seen; })()"))
        self.browser.call("Target.closeTarget", **target)
        self.assertEqual(len(values), len(steps), values)
        return values

    def test_a_block_under_the_pointer_and_chosen(self):
        block = '#map g[data-g=\\"1\\"] rect[data-p]'
        tip, gone, panel, strip, marked, closed = self.see(
            memory_snapshots.training(steps=1, layers=2),
            f'hover("{block}"); return text("#tip")',
            'point("#map", "pointerleave", 0, 0); return text("#tip")',
            f'click("{block}"); return text("#block")',
            'return text("#segment h3")',
            'return document.querySelectorAll("#map .chosen").length',
            'document.querySelector("#block .close").click(); '
            'return [text("#block"), '
            'document.querySelectorAll("#map .chosen").length]')
        for text in (tip, panel):
            for part in ("layers.cc:91", "12 KiB", "from 7 us to the end",
                         "start of the segment", "0x7f2a06200000"):
                self.assertIn(part, text)
        self.assertIsNone(gone)
        self.assertIn("/src/model/layers.cc:91", panel)
        self.assertIn("2 MiB segment at 0x7f2a06200000", strip)
        self.assertEqual(marked, 1)
        self.assertEqual(closed, ["", 0])

    def test_from_neighbour_to_neighbour(self):
        first, second = self.see(
            memory_snapshots.training(steps=1, layers=2),
            'click(\'#map g[data-g="1"] rect[data-p]\'); '
            'return text("#block h3")',
            'document.querySelectorAll("#block .link")[0].click(); '
            'return text("#block h3")')
        self.assertEqual(first, "layers.cc:91, 12 KiB")
        self.assertEqual(second, "layers.cc:91, 12.5 KiB")

    def test_zoom_shows_fewer_events(self):
        everything, dragged, out, keys, back = self.see(
            memory_snapshots.training(),
            'return events()', 'drag("#chart", 0.4, 0.5); return events()',
            'document.querySelector("[data-zoom=out]").click(); '
            'return events()',
            'for (const key of "+++") press("#chart", key); return events()',
            'press("#chart", "0"); return events()')
        self.assertEqual(everything, back)
        self.assertLess(dragged, everything / 5)
        self.assertGreater(dragged, 10)
        self.assertLess(dragged, out)
        self.assertLess(keys, dragged)

    def test_a_moment_of_the_chart_and_its_blocks(self):
        tip, list_, chosen, only = self.see(
            memory_snapshots.training(steps=1, layers=4),
            'hover("#chart", 0.5, 0.8); return text("#tip")',
            'click("#chart", 0.5, 0.8); return text("#block")',
            'document.querySelector("#block .link").click(); '
            'return text("#block h3")',
            'document.querySelector("#only-block").click(); return events()')
        self.assertRegex(tip, r"in use .* GiB")
        self.assertRegex(tip, r"adam\.cc:40 768 MiB")
        self.assertIn("Blocks of adam.cc:40", list_)
        self.assertEqual(list_.count("adam.cc:40: 192 MiB"), 4)
        self.assertEqual(chosen, "adam.cc:40, 192 MiB")
        self.assertEqual(only, 1)

    def test_events_as_a_list(self):
        count, rows, text, chosen, last = self.see(
            memory_snapshots.training(),
            'return events()',
            'return document.querySelectorAll(".event").length',
            'return text("#events")',
            'click(".event[role=button]"); return text("#block h3")',
            'const list = document.querySelector("#events"); '
            'list.scrollTop = 1e9; list.dispatchEvent(new Event("scroll")); '
            'return [...document.querySelectorAll(".event")].pop().innerText')
        self.assertEqual(count, 2200)
        self.assertLess(rows, 60)  # only those that can be seen
        for part in ("segment alloc", "96 MiB", "layers.cc:88",
                     "0x7f2a00000000"):
            self.assertIn(part, text)
        self.assertEqual(chosen, "layers.cc:88, 96 MiB")
        self.assertIn("free completed", last)

    def test_a_spike_is_drawn(self):
        """One microsecond in ten seconds is as wide as a pixel and as high as
        it was."""
        run = memory_snapshots.Run()
        run.allocate(2 << 20, ("base.cc", 1))
        run.now += 5_000_000
        held = run.allocate(700 << 20, ("spike.cc", 2))
        run.now -= 6
        run.free(held)
        run.now += 5_000_000
        run.allocate(2 << 20, ("base.cc", 1))
        box, = self.see(run.snapshot(),
                        'const b = document.querySelector("#chart path.o0")'
                        '.getBoundingClientRect(); return [b.width, b.height]')
        self.assertGreater(box[1], 200)

    def test_narrow_and_empty_pages(self):
        for kind in ("empty", "no_history", "dropped"):
            with self.subTest(kind):
                over, = self.see(
                    memory_snapshots.KINDS[kind](),
                    "return document.documentElement.scrollWidth - innerWidth",
                    width=400)
                self.assertLessEqual(over, 0)


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: there is no browser (Debian: chromium)")
        sys.exit(77)
    unittest.main()
