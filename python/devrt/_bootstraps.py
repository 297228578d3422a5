# SPDX-License-Identifier: Apache-2.0
"""How ranks exchange bytes, by what a Python program has: MPI, a store, a function.

And what a launcher's variables say of the rank and its device.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import importlib.util
import os
import time
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


def absolute(folder: Union[str, "os.PathLike[str]"]) -> str:
    """Returns the absolute path of a bootstrap's folder."""
    if not os.fspath(folder):
        raise InvalidArgumentError(
            "bootstrap is '', expected 'auto', 'pmix' or the path of a folder"
        )
    return os.path.abspath(folder)


def place(rank: Optional[int], size: Optional[int]) -> Tuple[int, int]:
    """Returns the rank and the number of ranks, by the launcher's variables if None."""
    if rank is not None and size is not None:
        return rank, size
    for of_rank, of_size in _PLACES:
        if os.environ.get(of_rank) and os.environ.get(of_size):
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
    if local < 0:
        raise InvalidArgumentError(
            f"{variable} is {local}, expected the number of this rank on its machine, "
            "from 0: pass `device`, or mend what the launcher sets"
        )
    if shared_device and local >= len(devices) > 0:
        local %= len(devices)
    if len(devices) > 1 and local >= len(devices):
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
    if os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT"):
        own_rank, own_size = place(rank, size)
        distributed = importlib.import_module("torch.distributed")
        # Under torchrun its own store is there already.
        is_server = (
            own_rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        )
        store = distributed.TCPStore(
            os.environ["MASTER_ADDR"], _number("MASTER_PORT"), own_size, is_server
        )
        # Rank 0's store is the server of the others, which may need it longer.
        _stores.append(store)
        return own_rank, own_size, _OverStore(store, own_rank, own_size, is_server)
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

    Rank 0 collects the bytes and sends the answer to all others.  If it cannot wait for
    all, because its time is over or a rank gives up, it answers at once.  MPI keeps that
    answer for ranks that come later.  What nobody receives is then on the duplicate, where
    no call of the program can meet it.
    """

    _GRACE = 1.0  # seconds that the others wait longer than rank 0

    def __init__(self, parent: Any) -> None:
        self._parent = parent
        self._mpi = importlib.import_module("mpi4py.MPI")
        self._rank, self._size = parent.Get_rank(), parent.Get_size()
        self._is_in_step = self._may_free = True
        self._process = os.getpid()
        self._round = 0
        self._sends: List[Any] = []
        self.comm: Any = None

    def __del__(self) -> None:
        # A forked child may not call MPI.
        if (self.comm is None or os.getpid() != self._process
                or self._mpi.Is_finalized()):
            return
        if not all(request.Test() for request in self._sends):
            self._keep()
        # Others may still send to a rank that left too early.
        if self._may_free:
            self.comm.Free()

    def __call__(self, mine: bytes, timeout: float) -> List[bytes]:
        deadline = time.monotonic() + timeout
        if not self._is_in_step:
            raise Error(
                f"the bootstrap of rank {self._rank} failed before, and the ranks may be "
                "out of step: make another one"
            )
        if self.comm is None:
            self.comm, request = self._parent.Idup()
            self._wait(request, deadline, [self.comm])
        self._round += 1
        try:
            kind, found = (self._collect if self._rank == 0 else self._ask)(mine, deadline)
            if kind == "error":
                raise TimeoutError(found)
        except BaseException:
            self._is_in_step = False
            self._keep()
            raise
        if kind == "some":
            self._keep()
        return list(found)

    def give_up(self, mine: bytes, timeout: float) -> None:
        """Tells the others that this rank cannot go on, and does not wait for them."""
        if self.comm is None or not self._is_in_step:
            return
        self._round += 1
        if self._rank == 0:
            self._answer("some", [mine] + [b""] * (self._size - 1))
        else:
            self._send(0, ("gave up", mine))
        self._keep()

    def _collect(self, mine: bytes, deadline: float) -> Tuple[str, Any]:
        parts = [mine] + [b""] * (self._size - 1)
        missing = set(range(1, self._size))
        while missing:
            found = self._receive(self._mpi.ANY_SOURCE, deadline)
            if found is None:
                text = (
                    f"{self._size - len(missing)} of {self._size} MPI ranks came until the "
                    f"deadline; missing {', '.join(map(str, sorted(missing)))}"
                )
                return self._answer("error", text)
            rank, (kind, part) = found
            if kind == "gave up":
                parts = [part if i == rank else b"" for i in range(self._size)]
                return self._answer("some", parts)
            parts[rank] = part
            missing.remove(rank)
        answer = self._answer("all", parts)
        # The program's next call may be none of MPI, and long messages need one.
        while self._sends and time.monotonic() <= deadline:
            self._sends = [request for request in self._sends if not request.Test()]
        return answer

    def _ask(self, mine: bytes, deadline: float) -> Tuple[str, Any]:
        self._send(0, ("comes", mine))
        answer = self._receive(0, deadline + self._GRACE)
        if answer is None:
            raise TimeoutError(
                f"rank 0 of {self._size} MPI ranks did not answer rank {self._rank} until "
                "the deadline"
            )
        kind, found = answer[1]
        return kind, found

    def _answer(self, kind: str, found: Any) -> Tuple[str, Any]:
        for rank in range(1, self._size):
            self._send(rank, (kind, found))
        return kind, found

    def _send(self, rank: int, message: Tuple[Any, ...]) -> None:
        self._sends = [request for request in self._sends if not request.Test()]
        message = (self._round, *message)
        self._sends.append(self.comm.isend(message, dest=rank, tag=1))

    def _receive(self, rank: int, deadline: float) -> Optional[Tuple[int, Any]]:
        """Returns who has sent a message, and what; None at the deadline."""
        status = self._mpi.Status()
        while True:
            message = self.comm.improbe(source=rank, tag=1, status=status)
            if message is not None:
                number, kind, found = message.recv()
                # One of an earlier exchange is left where a rank gave up.
                if number == self._round:
                    return status.Get_source(), (kind, found)
                continue
            if time.monotonic() > deadline:
                return None
            time.sleep(0.0002)

    def _keep(self) -> None:
        """Keeps what MPI may still use: what some rank has not received."""
        self._may_free = False
        _abandoned.extend(self._sends)

    def _wait(self, request: Any, deadline: float, used: List[Any]) -> None:
        while not request.Test():
            if time.monotonic() > deadline:
                # MPI cannot take a collective back: what it uses has to stay.
                _abandoned.append((request, used))
                self._is_in_step = self._may_free = False
                raise TimeoutError(
                    f"not all of {self._size} MPI ranks came until the deadline"
                )
            time.sleep(0.0002)


# Of "auto", for the rest of the process.
_stores: List[Any] = []

# Requests of MPI that never completed, with the memory that they use.
_abandoned: List[Any] = []


class _OverStore:
    """By a key-value store of torch.distributed, of which it leaves a key of each rank.

    is_server: the store ends with this process.
    """

    _SLICE = 1.0  # seconds of one wait, after which a rank may have given up
    _READING = 1.0  # seconds that the server gives the others to read why

    def __init__(
        self, store: Any, rank: int, size: int, is_server: bool = False
    ) -> None:
        # torchrun's store may outlive a start of the job, whose keys are still there.
        start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        number = store.add(f"devrt/{start}/communicators/{rank}", 1)
        self._begin = f"devrt/{start}/{number}"
        self._store, self._rank, self._size = store, rank, size
        self._is_server = is_server
        self._rounds = 0

    def _give(self, mine: bytes, gives_up: bool = False) -> List[str]:
        """Begins an exchange with this rank's bytes, and returns the keys of all ranks."""
        self._rounds += 1
        keys = [f"{self._begin}/{self._rounds}/{i}" for i in range(self._size)]
        if gives_up:
            # First, so that who has the bytes of all ranks knows it.
            self._store.set(self._over(), str(self._rank).encode())
        self._store.set(keys[self._rank], mine)
        return keys

    def __call__(self, mine: bytes, timeout: float) -> List[bytes]:
        keys = self._give(mine)
        deadline = time.monotonic() + timeout
        try:
            while not self._wait_a_slice(keys, deadline):
                if self._told_why(keys):
                    return self._what_came(keys)
        except Exception as error:
            missing = [i for i, key in enumerate(keys) if not self._store.check([key])]
            if not missing:
                raise
            if self._told_why(keys):
                return self._what_came(keys)
            raise TimeoutError(
                f"{self._size - len(missing)} of {self._size} ranks came to the store "
                f"until the deadline; missing {', '.join(map(str, missing))}"
            ) from error
        if self._rounds > 1:
            # Each rank is here, and so has read the keys of the round before.
            self._store.delete_key(f"{self._begin}/{self._rounds - 1}/{self._rank}")
        parts = [bytes(self._store.get(key)) for key in keys]
        if self._store.check([self._over()]):
            self._leave()
        return parts

    def give_up(self, mine: bytes, timeout: float) -> None:
        """Tells the others that this rank cannot go on.

        Waits for them only where the store, and so what it tells, ends with this process.
        """
        keys = self._give(mine, gives_up=True)
        if self._is_server:
            self._wait(keys, timeout)
        self._leave()

    def _leave(self) -> None:
        """Says that this rank has read the exchange in which a rank has given up.

        The program may end then, and the server would take unread bytes with it.
        """
        have_read = [f"{self._begin}/{self._rounds}/read/{i}" for i in range(self._size)]
        with contextlib.suppress(Exception):  # a timeout, or the server has ended
            self._store.set(have_read[self._rank], b"")
            if self._is_server:
                self._wait(have_read, self._READING)

    def _what_came(self, keys: List[str]) -> List[bytes]:
        """Returns the bytes of the ranks that came, where one has given up."""
        parts = [self._found(key) or b"" for key in keys]
        self._leave()
        return parts

    def _over(self) -> str:
        """The key that says which rank has given up in this exchange."""
        return f"{self._begin}/{self._rounds}/over"

    def _told_why(self, keys: List[str]) -> bool:
        """Returns True if a rank has given up, and its bytes are there."""
        rank = self._found(self._over())
        return rank is not None and self._store.check([keys[int(rank)]])

    def _wait_a_slice(self, keys: List[str], deadline: float) -> bool:
        """Returns True if the keys are there, and False if there is time to go on."""
        left = deadline - time.monotonic()
        end = time.monotonic() + min(left, self._SLICE)
        try:
            self._wait(keys, min(left, self._SLICE))
            return True
        except Exception:
            # Before the end of the slice it is another error than a timeout.
            if left <= self._SLICE or time.monotonic() < end:
                raise
            return False

    def _found(self, key: str) -> Optional[bytes]:
        return bytes(self._store.get(key)) if self._store.check([key]) else None

    def put(self, name: str, mine: bytes) -> None:
        self._store.set(f"{self._begin}/{name}/{self._rank}", mine)

    def get(self, name: str, rank: int, timeout: float) -> Optional[bytes]:
        key = f"{self._begin}/{name}/{rank}"
        try:
            self._wait([key], timeout)
        except Exception:
            return self._found(key)
        return bytes(self._store.get(key))

    def _wait(self, keys: List[str], timeout: float) -> None:
        limit = datetime.timedelta(seconds=min(max(timeout, 0.001), _LONGEST))
        self._store.wait(keys, limit)
