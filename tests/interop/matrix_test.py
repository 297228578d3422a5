#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""matrix.py itself: what ends a process or never ends costs only itself."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run_matrix  # noqa: E402

KNOWN = {"fake/k": {"why": "it fails, and this says why it does"},
         "fake/l": {"why": "it does not fail, and this says it did"}}
WANTED = {"a": "passed", "b": "failed", "c": "failed", "d": "passed",
          "e": "skipped", "f": "failed", "g": "failed", "h": "skipped",
          "i": "skipped", "j": "passed", "k": "deviates", "l": "failed",
          "m": "failed", "n": "skipped", "o": "passed", "p": "skipped",
          "q": "failed"}
SAID = {"b": "ValueError: as it should", "c": "signal 6",
        "f": "no end in time", "g": "1 of 3 variants: b: ", "j": "signal 6",
        "l": "deviations.json", "i": "needs 99 devices",
        "h": "no-such-distribution not installed",
        "m": "BrokenPeer: broken is installed and cannot be used: ImportError",
        "n": "no without_gpu: there is no GPU",
        "o": "2 variants, not b: not here",
        "p": "no variant ran: not a: not here", "q": "no end in time"}


# Host protocols answer for every kind of memory, if only by an error.
ROWS = ("cuda", "pinned", "mtia_pinned", "mtia", "cpu")
COLUMNS = ("numpy", "numpy_cpu", "numpy_asarray", "numpy_buffer", "devrt")


def check_table(python, package):
  listed = subprocess.run(
      [python, str(run_matrix.MATRIX), "--package", str(package), "--list"],
      check=True, text=True, stdout=subprocess.PIPE).stdout.split()
  lost = {f"producer/{row}/{column}" for row in ROWS for column in COLUMNS}
  assert not lost - set(listed), lost - set(listed)


def main():
  python, package, reason = run_matrix.find()
  if reason is not None:
    return run_matrix.skip(reason)
  check_table(python, package)
  with tempfile.TemporaryDirectory(prefix="matrix.") as folder:
    known = pathlib.Path(folder) / "known.json"
    known.write_text(json.dumps(KNOWN), encoding="utf-8")
    answer = pathlib.Path(folder) / "answer.json"
    ended = subprocess.run(
        [python, str(run_matrix.MATRIX), "--package", str(package),
         "--modules", "fake_cells", "--limit", "5", "--deviations", str(known),
         "--json", str(answer), "--log", os.devnull],
        text=True, stdout=subprocess.PIPE)
    assert ended.returncode == 1, ended
    cases = json.loads(answer.read_text(encoding="utf-8"))["cases"]
  found = {case["id"].split("/")[1]: case for case in cases}
  outcomes = {name: case["outcome"] for name, case in found.items()}
  assert outcomes == WANTED, outcomes
  for name, text in SAID.items():
    assert text in found[name]["note"], found[name]
  assert "4 passed, 7 failed, 1 deviates, 5 skipped" in ended.stdout, ended.stdout
  return 0


if __name__ == "__main__":
  sys.exit(main())
