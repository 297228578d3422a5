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
          "i": "skipped", "j": "passed", "k": "deviates", "l": "failed"}
SAID = {"b": "ValueError: as it should", "c": "signal 6",
        "f": "no end in time", "g": "1 of 3 variants: b: ", "j": "signal 6",
        "l": "deviations.json", "h": "no no_such_peer", "i": "needs 99 devices"}


def main():
  python, package, reason = run_matrix.find()
  if reason is not None:
    return run_matrix.skip(reason)
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
  assert "3 passed, 5 failed, 1 deviates, 3 skipped" in ended.stdout, ended.stdout
  return 0


if __name__ == "__main__":
  sys.exit(main())
