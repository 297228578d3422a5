# SPDX-License-Identifier: Apache-2.0
"""How "auto" chooses, and exchanges over stores and MPI, with their classes imitated."""

import os
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

import devrt
from devrt import _bootstraps, collectives


def test_auto_says_what_it_looked_for(monkeypatch):
    for name in ("DEVRT_BOOTSTRAP_DIR", "MASTER_ADDR", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                 "PMIX_RANK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(devrt.Error, match="MASTER_ADDR"):
        collectives.init()
    with pytest.raises(devrt.Error, match="PMIX_NAMESPACE is not set"):
        collectives.init(bootstrap="pmix")


@pytest.mark.parametrize("variables, has_mpi4py, expected", [
    ({}, True, True),
    ({}, False, True),
    ({"OMPI_COMM_WORLD_SIZE": "2"}, True, False),
    ({"OMPI_COMM_WORLD_SIZE": "2"}, False, True),
    ({"PMI_SIZE": "2"}, True, False),
    ({"MASTER_ADDR": "here"}, False, False),
])
def test_auto_takes_pmix_where_nothing_else_connects(monkeypatch, variables, has_mpi4py,
                                                     expected):
    for name in ("DEVRT_BOOTSTRAP_DIR", "MASTER_ADDR", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_bootstraps.importlib.util, "find_spec",
                        lambda name: name if has_mpi4py else None)
    for name, value in {"PMIX_RANK": "0", **variables}.items():
        monkeypatch.setenv(name, value)
    assert _bootstraps.pmix_alone() == expected


def test_an_empty_variable_is_not_set(two, monkeypatch, tmp_path):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "DEVRT_BOOTSTRAP_JOB"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    monkeypatch.setenv("DEVRT_BOOTSTRAP_DIR", str(tmp_path / "job"))
    one = collectives.init(two[0])
    assert (one.rank, one.size) == (0, 1)
    one.finish()


class Store:
    """As torch.distributed.Store, for one process."""

    def __init__(self):
        self.values, self.lock = {}, threading.Condition()

    def add(self, key, amount):
        with self.lock:
            self.values[key] = self.values.get(key, 0) + amount
            return self.values[key]

    def set(self, key, value):
        with self.lock:
            self.values[key] = value
            self.lock.notify_all()

    def get(self, key):
        return self.values[key]

    def delete_key(self, key):
        with self.lock:
            return self.values.pop(key, None) is not None

    def check(self, keys):
        return all(key in self.values for key in keys)

    def wait(self, keys, timeout):
        with self.lock:
            if not self.lock.wait_for(lambda: self.check(keys),
                                      timeout.total_seconds()):
                raise RuntimeError("timed out")


def test_a_store_of_torch():
    store = Store()

    def run(rank):
        own, size, all_gather = _bootstraps.connect(store, rank, 2)
        return [all_gather(b"%d%d" % (own, i), 30) for i in range(2)]

    with ThreadPoolExecutor(2) as pool:
        assert [rank.result() for rank in [pool.submit(run, i) for i in range(2)]] == [
            [[b"00", b"10"], [b"01", b"11"]]] * 2
    _, _, all_gather = _bootstraps.connect(Store(), 0, 2)
    with pytest.raises(TimeoutError, match="1 of 2 ranks came.*missing 1"):
        all_gather(b"here", 0.01)
    _, _, all_gather = _bootstraps.connect(Store(), 0, 1)
    assert all_gather(b"alone", float("inf")) == [b"alone"]


def test_a_restarted_job_does_not_read_what_is_old(monkeypatch):
    store = Store()
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
    _, _, before = _bootstraps.connect(store, 1, 2)  # the other rank of the first start
    with pytest.raises(TimeoutError):
        before(b"old", 0.01)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    _, _, all_gather = _bootstraps.connect(store, 0, 2)
    with pytest.raises(TimeoutError, match="missing 1"):
        all_gather(b"new", 0.01)


def test_exchanges_leave_one_key_in_a_store():
    store = Store()
    _, _, all_gather = _bootstraps.connect(store, 0, 1)
    for _ in range(3):
        assert all_gather(b"mine", 30) == [b"mine"]
    assert list(store.values.values()) == [1, b"mine"]


def test_a_store_keeps_what_ranks_put():
    store = Store()
    ranks = [_bootstraps.connect(store, rank, 2)[2] for rank in range(2)]
    assert ranks[0].get("name", 1, 0.01) is None
    ranks[1].put("name", b"of 1")
    assert ranks[0].get("name", 1, 30) == b"of 1"
    assert ranks[0].get("name", 0, 0.01) is None


def test_failed_ranks_exchange_their_records(two):
    store = Store()
    texts = {}

    def run(rank):
        comm = collectives.init(two[rank], store, rank=rank, size=2,
                                exchange_records=True)
        x = devrt.ones(4 + rank, device=comm.device)
        with pytest.raises(devrt.Error):
            comm.all_reduce(x)  # of two sizes
            comm.wait()
        texts[rank] = comm.failure[1]

    with ThreadPoolExecutor(2) as pool:
        for result in [pool.submit(run, rank) for rank in range(2)]:
            result.result()
    for text in texts.values():
        assert "over the bootstrap: they differ at 1; rank 0 is at 1 all_reduce(" in text
        assert "rank 1 is at 1 all_reduce(float64 x 5, sum)" in text


class World:
    """The messages between the ranks of one job of MPI."""

    def __init__(self, size):
        self.size, self.lock = size, threading.Lock()
        self.messages = [[] for _ in range(size)]  # by receiver: (sender, object)


class Request:
    def __init__(self, is_done=True):
        self.is_done = is_done

    def Test(self):
        return self.is_done


class Message:
    def __init__(self, found):
        self.found = found

    def recv(self):
        return self.found


class Status:
    def Get_source(self):
        return self.source


class Duplicate:
    """Of a communicator of mpi4py."""

    def __init__(self, world, rank):
        self.world, self.rank, self.is_free = world, rank, False

    def isend(self, message, dest, tag):
        with self.world.lock:
            self.world.messages[dest].append((self.rank, message))
        return Request()

    def improbe(self, source, tag, status):
        with self.world.lock:
            waiting = self.world.messages[self.rank]
            for i, (sender, message) in enumerate(waiting):
                if source in (sender, -1):
                    status.source = sender
                    del waiting[i]
                    return Message(message)
        return None

    def Free(self):
        self.is_free = True


class Parent:
    """A program's own communicator, which devrt may only duplicate."""

    def __init__(self, world, rank=0, others_come=True):
        self.world, self.rank, self.made = world, rank, []
        self.others_come = others_come

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.world.size

    def Idup(self):
        self.made.append(Duplicate(self.world, self.rank))
        return self.made[-1], Request(self.others_come)

    def isend(self, *_):
        raise AssertionError("an exchange is on the program's communicator")

    improbe = Iallgatherv = isend


@pytest.fixture
def mpi(monkeypatch):
    module = types.SimpleNamespace(ANY_SOURCE=-1, Status=Status, Is_finalized=lambda: False)
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=module))
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)
    monkeypatch.setattr(_bootstraps, "_abandoned", [])
    return module


def over_mpi(size):
    world = World(size)
    return [_bootstraps.connect(Parent(world, rank), None, None)[2]
            for rank in range(size)]


def test_exchanges_are_on_a_duplicate_of_mpis_communicator(mpi):
    parent = Parent(World(1))
    _, _, all_gather = _bootstraps.connect(parent, None, None)
    for length in range(3):
        assert all_gather(b"x" * length, 30) == [b"x" * length]
    (duplicate,) = parent.made
    assert not duplicate.is_free
    del all_gather
    assert duplicate.is_free


def test_a_forked_child_leaves_mpi_alone(mpi):
    parent = Parent(World(1))
    _, _, all_gather = _bootstraps.connect(parent, None, None)
    all_gather(b"", 30)
    mpi.Is_finalized = lambda: os._exit(1)
    child = os.fork()
    if child == 0:
        del all_gather
        os._exit(2 if parent.made[0].is_free else 0)
    assert os.waitpid(child, 0)[1] == 0
    mpi.Is_finalized = lambda: False


def test_a_rank_of_mpi_that_does_not_come(mpi):
    parent = Parent(World(1), others_come=False)
    _, _, all_gather = _bootstraps.connect(parent, None, None)
    with pytest.raises(TimeoutError, match="not all of 1 MPI ranks"):
        all_gather(b"mine", 0.01)
    del all_gather
    assert not parent.made[0].is_free  # MPI still uses it


def test_what_mpi_has_not_sent_at_the_deadline_is_kept(mpi):
    ranks = over_mpi(2)
    with ThreadPoolExecutor(2) as pool:
        for result in [pool.submit(rank, b"", 30) for rank in ranks]:
            result.result()
    slow, unsent = ranks.pop(0), Request(False)
    comm = slow.comm
    comm.isend = lambda *args, **kwargs: unsent
    ranks[0].comm.isend((2, "comes", b""), dest=0, tag=1)
    assert slow(b"", 0.01) == [b"", b""]
    assert not _bootstraps._abandoned
    del slow, result
    assert _bootstraps._abandoned == [unsent]
    assert not comm.is_free


def test_a_late_rank_of_mpi_learns_who_was_missing(mpi):
    ranks = over_mpi(3)
    with ThreadPoolExecutor(2) as pool:
        for result in [pool.submit(rank, b"", 0.05) for rank in ranks[:2]]:
            with pytest.raises(TimeoutError, match="2 of 3 MPI ranks.*missing 2"):
                result.result()
    with pytest.raises(TimeoutError, match="2 of 3 MPI ranks.*missing 2"):
        ranks[2](b"", 30)
    with pytest.raises(devrt.Error, match="make another one"):
        ranks[0](b"", 30)


@pytest.mark.parametrize("guilty", range(3))
def test_a_rank_of_mpi_that_gives_up_tells_those_that_are_late(mpi, guilty):
    ranks = over_mpi(3)
    with ThreadPoolExecutor(3) as pool:  # each has its duplicate
        for result in [pool.submit(rank, b"", 30) for rank in ranks]:
            assert result.result() == [b""] * 3
    expected = [b"why" if rank == guilty else b"" for rank in range(3)]
    ranks[guilty].give_up(b"why", 30)
    # One behind the other: rank 0 carries what the others are told.
    for rank in range(3):
        if rank != guilty:
            assert ranks[rank](b"mine", 30) == expected
    # Each has come once, so that another exchange can follow.
    with ThreadPoolExecutor(3) as pool:
        for result in [pool.submit(rank, b"next", 30) for rank in ranks]:
            assert result.result() == [b"next"] * 3


@pytest.mark.parametrize("over", ["a store", "MPI", "a function"])
@pytest.mark.parametrize("guilty", range(2))
def test_a_rank_that_cannot_record_tells_those_that_are_late(
        two, mpi, monkeypatch, tmp_path, over, guilty):
    """The guilty one does not wait for the late one, which learns the reason."""
    store, size = Store(), 2
    if over == "a function":
        ranks = [_bootstraps.connect(store, rank, size)[2].__call__ for rank in range(size)]
    elif over == "a store":
        ranks = [_bootstraps.connect(store, rank, size)[2] for rank in range(size)]
    else:
        ranks = over_mpi(size)
    go, came = threading.Event(), threading.Semaphore(0)

    class Late:
        """Holds back the second exchange of the rank that has no fault."""

        def __init__(self, rank):
            self.rank, self.calls = rank, 0
            if hasattr(ranks[rank], "give_up"):
                self.give_up = ranks[rank].give_up

        def __call__(self, mine, timeout):
            self.calls += 1
            if self.calls == 2 and self.rank != guilty:
                assert go.wait(30)
            parts = ranks[self.rank](mine, timeout)
            if self.calls == 1 and self.rank == guilty:
                parts[1 - guilty] = b"damaged"
            came.release()
            return parts

    def run(rank):
        with pytest.raises(devrt.Error) as raised:
            collectives.init(two[rank], Late(rank), rank=rank, size=size)
        go.set()  # the guilty one has ended
        return raised.value.code, str(raised.value)

    with ThreadPoolExecutor(size) as pool:
        found = [result.result() for result in [pool.submit(run, i) for i in range(size)]]
    reason = f"the bootstrap returned 7 bytes for rank {1 - guilty}"
    assert found[guilty][0] == "DATA_LOSS" and reason in found[guilty][1]
    code, text = found[1 - guilty]
    assert code == "FAILED_PRECONDITION"
    assert f"rank {guilty} cannot take part: DATA_LOSS: {reason}" in text


def test_a_store_that_ends_with_its_process_is_kept_until_all_have_come():
    store = Store()
    server = _bootstraps._OverStore(store, 0, 2, is_server=True)
    other = _bootstraps._OverStore(store, 1, 2)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(server.give_up, b"why", 30)
        assert not ended.done()
        parts = other(b"mine", 30)
        ended.result()
    assert parts == [b"why", b"mine"] or parts == [b"why", b""]


@pytest.mark.parametrize("guilty", ["server", "other"])
def test_a_store_that_ends_with_its_process_is_kept_until_all_have_read(
        monkeypatch, guilty):
    monkeypatch.setattr(_bootstraps._OverStore, "_READING", 30)
    server_waits = threading.Event()

    class Slow(Store):
        """Lets the last rank read when the server waits for that."""

        def wait(self, keys, timeout):
            if any("/read/" in key for key in keys):
                server_waits.set()
            super().wait(keys, timeout)

        def get(self, key):
            if threading.current_thread() is threading.main_thread():
                assert server_waits.wait(10)
            return super().get(key)

    store = Slow()
    server, other, last = [
        _bootstraps._OverStore(store, rank, 3, is_server=rank == 0) for rank in range(3)]
    calls = [server.give_up, other] if guilty == "server" else [server, other.give_up]
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(call, b"mine", 30) for call in calls]
        assert last(b"late", 30) == [b"mine", b"mine", b"late"]
    assert [end.result() for end in ends].count(None) == 1


def test_nobody_waits_in_a_store_for_more_ranks_than_came(monkeypatch):
    monkeypatch.setattr(_bootstraps._OverStore, "_SLICE", 0.02)
    store = Store()
    ranks = [_bootstraps._OverStore(store, rank, 3) for rank in range(3)]
    ranks[1].give_up(b"why", 30)
    assert ranks[0](b"mine", float("inf")) == [b"mine", b"why", b""]
    assert ranks[2](b"late", 30) == [b"mine", b"why", b"late"]
    # Also where the limit is shorter than a slice.
    ranks = [_bootstraps._OverStore(store, rank, 3) for rank in range(3)]
    ranks[1].give_up(b"why", 30)
    assert ranks[0](b"mine", 0.01) == [b"mine", b"why", b""]


def test_who_has_all_bytes_in_a_store_knows_that_a_rank_gave_up(monkeypatch):
    """The server would end too early else, and others would get no bytes."""
    monkeypatch.setattr(_bootstraps._OverStore, "_SLICE", 0.02)
    given = []

    class Noting(Store):
        def set(self, key, value):
            super().set(key, value)
            given.append(key.rsplit("/", 1)[1])

    store = Noting()
    ranks = [_bootstraps._OverStore(store, rank, 3) for rank in range(3)]
    ranks[1]._give(b"why", gives_up=True)
    assert given == ["over", "1"]
    bytes_of_1 = store.values.popitem()
    with pytest.raises(TimeoutError, match="1 of 3 ranks"):
        ranks[0](b"mine", 0.1)
    store.set(*bytes_of_1)
    assert ranks[2](b"mine", 30) == [b"mine", b"why", b"mine"]


def test_a_store_with_another_error_is_not_asked_again():
    class Broken(Store):
        def wait(self, keys, timeout):
            raise ConnectionError("the server is gone")

    store = Broken()
    rank = _bootstraps._OverStore(store, 0, 1)
    with pytest.raises(ConnectionError, match="the server is gone"):
        rank(b"mine", 30)


def test_a_local_rank_below_zero_is_refused(monkeypatch):
    for name in _bootstraps.LOCAL_RANKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCAL_RANK", "-1")
    for shared in (False, True):
        with pytest.raises(devrt.InvalidArgumentError, match="LOCAL_RANK is -1, expected"):
            _bootstraps.device_here("mtia", shared)
