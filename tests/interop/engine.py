# SPDX-License-Identifier: Apache-2.0
"""Cases of the interop matrix: what one is, and how one is run."""

import dataclasses
import importlib
import importlib.metadata
import random
import time
import traceback
from typing import Callable, Tuple

import peers

PASSED, FAILED, SKIPPED, DIED = "passed", "failed", "skipped", "died"


class Skip(Exception):
  """This case has nothing to show here; says why."""


@dataclasses.dataclass
class Case:
  """One cell of a table, or one scenario.

  code is that of the table: Z, H, U, C, W, A or E:NAME;
  with a slash, one of several. A case that is `alone`
  gets a process of its own; one that may end that process says so by `dies`.
  One that is `counted` runs under the trace layer, whose records it reads.
  """
  id: str
  code: str
  run: Callable  # returns None, or a note
  peers: Tuple[str, ...] = ()
  backend: str = "cpu"  # what devrt needs: cpu, mtia, cuda
  devices: int = 1
  alone: bool = False
  dies: bool = False
  counted: bool = False


class Count:
  """Variants that a case went through, for its note."""

  def __init__(self):
    self.done = 0  # skipped ones among them
    self.skipped = []
    self.failures = []

  def variant(self, name):
    return _Variant(self, name)

  def finish(self):
    if self.failures:
      shown = "; ".join(self.failures[:6])
      raise AssertionError(
          f"{len(self.failures)} of {self.done} variants: {shown}")
    ran = self.done - len(self.skipped)
    why = "; ".join(f"not {text}" for text in self.skipped)
    if not ran:
      raise Skip(f"no variant ran: {why}"[:300])
    return f"{ran} variants" + (f", {why}"[:300] if why else "")


class _Variant:
  """One variant: what it raises is kept, and the next ones run."""

  def __init__(self, count, name):
    self.count = count
    self.name = name

  def __enter__(self):
    self.count.done += 1

  def __exit__(self, kind, error, trace):
    if error is None:
      return False
    if isinstance(error, Skip):
      self.count.skipped.append(f"{self.name}: {error}")
      return True
    if not isinstance(error, Exception):
      return False
    last = traceback.extract_tb(trace)[-1]
    self.count.failures.append(
        f"{self.name}: {type(error).__name__}: {str(error)[:160]} "
        f"({last.name}:{last.lineno})")
    return True


class BrokenPeer(Exception):
  """A peer that is installed, and yet cannot be used."""


def is_installed(distribution):
  try:
    importlib.metadata.version(distribution)
  except importlib.metadata.PackageNotFoundError:
    return False
  return True


def has_peer(name, gpu):
  """None, or why the peer is not there, with a GPU if it is to have one.

  Only that none of its distributions is installed, or what it says itself by
  Absent; whatever else it raises is its failure, BrokenPeer.
  """
  peer = importlib.import_module("peers." + name)
  if peer.VERSIONS and not any(map(is_installed, peer.VERSIONS)):
    return f"no {name}: {' and '.join(peer.VERSIONS)} not installed"
  try:
    peer.load()
    if gpu and hasattr(peer, "gpu"):
      peer.gpu()
  except peers.Absent as why:
    return f"no {name}: {why}"
  except Exception as error:
    raise BrokenPeer(f"{name} is installed and cannot be used: "
                     f"{type(error).__name__}: {error}") from error
  return None


def lacks(case, machine):
  """None, or why the case cannot run."""
  if case.backend != "cpu":
    there = machine.count(case.backend)
    if there < case.devices:
      return f"needs {case.devices} devices of {case.backend}, there are {there}"
  for name in case.peers:
    reason = has_peer(name, case.backend == "cuda")
    if reason is not None:
      return reason
  return None


def run(case, machine, seed):
  """The outcome of a case as a dictionary for the result file."""
  begin = time.monotonic()
  random.seed(f"{seed} {case.id}")
  outcome, note = PASSED, None
  try:
    reason = lacks(case, machine)
    if reason is not None:
      raise Skip(reason)
    note = case.run()
  except Skip as why:
    outcome, note = SKIPPED, str(why)
  except Exception as error:
    outcome = FAILED
    note = f"{type(error).__name__}: {error}"
    traceback.print_exc()
  return {"id": case.id, "code": case.code, "outcome": outcome,
          "note": note or "", "seconds": round(time.monotonic() - begin, 3)}


def names_of(error):
  """The names of an exception's classes."""
  return [kind.__name__ for kind in type(error).__mro__]


def expect_error(name, call, *arguments):
  """The call must raise an exception of that class, or of one of several."""
  wanted = name.split("/")
  try:
    result = call(*arguments)
  except Exception as error:
    assert set(wanted) & set(names_of(error)), (
        f"raised {type(error).__name__} ({error}), expected {name}")
    return error
  raise AssertionError(f"returned {type(result).__name__}, expected {name}")
