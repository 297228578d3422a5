# SPDX-License-Identifier: Apache-2.0
"""Cases of every outcome, for matrix_test.py."""

import os
import time

from engine import Case, Count, Skip


def fails():
  raise ValueError("as it should")


def skips():
  raise Skip("nothing to show")


def counts():
  count = Count()
  for name in ("a", "b", "c"):
    with count.variant(name):
      assert name != "b", "not b"
  return count.finish()


def cases():
  yield Case("fake/a", "Z", lambda: "said")
  yield Case("fake/b", "Z", fails)
  yield Case("fake/c", "Z", os.abort)
  yield Case("fake/d", "Z", lambda: None)
  yield Case("fake/e", "Z", skips)
  yield Case("fake/f", "Z", lambda: time.sleep(60))
  yield Case("fake/g", "Z", counts)
  yield Case("fake/h", "Z", lambda: None, peers=("no_such_peer",))
  yield Case("fake/i", "Z", lambda: None, backend="cuda", devices=99)
  yield Case("fake/j", "E:x", os.abort, alone=True, dies=True)
  yield Case("fake/k", "Z", fails)
  yield Case("fake/l", "Z", lambda: None)
