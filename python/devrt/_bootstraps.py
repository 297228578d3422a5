# SPDX-License-Identifier: Apache-2.0
"""How ranks exchange bytes, by what a Python program has: MPI, a store, a function.

And what a launcher's variables say of the rank and its device.
"""

from __future__ import annotations

import datetime
import importlib
import importlib.util
import os
import time
from array import array
from typing import Any, Callable, List, Optional, Tuple, Union

from . import _core
from ._core import Device, Error, InvalidArgumentError

AllGather = Callable[[bytes, float], List[bytes]]
Connection = Tuple[int, int, AllGather]

_LONGEST = 10.0**9  # seconds; a timedelta cannot be infinite

# Where launchers say which rank a process is, and how many there are.
_PLACES = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
]
# Where they say which of its machine's ranks it is.
LOCAL_RANKS = [
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
]


def connect(bootstrap: Any, rank: Optional[int], size: Optional[int]) -> Connection:
    """Returns this rank, the number of ranks, and the function that connects them."""
    if bootstrap == "auto":
        return _automatic(rank, size)
    if hasattr(bootstrap, "Get_rank") and hasattr(bootstrap, "Iallgatherv"):
        return bootstrap.Get_rank(), bootstrap.Get_size(), _OverMpi(bootstrap)
    if hasattr(bootstrap, "set") and hasattr(bootstrap, "wait"):
        return (*place(rank, size), _OverStore(bootstrap, *place(rank, size)))
    if callable(bootstrap):
        return (*place(rank, size), bootstrap)
    raise TypeError(
        "bootstrap must be 'auto', 'pmix', a folder, an mpi4py communicator, a Store of "
        f"torch.distributed or a function, not {type(bootstrap).__name__}"
    )


def place(rank: Optional[int], size: Optional[int]) -> Tuple[int, int]:
    """Returns the rank and the number of ranks, by the launcher's variables if None."""
    if rank is not None and size is not None:
        return rank, size
    for of_rank, of_size in _PLACES:
        if of_rank in os.environ and of_size in os.environ:
            found = _number(of_rank), _number(of_size)
            return found[0] if rank is None else rank, found[1] if size is None else size
    raise InvalidArgumentError(
        "rank and size are not known: pass both, or set RANK and WORLD_SIZE"
    )


def device_here(
    device: Union[Device, str, int, None], shared_device: bool
) -> Union[Device, str, int, None]:
    """Returns the device that the launcher's local rank chooses, or `device`.

    A launcher chooses if `device` is None or the name of a backend.  It chooses the only
    device that the process sees, or that with the number of the local rank.  With
    shared_device the numbers begin again behind the last device.
    """
    if device is not None and (not isinstance(device, str) or ":" in device):
        return device
    variable = next((name for name in LOCAL_RANKS if os.environ.get(name)), None)
    if variable is None:
        return device
    backend = _core.current_device(device).backend
    devices = _core.devices(backend)
    local = _number(variable)
    if shared_device and local >= len(devices) > 0:
        local %= len(devices)
    if len(devices) > 1 and not 0 <= local < len(devices):
        raise InvalidArgumentError(
            f"{variable} is {local}, but this process sees {len(devices)} devices of "
            f"{backend}: pass `device`, or shared_device=True"
        )
    return devices[local if len(devices) > 1 else 0]


def pmix_alone() -> bool:
    """Returns True if the launcher has PMIx, and nothing else connects the ranks."""
    if "PMIX_RANK" not in os.environ:
        return False
    if any(os.environ.get(name) for name in ("DEVRT_BOOTSTRAP_DIR", "MASTER_ADDR")):
        return False
    return not _has_mpi() or importlib.util.find_spec("mpi4py") is None


def _has_mpi() -> bool:
    """Returns True if the launcher is one of MPI."""
    return "OMPI_COMM_WORLD_SIZE" in os.environ or "PMI_SIZE" in os.environ


def _number(variable: str) -> int:
    value = os.environ[variable]
    try:
        return int(value)
    except ValueError:
        raise InvalidArgumentError(
            f"{variable} is {value!r}, expected a number"
        ) from None


def _automatic(rank: Optional[int], size: Optional[int]) -> Connection:
    """What the variables of the launcher describe."""
    if "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ:
        own_rank, own_size = place(rank, size)
        distributed = importlib.import_module("torch.distributed")
        store = distributed.TCPStore(
            os.environ["MASTER_ADDR"],
            _number("MASTER_PORT"),
            own_size,
            # Of torchrun, whose own store is there already.
            own_rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        )
        # Rank 0's store is the server of the others, which may need it longer.
        _stores.append(store)
        return own_rank, own_size, _OverStore(store, own_rank, own_size)
    if _has_mpi():
        return connect(importlib.import_module("mpi4py.MPI").COMM_WORLD, rank, size)
    raise Error(
        "no launcher was found (looked for DEVRT_BOOTSTRAP_DIR, MASTER_ADDR and "
        "MASTER_PORT of torchrun, "
        "OMPI_COMM_WORLD_SIZE of Open MPI, PMI_SIZE of MPICH, PMIX_RANK): pass `bootstrap`, a "
        "folder that all ranks share, say"
    )


class _OverMpi:
    """By a duplicate of an mpi4py communicator, which the first exchange makes.

    A call that a rank does not make ends at its time.  What it leaves behind is then on
    the duplicate, where no call of the program can meet it.
    """

    def __init__(self, parent: Any) -> None:
        self._parent = parent
        self._mpi = importlib.import_module("mpi4py.MPI")
        self._size = parent.Get_size()
        self._is_in_step = True
        self.comm: Any = None

    def __del__(self) -> None:
        # A rank that left too early may be missed by the others.
        if self.comm is not None and self._is_in_step and not self._mpi.Is_finalized():
            self.comm.Free()

    def __call__(self, mine: bytes, timeout: float) -> List[bytes]:
        deadline = time.monotonic() + timeout
        if self.comm is None:
            self.comm, request = self._parent.Idup()
            self._wait(request, deadline, [self.comm])
        sizes = array("i", [0] * self._size)
        own = array("i", [len(mine)])
        self._wait(self.comm.Iallgather(own, sizes), deadline, [sizes, own])
        starts = [sum(sizes[:i]) for i in range(self._size)]
        everything = bytearray(sum(sizes))
        sent = bytearray(mine)
        request = self.comm.Iallgatherv(
            [sent, self._mpi.BYTE], [everything, (list(sizes), starts), self._mpi.BYTE]
        )
        self._wait(request, deadline, [sizes, everything, sent])
        return [
            bytes(everything[start : start + size]) for start, size in zip(starts, sizes)
        ]

    def _wait(self, request: Any, deadline: float, used: List[Any]) -> None:
        while not request.Test():
            if time.monotonic() > deadline:
                # MPI cannot take a collective back: what it uses has to stay.
                _abandoned.append((request, used))
                self._is_in_step = False
                raise TimeoutError(
                    f"not all of {self._size} MPI ranks came until the deadline"
                )
            time.sleep(0.0002)


# Of "auto", for the rest of the process.
_stores: List[Any] = []

# Requests of MPI that never completed, with the memory that they use.
_abandoned: List[Any] = []


class _OverStore:
    """By a key-value store of torch.distributed, of which it leaves a key of each rank."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        # torchrun's store may outlive a start of the job, whose keys are still there.
        start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        number = store.add(f"devrt/{start}/communicators/{rank}", 1)
        self._begin = f"devrt/{start}/{number}"
        self._store, self._rank, self._size = store, rank, size
        self._rounds = 0

    def __call__(self, mine: bytes, timeout: float) -> List[bytes]:
        self._rounds += 1
        keys = [f"{self._begin}/{self._rounds}/{i}" for i in range(self._size)]
        self._store.set(keys[self._rank], mine)
        try:
            self._wait(keys, timeout)
        except Exception as error:
            missing = [i for i, key in enumerate(keys) if not self._store.check([key])]
            if not missing:
                raise
            raise TimeoutError(
                f"{self._size - len(missing)} of {self._size} ranks came to the store "
                f"until the deadline; missing {', '.join(map(str, missing))}"
            ) from error
        if self._rounds > 1:
            # Each rank is here, and so has read the keys of the round before.
            self._store.delete_key(f"{self._begin}/{self._rounds - 1}/{self._rank}")
        return [bytes(self._store.get(key)) for key in keys]

    def put(self, name: str, mine: bytes) -> None:
        self._store.set(f"{self._begin}/{name}/{self._rank}", mine)

    def get(self, name: str, rank: int, timeout: float) -> Optional[bytes]:
        key = f"{self._begin}/{name}/{rank}"
        try:
            self._wait([key], timeout)
        except Exception:
            if not self._store.check([key]):
                return None
        return bytes(self._store.get(key))

    def _wait(self, keys: List[str], timeout: float) -> None:
        limit = datetime.timedelta(seconds=min(max(timeout, 0.001), _LONGEST))
        self._store.wait(keys, limit)
