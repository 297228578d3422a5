# SPDX-License-Identifier: Apache-2.0
"""How "auto" chooses, and exchanges over stores and MPI, with their classes imitated."""

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


class Request:
    def __init__(self, is_done):
        self.is_done = is_done

    def Test(self):
        return self.is_done


class Duplicate:
    """Of a communicator of mpi4py with one rank."""

    def __init__(self):
        self.is_free = False

    def Iallgather(self, mine, everything):
        everything[:] = mine
        return Request(True)

    def Iallgatherv(self, mine, everything):
        everything[0][:] = mine[0]
        return Request(True)

    def Free(self):
        self.is_free = True


class Parent:
    """A program's own communicator, which devrt may only duplicate."""

    def __init__(self, others_come):
        self.others_come, self.made = others_come, []

    def Get_rank(self):
        return 0

    def Get_size(self):
        return 1

    def Idup(self):
        self.made.append(Duplicate())
        return self.made[-1], Request(self.others_come)

    def Iallgatherv(self, mine, everything):
        raise AssertionError("an exchange is on the program's communicator")

    Iallgather = Iallgatherv


@pytest.fixture
def mpi(monkeypatch):
    module = types.SimpleNamespace(BYTE="byte", Is_finalized=lambda: False)
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=module))
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)
    return module


def test_exchanges_are_on_a_duplicate_of_mpis_communicator(mpi):
    parent = Parent(others_come=True)
    _, _, all_gather = _bootstraps.connect(parent, None, None)
    for length in range(3):
        assert all_gather(b"x" * length, 30) == [b"x" * length]
    (duplicate,) = parent.made
    assert not duplicate.is_free
    del all_gather
    assert duplicate.is_free


def test_a_rank_of_mpi_that_does_not_come(mpi, monkeypatch):
    monkeypatch.setattr(_bootstraps, "_abandoned", [])
    parent = Parent(others_come=False)
    _, _, all_gather = _bootstraps.connect(parent, None, None)
    with pytest.raises(TimeoutError, match="not all of 1 MPI ranks"):
        all_gather(b"mine", 0.01)
    del all_gather
    assert not parent.made[0].is_free  # MPI still uses it
