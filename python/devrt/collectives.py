# SPDX-License-Identifier: Apache-2.0
"""Operations in which several devices take part: all-reduce and its kin.

    from devrt import collectives

    ranks = collectives.init_all(devrt.devices("mtia"))   # one process, one thread
    with collectives.group():
        for rank, gradient in zip(ranks, gradients):
            rank.all_reduce(gradient, op="avg")           # in place

    comm = collectives.init("cuda", bootstrap=MPI.COMM_WORLD)  # a process for each rank
    total = comm.all_reduce(x)
    comm.finish()

An operation is work of the device's current stream, or of the argument stream: it
returns at once, and later work of the stream sees its result.  Operations on arrays wait
for other streams' uses of them, as all operations on arrays do.

The engine is the simulator's for mtia, NCCL for cuda and RCCL for hip.  NCCL is looked
for in the process, in DEVRT_NCCL_LIBRARY, in the package nvidia-nccl and where the
loader finds it.

When a rank dies, or the ranks' operations differ, the communicator fails on every rank:
CollectiveError, with the report of what each call was.  The outputs of operations that
were not complete are undefined then, and reads of arrays do not tell that: x.tolist() and
x.item() return such values without an error.  Call comm.wait() first, which raises it.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from . import _core
from ._arrays import Array, empty
from ._bootstraps import absolute, connect, device_here, place, pmix_alone
from ._collective_calls import CollectiveError, Registration, add, group, raise_failure
from ._core import Device, Error, Stream

__all__ = [
    "CollectiveError",
    "Communicator",
    "Registration",
    "finish_all",
    "group",
    "init",
    "init_all",
    "shrink_all",
    "split_all",
]

_Options = Tuple[
    str, str, Optional[float], Optional[float], str, bool, bool, bool, bool, bool, bool]

# The interpreter ends its threads where they are, and a communicator would wait for them.
atexit.register(_core._end_exchanges)


class Communicator:
    """The place of one rank among the devices that compute together.

    Made by init and init_all.  One thread at a time may use it, but for abort, state and
    failure.  Arrays are C-contiguous, on the device of the communicator; only the number
    of their elements counts, not the shape.  The end of the object finishes it, within
    5 s, or aborts it with a warning.
    """

    def __init__(self, core: Any) -> None:
        self._core = core

    def __repr__(self) -> str:
        return (
            f"<devrt.collectives.Communicator {self.id}, rank {self.rank} of "
            f"{self.size} on {self.device.name}, {self.state}>"
        )

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return int(self._core.rank)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return int(self._core.size)

    @property
    def device(self) -> Device:
        """The device of this rank."""
        device: Device = self._core.device
        return device

    @property
    def id(self) -> int:
        """A number that all ranks of the communicator have.

        Other communicators of one bootstrap do not have it.
        """
        return int(self._core.id)

    @property
    def provider(self) -> Tuple[str, str, str]:
        """The engine: its name, its version, and the path of its library, or ""."""
        name, version, path = self._core.provider
        return name, version, path

    @property
    def state(self) -> str:
        """ "ready", "failed", "aborted" or "finished"."""
        return str(self._core.state)

    @property
    def failure(self) -> Optional[Tuple[str, str]]:
        """The code and the text of the error that ended it; None before."""
        failure: Optional[Tuple[str, str]] = self._core.failure
        return failure

    def supports(self, operation: str, dtype: Any, op: str = "sum") -> bool:
        """Returns True if the engine has the operation, "all_reduce" say, for the dtype."""
        return bool(self._core.supports(operation, dtype, op))

    def _add(
        self,
        kind: str,
        out: Any,
        value: Any,
        op: str = "sum",
        peer: int = 0,
        stream: Optional[Stream] = None,
    ) -> None:
        if stream is None:
            # Now: a group ends later, where another stream may be current.
            stream = self.device.current_stream()
        line = _core._line_here()
        add((self._core, kind, out, value, op, peer, stream, line))

    def _like(self, x: Any, parts: int = 1, of: int = 1) -> Any:
        """Returns a new array with `parts` times x's elements, in `of` parts.

        The first axis is multiplied and divided.
        """
        if not isinstance(x, Array):
            raise TypeError(f"expected a devrt.Array, not {type(x).__name__}")
        shape = list(x.shape) or [1]
        if shape[0] * parts % of:
            raise _core.InvalidArgumentError(
                f"x has shape {tuple(x.shape)}; its first extent must be a multiple of "
                f"the number of ranks, {of}: pass `out` for other shapes"
            )
        shape[0] = shape[0] * parts // of
        return empty(shape, dtype=x.dtype, device=self.device)

    def all_reduce(
        self, x: Any, out: Any = None, *, op: str = "sum", stream: Optional[Stream] = None
    ) -> Any:
        """Computes the reduction of every rank's x, on every rank.

        op: "sum", "prod", "min", "max", or "avg" where the engine has it.
        Returns out, by default x itself.
        """
        out = x if out is None else out
        self._add("all_reduce", out, x, op, 0, stream)
        return out

    def reduce(
        self,
        x: Any,
        root: int,
        out: Any = None,
        *,
        op: str = "sum",
        stream: Optional[Stream] = None,
    ) -> Any:
        """Computes the reduction of every rank's x, on the root.

        Returns out, by default x itself; other ranks' out stays as it is.
        """
        out = x if out is None else out
        self._add("reduce", out, x, op, root, stream)
        return out

    def broadcast(self, x: Any, root: int, *, stream: Optional[Stream] = None) -> Any:
        """Gives every rank's x the root's elements, and returns it."""
        self._add("broadcast", x, x, "sum", root, stream)
        return x

    def all_gather(
        self, x: Any, out: Any = None, *, stream: Optional[Stream] = None
    ) -> Any:
        """Returns every rank's x, by rank, one behind the other along the first axis."""
        out = self._like(x, self.size) if out is None else out
        self._add("all_gather", out, x, "sum", 0, stream)
        return out

    def reduce_scatter(
        self, x: Any, out: Any = None, *, op: str = "sum", stream: Optional[Stream] = None
    ) -> Any:
        """Returns this rank's part, along the first axis, of the reduction of every x."""
        out = self._like(x, of=self.size) if out is None else out
        self._add("reduce_scatter", out, x, op, 0, stream)
        return out

    def all_to_all(
        self, x: Any, out: Any = None, *, stream: Optional[Stream] = None
    ) -> Any:
        """Returns part `rank` of every rank's x, by rank; x has `size` parts."""
        out = self._like(x) if out is None else out
        self._add("all_to_all", out, x, "sum", 0, stream)
        return out

    def gather(
        self, x: Any, root: int, out: Any = None, *, stream: Optional[Stream] = None
    ) -> Any:
        """Returns on the root every rank's x, by rank; x itself on the others."""
        if out is None:
            out = self._like(x, self.size) if self.rank == root else x
        self._add("gather", out, x, "sum", root, stream)
        return out

    def scatter(
        self, x: Any, root: int, out: Any, *, stream: Optional[Stream] = None
    ) -> Any:
        """Gives every rank's out its part of the root's x.

        x: of the root; other ranks may pass None.
        """
        self._add("scatter", out, out if x is None else x, "sum", root, stream)
        return out

    def send(self, x: Any, peer: int, *, stream: Optional[Stream] = None) -> None:
        """Sends x to another rank, whose recv it meets."""
        self._add("send", None, x, "sum", peer, stream)

    def recv(self, x: Any, peer: int, *, stream: Optional[Stream] = None) -> Any:
        """Receives x from another rank, and returns it."""
        self._add("recv", x, None, "sum", peer, stream)
        return x

    def register(self, array: Any) -> Registration:
        """Tells the engine of memory that operations will use often, for a with block.

        A hint: an engine without registration does nothing.  Put a group inside of the
        block, since a group submits its operations at its end.
        array: C-contiguous, on the communicator's device, of any dtype and shape.
        """
        return Registration(self._call(self._core.register, array))

    def group(self) -> group:
        """Returns devrt.collectives.group()."""
        return group()

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except Error as error:
            raise_failure(self._core, error)
            raise

    def wait(
        self, stream: Optional[Stream] = None, *, timeout: Optional[float] = None
    ) -> None:
        """Waits for the stream's work, or for the failure of the communicator.

        Call it before a read of results: reads of arrays do not tell a failure.
        timeout: in seconds; None: no limit.
        """
        self._call(self._core.wait, stream, timeout)

    def barrier(self, *, timeout: Optional[float] = None) -> None:
        """Waits until every rank has called it, and its earlier work is complete.

        The work of the current stream.  timeout: in seconds; None: no limit but that of
        the communicator.
        """
        self._call(self._core.barrier, timeout)

    def abort(self, why: str = "the program asked for it") -> None:
        """Ends what runs on this rank, and the communicator.  From any thread."""
        self._core.abort(why)

    def split(self, color: int, key: int = 0) -> Optional[Communicator]:
        """Returns a communicator of the ranks with equal color, ordered by key, then rank.

        None for color -1.  Every rank calls it.
        """
        child = self._call(self._core.split, color, key)
        return None if child is None else Communicator(child)

    def shrink(self, gone: Iterable[int]) -> Communicator:
        """Returns a communicator without the ranks in `gone`; the others call it.

        Also after a failure: what still runs is aborted then.
        """
        return Communicator(self._call(self._core.shrink, gone))

    def finish(self, *, timeout: Optional[float] = None) -> None:
        """Waits until the operations of every rank are complete, and ends it.

        Every rank calls it.
        """
        self._call(self._core.finish, timeout)

    def records(self) -> List[Dict[str, Any]]:
        """Returns the newest calls, at most 4,096, oldest first.

        Keys: number, sequence (0 for send and recv), text, stream, submit_ns, end_ns
        (of CLOCK_MONOTONIC; 0: not known to be complete), file and line.  Asks the
        engine, as `state` does; after a failure or an abort no call becomes complete.
        """
        records: List[Dict[str, Any]] = self._core.records()
        return records


def init(
    device: Union[Device, str, int, None] = None,
    bootstrap: Any = "auto",
    *,
    rank: Optional[int] = None,
    size: Optional[int] = None,
    name: str = "",
    provider: str = "",
    timeout: Optional[float] = 600.0,
    init_timeout: Optional[float] = 300.0,
    on_failure: str = "abort",
    shared_device: bool = False,
    order_across_communicators: bool = True,
    allow_mixed_versions: bool = False,
    check_signatures: bool = False,
    exchange_records: bool = False,
    watch: bool = True,
) -> Communicator:
    """Returns this process's place in a communicator.  Every rank calls it.

    device: as devrt.device takes it.  None, or the name of a backend: the device with the
        number of this rank on its machine (LOCAL_RANK of torchrun, and those of Open MPI,
        MPICH and Slurm), or the only device; without a launcher the current one.  With
        shared_device the numbers begin again behind the last device.
    bootstrap: how the ranks find each other:
        "auto"       what the launcher's variables describe
        "pmix"       the launcher itself: Open MPI's mpiexec, srun --mpi=pmix
        a folder     a path that all ranks share, with rank and size
        MPI          an mpi4py communicator
        a store      torch.distributed's Store, with rank and size
        a function   all_gather(mine: bytes, timeout: float) -> list of bytes, with rank
                     and size.  With a method give_up(mine: bytes, timeout: float) a rank
                     that cannot go on gives its bytes and need not wait: the function
                     may return b"" for ranks that have not come then.
    rank, size: where the bootstrap does not tell; by default RANK and WORLD_SIZE.
    timeout: seconds, of one operation; None: no limit.
    init_timeout: seconds, of this call and of split.
    on_failure: "report", "abort" (all communicators of the device) or "terminate" (the
        process, with code 134).
    shared_device: other ranks may have this device, for tests.  Each takes a stream of
        its own.
    check_signatures: before each submission the ranks compare their collectives over
        the bootstrap, so that a mismatch is a ValueError with every rank's line instead
        of a hang.  Slow: for the search of one.
    exchange_records: after a failure the ranks tell each other their calls, and
        `failure` says where they differ, and which ranks tell nothing within 5 s.  The
        bootstrap is a folder, "pmix", a store, or a function with the methods
        put(name: str, mine: bytes) and get(name: str, rank: int, timeout: float), which
        returns None for what is not there.  Both are called on threads of devrt; the end
        of the interpreter gives them half a second, and then stops them.
    watch: a thread of devrt looks for failures and timeouts, every 100 ms.  Without it
        wait finds both, and so does a submission that fails; `state` and `failure` find
        what the engine tells.
    """
    _name_nccl()
    device = device_here(device, shared_device)
    options = (name, provider, init_timeout, timeout, on_failure, shared_device,
               order_across_communicators, allow_mixed_versions, check_signatures,
               exchange_records, watch)
    if bootstrap == "pmix" or (bootstrap == "auto" and pmix_alone()):
        return Communicator(_core._create_rank_over_pmix(device, options))
    if isinstance(bootstrap, (str, os.PathLike)) and os.fspath(bootstrap) != "auto":
        own_rank, own_size = place(rank, size)
        return _in_folder(device, absolute(bootstrap), own_rank, own_size, options)
    if bootstrap == "auto" and os.environ.get("DEVRT_BOOTSTRAP_DIR"):
        own_rank, own_size = place(rank, size)
        folder = os.environ["DEVRT_BOOTSTRAP_DIR"]
        return _in_folder(device, folder, own_rank, own_size, options)
    own_rank, own_size, all_gather = connect(bootstrap, rank, size)
    return Communicator(
        _core._create_rank(device, own_rank, own_size, all_gather, options)
    )


def _name_nccl() -> None:
    """Names NCCL's library for this process, if a Python package has it.

    DEVRT_NCCL_LIBRARY goes before, and so does a copy that the process has loaded.
    Children inherit nothing: another interpreter may have another package.
    """
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = os.path.join(folder, "lib", "libnccl.so.2")
        if os.path.exists(path):
            _core._set_nccl_library(path)
            return


def _in_folder(
    device: Any, folder: str, rank: int, size: int, options: _Options
) -> Communicator:
    job = os.environ.get("DEVRT_BOOTSTRAP_JOB") or "default"
    return Communicator(
        _core._create_rank_in_folder(device, folder, rank, size, job, options)
    )


def init_all(
    devices: Iterable[Union[Device, str, int]],
    *,
    name: str = "",
    provider: str = "",
    timeout: Optional[float] = 600.0,
    init_timeout: Optional[float] = 300.0,
    on_failure: str = "abort",
    shared_device: bool = False,
    order_across_communicators: bool = True,
    watch: bool = True,
) -> List[Communicator]:
    """Returns a communicator for each device, all in this process.

    One thread can act for all of them inside of group().  The arguments are those of
    init.
    """
    if isinstance(devices, str):
        raise TypeError(
            f"devices is {devices!r}, expected a list of devices: devrt.devices({devices!r})"
        )
    _name_nccl()
    options = (name, provider, init_timeout, timeout, on_failure, shared_device,
               order_across_communicators, False, False, False, watch)
    return [Communicator(core) for core in _core._create_ranks(list(devices), options)]


def finish_all(
    ranks: Iterable[Communicator], *, timeout: Optional[float] = None
) -> None:
    """Communicator.finish of all ranks, for one thread that has them.

    timeout: in seconds; None: no limit.
    """
    every = list(ranks)
    if every:
        _of_all(every, _core._finish_ranks, timeout)


def split_all(
    ranks: Iterable[Communicator],
    colors: Sequence[int],
    keys: Optional[Sequence[int]] = None,
) -> List[Optional[Communicator]]:
    """Communicator.split of all ranks, for one thread that has them.

    colors, keys: one for each rank; without keys the order stays.
    """
    every = list(ranks)
    order = [0] * len(every) if keys is None else keys
    children = _of_all(every, _core._split_ranks, colors, order)
    return [None if child is None else Communicator(child) for child in children]


def shrink_all(
    ranks: Iterable[Communicator], gone: Sequence[int]
) -> List[Communicator]:
    """Communicator.shrink of all ranks but those in `gone`, for one thread."""
    children = _of_all(list(ranks), _core._shrink_ranks, gone)
    return [Communicator(child) for child in children]


def _of_all(ranks: List[Communicator], function: Callable[..., Any], *args: Any) -> Any:
    """Makes one call of all ranks; CollectiveError of the first one that has failed."""
    for rank in ranks:
        if not isinstance(rank, Communicator):
            raise TypeError(f"ranks has {rank!r}, expected Communicators")
    cores = [rank._core for rank in ranks]
    try:
        return function(cores, *args)
    except Error as error:
        for core in cores:
            raise_failure(core, error)
        raise
