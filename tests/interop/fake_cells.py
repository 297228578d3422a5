# SPDX-License-Identifier: Apache-2.0
"""Cases of every outcome, for matrix_test.py."""

import os
import sys
import time
import types

from engine import Case, Count, Skip
from peers import Absent


def fake_peer(name, distributions, error):
  """A module peers.NAME that raises that when it is loaded."""
  module = types.ModuleType("peers." + name)
  module.VERSIONS = distributions

  def load():
    raise error

  module.load = load
  sys.modules[module.__name__] = module


fake_peer("not_installed", ("no-such-distribution",), ImportError("unseen"))
fake_peer("without_gpu", ("numpy",), Absent("there is no GPU"))
fake_peer("broken", ("no-such-distribution", "numpy"), ImportError("undefined"))


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


def skips_some(names):
  count = Count()
  for name in ("a", "b", "c"):
    with count.variant(name):
      if name in names:
        raise Skip("not here")
  return count.finish()


def cases():
  yield Case("fake/a", "Z", lambda: "said")
  yield Case("fake/b", "Z", fails)
  yield Case("fake/c", "Z", os.abort)
  yield Case("fake/d", "Z", lambda: None)
  yield Case("fake/e", "Z", skips)
  yield Case("fake/f", "Z", lambda: time.sleep(60))
  yield Case("fake/g", "Z", counts)
  yield Case("fake/h", "Z", lambda: None, peers=("not_installed",))
  yield Case("fake/i", "Z", lambda: None, backend="cuda", devices=99)
  yield Case("fake/j", "E:x", os.abort, alone=True, dies=True)
  yield Case("fake/k", "Z", fails)
  yield Case("fake/l", "Z", lambda: None)
  yield Case("fake/m", "Z", lambda: None, peers=("broken",))
  yield Case("fake/n", "Z", lambda: None, peers=("without_gpu",))
  yield Case("fake/o", "Z", lambda: skips_some("b"))
  yield Case("fake/q", "E:x", lambda: time.sleep(60), alone=True, dies=True)
  yield Case("fake/p", "Z", lambda: skips_some("abc"))
