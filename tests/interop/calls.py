# SPDX-License-Identifier: Apache-2.0
"""Which calls devrt makes to its backends, by the trace layer's records.

The file's layout is in layers/trace/ring_file.h, the calls' numbers are the
places of their names in backends/abi/devrt_slots.inc.
"""

import collections
import os
import pathlib
import re
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOTS = ROOT / "backends/abi/devrt_slots.inc"
LAYER = "libdevrt_layer_trace.so"
# Behind a package: in a build folder, and in a wheel.
LAYERS = ("../lib/devrt/layers", "devrt/lib/devrt/layers", "devrt/layers")

HEADER = struct.Struct("<8sIIIIIIQQQQQ")
RING = struct.Struct("<QII16s")
RECORD = struct.Struct("<6QIIi4B")

ORDERS = ("event_create", "event_record", "stream_wait_event")
WAITS = ("event_sync", "stream_sync", "device_sync")

Call = collections.namedtuple("Call", "name device stream object")


def environment(package, folder):
  """For a process whose calls are counted; nothing without the layer."""
  for place in LAYERS:
    layer = pathlib.Path(package, place, LAYER)
    if layer.exists():
      file = pathlib.Path(folder, "trace")
      file.touch()
      return {"DEVRT_LAYERS": str(layer.resolve()), "DEVRT_TRACE": str(file)}
  return {}


class Recorded:
  """The calls of all threads of this process since begin()."""

  def __init__(self):
    file = os.environ.get("DEVRT_TRACE")
    self.file = open(file, "rb") if file else None
    names = re.findall(r"^DEVRT_SLOT\((\w+)",
                       SLOTS.read_text(encoding="utf-8"), re.M)
    self.names = dict(enumerate(names))
    self.devices = {}  # of streams
    self.from_here = {}

  @property
  def is_there(self):
    return self.file is not None

  def begin(self):
    self.take()

  def take(self):
    """The calls since the last one of these."""
    header = self.read(HEADER, 0)
    rings, records, first = header[6], header[7], header[11]
    found = []
    for ring in range(rings):
      at = first + ring * (RING.size + records * RECORD.size)
      written, tid = self.read(RING, at)[:2]
      begin = self.from_here.get(ring, 0)
      self.from_here[ring] = written
      if not tid:
        continue  # operations of devices
      assert written - begin <= records, "records were overwritten"
      for i in range(begin, written):
        found.append(self.call(at + RING.size + i % records * RECORD.size))
    return found

  def call(self, at):
    record = self.read(RECORD, at)
    stream, thing, number, device = record[2], record[3], record[9], record[11]
    call = Call(self.names.get(number, "?"), device, stream, thing)
    if call.name == "stream_create":
      self.devices[thing] = device
    return call

  def read(self, form, at):
    return form.unpack(os.pread(self.file.fileno(), form.size, at))


def count(found, names):
  return sum(call.name in names for call in found)
