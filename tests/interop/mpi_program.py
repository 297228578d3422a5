# SPDX-License-Identifier: Apache-2.0
"""One rank of a case of mpi_cells.py: ACTION KIND."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

import devrt  # noqa: E402
import machine  # noqa: E402
from devrt import interop  # noqa: E402


def address(kind):
  """Address, length and format, and nothing but: no message."""
  formats = {"float32": "f", "int64": "l", "complex128": "Zd", "uint8": "B"}
  for dtype, wanted in formats.items():
    x = machine.make(kind, machine.values((6, 4), dtype))
    buffer = MPI.buffer(x)
    assert buffer.address == x.ptr, (hex(buffer.address), hex(x.ptr))
    assert buffer.nbytes == x.nbytes
    assert buffer.format in (wanted, "B"), buffer.format
    assert MPI.Get_address(x) == x.ptr
  if kind == "cuda_ro":
    try:
      MPI.COMM_SELF.Irecv(x, source=0).Cancel()
    except BufferError:
      pass
    else:
      raise AssertionError("read-only memory was taken to write into")
  try:
    MPI.buffer(machine.make(kind, machine.values((6, 4)))[:, ::2])
  except BufferError:
    return "no strided memory"
  raise AssertionError("strided memory was taken")


def with_host(kind, call, *arrays):
  """By copies on the host where the host cannot reach the memory."""
  if kind != "mtia":
    call(*arrays)
    return
  copies = [x.cpu() for x in arrays]
  call(*copies)
  for x, copy in zip(arrays, copies):
    x.copy_(copy)


def messages(kind):
  world = MPI.COMM_WORLD
  rank, ranks = world.Get_rank(), world.Get_size()

  def make(value):
    x = machine.make(kind, np.full((1000,), value, "float32"))
    x.fill(float(value))  # pending work, which ready() waits for
    return interop.ready(x)

  def check(x, value):
    got = x.numpy()
    assert (got == value).all(), (got[:4], value)

  sent, received = make(rank + 1), make(0)
  with_host(kind, world.Allreduce, sent, received)
  check(received, ranks * (ranks + 1) / 2)
  with_host(kind, lambda a, b: world.Sendrecv(
      a, dest=(rank + 1) % ranks, recvbuf=b, source=(rank - 1) % ranks),
            sent, received)
  check(received, (rank - 1) % ranks + 1)
  shared = make(7 if rank == 0 else 0)
  with_host(kind, world.Bcast, shared)
  check(shared, 7)
  return MPI.Get_library_version().split(",")[0]


def main():
  action, kind = sys.argv[1:]
  said = {"address": address, "messages": messages}[action](kind)
  place = os.environ["DEVRT_MPI_ANSWER"]
  rank = MPI.COMM_WORLD.Get_rank()
  pathlib.Path(f"{place}.{rank}").write_text(json.dumps(said or ""))
  del said
  assert devrt is not None


if __name__ == "__main__":
  main()
