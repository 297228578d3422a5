# SPDX-License-Identifier: Apache-2.0
"""Ranks that find each other by mpi4py and by PMIx, in processes of mpiexec."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest

# What each rank does.
RANK = """
import time

from mpi4py import MPI

import devrt
from devrt import collectives
from devrt._bootstraps import connect

world = MPI.COMM_WORLD
rank, size, all_gather = connect(world, None, None)
assert (rank, size) == (world.Get_rank(), world.Get_size())
for length in (0, 1, 300_000):
    mine = bytes([rank]) * length
    assert all_gather(mine, 30.0) == [bytes([r]) * length for r in range(size)]

one = collectives.init("mtia:0", bootstrap=MPI.COMM_SELF)
x = one.all_reduce(devrt.ones(3, device="mtia:0"))
assert x.tolist() == [1, 1, 1]
one.finish()

# Rank 0 gives up while the others are late: they learn why.
_, _, other = connect(world, None, None)
assert other(b"", 30.0) == [b""] * size
if rank == 0:
    other.give_up(b"why", 30.0)
world.Barrier()
if rank > 0:
    assert other(b"mine", 30.0) == [b"why"] + [b""] * (size - 1)

if rank > 0:  # rank 0 does not come to the last exchange
    began = time.monotonic()
    try:
        all_gather(b"here", 0.3)
    except TimeoutError as error:
        assert "until the deadline" in str(error)
        assert time.monotonic() - began < 5
    else:
        raise AssertionError("the exchange ended without rank 0")
    world.send("late", dest=0)
    assert world.allgather(rank) == list(range(size))  # the program's own
else:
    for other in range(1, size):
        assert world.recv(source=other) == "late"
    assert world.allgather(rank) == list(range(size))
print(f"rank {rank} is done", flush=True)
"""

# A rank without mpi4py.  Each process has a simulated machine, so that more ranks than
# one cannot meet there.
PMIX = """
import devrt
from devrt import collectives

one = collectives.init("mtia:0", bootstrap="pmix")
assert (one.rank, one.size) == (0, 1)
assert one.all_reduce(devrt.ones(3, device="mtia:0")).tolist() == [1, 1, 1]
one.finish()
print("rank 0 is done", flush=True)
"""

needs_mpiexec = pytest.mark.skipif(
    shutil.which("mpiexec") is None, reason="needs mpiexec")
needs_mpi4py = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")


def run_ranks(program, ranks):
    done = subprocess.run(
        ["mpiexec", "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
         sys.executable, "-c", program],
        env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
    assert done.returncode == 0, done.stdout
    # The launcher may mix the lines of two ranks.
    assert sorted(re.findall(r"rank \d+ is done", done.stdout)) == [
        f"rank {rank} is done" for rank in range(ranks)]


@needs_mpiexec
@needs_mpi4py
@pytest.mark.parametrize("ranks", [2, 4])
def test_mpi4py(ranks):
    run_ranks(RANK, ranks)


@needs_mpiexec
def test_pmix():
    run_ranks(PMIX, 1)
