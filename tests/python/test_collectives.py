# SPDX-License-Identifier: Apache-2.0
"""devrt.collectives, on the two devices of mtia."""

import gc
import queue
import threading
import weakref

import pytest

import devrt
from devrt import _bootstraps, collectives


def full(rank, value, count=4, dtype="float32"):
    return devrt.full(count, value, dtype=dtype, device=rank.device)


def test_says_what_it_is(ranks, two):
    assert [(rank.rank, rank.size, rank.device) for rank in ranks] == [
        (0, 2, two[0]), (1, 2, two[1])]
    assert ranks[0].id == ranks[1].id
    assert ranks[0].provider[0] == "mtia"
    assert ranks[0].state == "ready"
    assert ranks[0].failure is None
    assert ranks[0].supports("all_reduce", "float32", "avg")
    assert "rank 1 of 2 on mtia:1, ready" in repr(ranks[1])


@pytest.mark.parametrize("op, expected", [
    ("sum", 8), ("prod", 15), ("min", 3), ("max", 5), ("avg", 4)])
def test_all_reduce_in_place(ranks, op, expected):
    values = [full(ranks[0], 3), full(ranks[1], 5)]
    with collectives.group():
        for rank, x in zip(ranks, values):
            assert rank.all_reduce(x, op=op) is x
    assert [x.tolist() for x in values] == [[expected] * 4] * 2


def test_every_operation(ranks):
    x = [devrt.arange(4, dtype="int32", device=rank.device) + 10 * rank.rank
         for rank in ranks]
    with collectives.group():
        gathered = [rank.all_gather(a) for rank, a in zip(ranks, x)]
    assert [a.tolist() for a in gathered] == [[0, 1, 2, 3, 10, 11, 12, 13]] * 2
    with collectives.group():
        parts = [rank.reduce_scatter(a) for rank, a in zip(ranks, x)]
    assert [a.tolist() for a in parts] == [[10, 12], [14, 16]]
    with collectives.group():
        swapped = [rank.all_to_all(a) for rank, a in zip(ranks, x)]
    assert [a.tolist() for a in swapped] == [[0, 1, 10, 11], [2, 3, 12, 13]]
    with collectives.group():
        for rank, a in zip(ranks, parts):
            rank.broadcast(a, 1)
    assert [a.tolist() for a in parts] == [[14, 16]] * 2
    with collectives.group():
        collected = [rank.gather(a, 1) for rank, a in zip(ranks, x)]
    assert collected[0] is x[0]
    assert collected[1].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    with collectives.group():
        ranks[0].scatter(None, 1, parts[0])
        ranks[1].scatter(x[1], 1, parts[1])
    assert [a.tolist() for a in parts] == [[10, 11], [12, 13]]
    with collectives.group():
        for rank, a in zip(ranks, x):
            rank.reduce(a, 0, op="max")
    assert x[0].tolist() == [10, 11, 12, 13]
    assert x[1].tolist() == [10, 11, 12, 13]  # as it was


def test_send_and_recv_in_a_group(ranks):
    a, b = full(ranks[0], 7), full(ranks[1], 0)
    with ranks[0].group():
        with collectives.group():  # a part of the outer one
            assert ranks[1].recv(b, 0) is b
        ranks[0].send(a, 1)
    assert b.tolist() == [7] * 4


def test_a_group_with_an_exception_does_nothing(ranks):
    x = full(ranks[0], 3)
    with pytest.raises(KeyError):
        with collectives.group():
            ranks[0].all_reduce(x)
            raise KeyError("no")
    assert ranks[0].records() == []
    assert x.tolist() == [3] * 4


def test_a_part_of_a_group_with_an_exception_does_nothing(ranks):
    a, b = full(ranks[0], 7), full(ranks[1], 0)
    with collectives.group():
        ranks[0].send(a, 1)
        with pytest.raises(KeyError):
            with collectives.group():
                ranks[0].all_reduce(a)
                raise KeyError("no")
        ranks[1].recv(b, 0)
    assert b.tolist() == [7] * 4
    assert len(ranks[0].records()) == 1


def test_a_group_inside_itself(ranks):
    a, b = full(ranks[0], 7), full(ranks[1], 0)
    group = collectives.group()
    with group:
        with group:
            ranks[1].recv(b, 0)
        assert ranks[1].records() == []
        ranks[0].send(a, 1)
    assert b.tolist() == [7] * 4
    with group:  # it can be used again
        ranks[0].send(a + 1, 1)
        ranks[1].recv(b, 0)
    assert b.tolist() == [8] * 4


def test_a_group_keeps_the_stream_of_each_operation(ranks):
    streams = [devrt.Stream(rank.device) for rank in ranks]
    with collectives.group():
        for rank, stream in zip(ranks, streams):
            with stream:
                rank.all_reduce(full(rank, 1))
    assert [rank.records()[0]["stream"] for rank in ranks] == [s.id for s in streams]


def test_records_say_what_was_called(ranks):
    with collectives.group():
        for rank in ranks:
            rank.all_reduce(full(rank, 1))
    devrt.synchronize(ranks[0].device)
    (call,) = ranks[0].records()
    assert (call["number"], call["sequence"]) == (1, 1)
    assert call["text"].startswith("all_reduce(float32 x 4")
    assert call["submit_ns"] > 0


def test_one_thread_ends_all_ranks(two):
    ranks = collectives.init_all(two)
    alone = collectives.split_all(ranks, [0, -1])
    assert alone[1] is None
    assert (alone[0].rank, alone[0].size) == (0, 1)
    alone[0].finish(timeout=30)
    (rest,) = collectives.shrink_all(ranks[:1], [1])
    assert rest.size == 1
    rest.finish(timeout=30)
    ranks = collectives.init_all(two, watch=False)
    collectives.finish_all(ranks, timeout=30)
    assert [rank.state for rank in ranks] == ["finished"] * 2


def test_ranks_stand_once_in_a_call(two):
    ranks = collectives.init_all(two)
    for call in (lambda: collectives.split_all([ranks[0]] * 2, [0, 0]),
                 lambda: collectives.shrink_all([ranks[0]] * 2, [1]),
                 lambda: collectives.finish_all([ranks[0]] * 2)):
        with pytest.raises(ValueError, match="twice: give each rank once"):
            call()
    assert [rank.state for rank in ranks] == ["ready"] * 2
    collectives.finish_all([])  # as before: none has to be finished
    collectives.finish_all(ranks, timeout=30)


def test_a_split_without_a_device_ends_at_once(run_program):
    done = run_program("""
        import time
        import devrt
        from devrt import collectives, simulator
        ranks = collectives.init_all(devrt.devices("mtia"), init_timeout=300)
        simulator.inject_fault("lost", device=1)
        try:
            devrt.ones(4, device="mtia:1").tolist()
        except devrt.Error as error:
            print(type(error).__name__)
        begin = time.monotonic()
        for call in (lambda: collectives.split_all(ranks, [0, 0]),
                     lambda: collectives.finish_all(ranks)):
            try:
                call()
            except devrt.Error as error:
                print("mtia:1" in str(error), time.monotonic() - begin < 30)
        """, env=THREADED)
    assert done.stdout.splitlines() == ["DeviceFaultError"] + ["True True"] * 2, (
        done.stdout + done.stderr)


# Here a wait of the main thread runs on another thread.
THREADED = {"DEVRT_MTIA": "devices=2,mode=threaded", "DEVRT_LOG": "off"}


def test_calls_that_wait_take_the_current_stream(run_program):
    done = run_program("""
        import devrt
        from devrt import collectives
        ranks = collectives.init_all(devrt.devices("mtia"))
        s = devrt.Stream("mtia:0")
        with s:
            ranks[0].all_reduce(devrt.ones(4, device="mtia:0"))
            try:
                ranks[0].wait(timeout=0.1)  # rank 1 has not come
            except devrt.Error as error:
                print(error.code)
        for rank in ranks:
            rank.abort()
        (alone,) = collectives.init_all(["mtia:0"])
        with s:
            alone.barrier()
            alone.split(0).finish()
            (child,) = collectives.split_all([alone], [0])
        print([call["stream"] == s.id for call in alone.records()])
        child.finish()
        alone.finish()
        """, env=THREADED)
    assert done.stdout.splitlines() == [
        "DEADLINE_EXCEEDED", "[True, True, True]"], done.stdout + done.stderr


@pytest.mark.parametrize("call", [
    "ranks[0].split(0)", "collectives.split_all(ranks[:1], [0])",
    "ranks[0].finish()", "collectives.finish_all(ranks[:1])"])
def test_a_call_that_waits_for_other_ranks_lets_ctrl_c_through(run_program, call):
    done = run_program(f"""
        import signal, threading
        import devrt
        from devrt import collectives
        ranks = collectives.init_all(devrt.devices("mtia"))
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        rescue = threading.Timer(8, ranks[0].abort)
        rescue.daemon = True
        rescue.start()
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            {call}  # rank 1 has not come
        except KeyboardInterrupt:
            print("interrupted", ranks[0].state)
        for rank in ranks:
            rank.abort()
        """, env=THREADED)
    assert done.stdout == "interrupted ready\n", done.stdout + done.stderr


def test_operations_that_differ_fail_both_ranks(ranks):
    values = [full(ranks[0], 3), full(ranks[1], 5, count=8)]
    with pytest.raises(collectives.CollectiveError) as raised:
        with collectives.group():
            for rank, x in zip(ranks, values):
                rank.all_reduce(x)
        ranks[0].wait()
    error = raised.value
    assert error.rank == 0
    assert error.sequence == 1
    assert "all_reduce(float32 x 4" in error.report
    assert "x 8" in str(error)
    assert isinstance(error, devrt.Error)
    assert devrt.CollectiveError is collectives.CollectiveError
    assert [rank.state for rank in ranks] == ["failed", "failed"]
    assert ranks[1].failure[0] == "INVALID_ARGUMENT"
    with pytest.raises(collectives.CollectiveError):
        ranks[1].all_reduce(values[1])


def test_an_error_keeps_no_communicator(two):
    ranks = collectives.init_all(two)
    ranks[0].abort("over")
    seen = [weakref.ref(rank) for rank in ranks]
    gc.disable()
    try:
        for call in (ranks[0].wait, lambda: collectives.finish_all(ranks),
                     lambda: ranks[0].all_reduce(full(ranks[0], 1))):
            with pytest.raises(collectives.CollectiveError) as raised:
                call()
            del raised, call
        ranks[1].abort("over")
        del ranks
        assert [rank() for rank in seen] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("make", [
    lambda ranks: [],
    lambda ranks: collectives.split_all(ranks, [0, 0]),
    lambda ranks: collectives.split_all(ranks, [0, -1]),
    lambda ranks: collectives.shrink_all(ranks[:1], [1]),
    lambda ranks: [collectives.init_all([ranks[0].device])[0].split(0)],
], ids=["init_all", "split_all", "split_all without one", "shrink_all", "split"])
def test_a_communicator_that_nobody_has_is_ended(two, make):
    """Its end frees memory that was registered when it was aborted."""
    before = [devrt.memory_allocated(device) for device in two]
    ranks = collectives.init_all(two)
    every = [rank for rank in [*ranks, *make(ranks)] if rank is not None]
    registrations = [rank.register(full(rank, 1)) for rank in every]
    for rank, registration in zip(every, registrations):
        rank.abort()
        registration.release()
    assert devrt.memory_allocated(two[0]) > before[0]
    del rank, ranks, every, registration, registrations
    assert [devrt.memory_allocated(device) for device in two] == before


def test_the_library_of_nccls_package_is_named(run_program, tmp_path):
    folder = tmp_path / "nvidia" / "nccl" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnccl.so.2").write_bytes(b"")
    # An installed package `nvidia` with a file comes before a folder without one.
    (tmp_path / "nvidia" / "__init__.py").write_text("", encoding="utf-8")
    source = """
        import os, sys
        sys.path.insert(0, sys.argv[1])
        for name in [name for name in sys.modules if name.split(".")[0] == "nvidia"]:
            del sys.modules[name]  # an installation may import it at the start
        import devrt
        from devrt import collectives
        named = collectives._core._set_nccl_library
        assert named("") is True  # not loaded yet
        collectives._core._set_nccl_library = print
        collectives.init_all(devrt.devices("mtia"))[0].abort()
        print(os.environ.get("DEVRT_NCCL_LIBRARY"))  # children inherit nothing
        """
    done = run_program(source, str(tmp_path))
    assert done.stdout.split() == [str(folder / "libnccl.so.2"), "None"], done.stderr


def exchanges(count):
    """An all_gather function for each rank, in one process."""
    rounds, lock = {}, threading.Condition()

    def make(rank):
        number = 0

        def all_gather(mine, timeout):
            nonlocal number
            number += 1
            with lock:
                parts = rounds.setdefault(number, {})
                parts[rank] = mine
                lock.notify_all()
                if not lock.wait_for(lambda: len(parts) == count, timeout):
                    raise TimeoutError("not all came")
                return [parts[i] for i in range(count)]

        return all_gather

    return [make(i) for i in range(count)]


def in_threads(functions):
    """Runs the functions at the same time; returns what each returned or raised."""
    results = queue.Queue()

    def run(i, function):
        try:
            results.put((i, function()))
        except Exception as error:
            results.put((i, error))

    threads = [threading.Thread(target=run, args=pair)
               for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [result for _, result in sorted(
        (results.get() for _ in functions), key=lambda pair: pair[0])]


def test_a_thread_for_each_rank(two):
    meeting = exchanges(2)

    def run(rank):
        def body():
            comm = collectives.init(two[rank], meeting[rank], rank=rank, size=2)
            total = comm.all_reduce(full(comm, rank + 1)).tolist()
            comm.barrier(timeout=30)
            half = comm.split(rank, 0)
            alone = half.all_reduce(full(half, 9)).tolist()
            half.finish(timeout=30)
            comm.finish(timeout=30)
            return total, alone, comm.state
        return body

    assert in_threads([run(0), run(1)]) == [([3] * 4, [9] * 4, "finished")] * 2


@pytest.mark.parametrize("variable", [
    "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"])
def test_the_launcher_chooses_the_device(two, monkeypatch, variable):
    for name in _bootstraps.LOCAL_RANKS:
        monkeypatch.delenv(name, raising=False)

    def device_of(device, **options):
        comm = collectives.init(device, lambda mine, timeout: [mine], rank=0, size=1,
                                **options)
        comm.finish()
        return comm.device

    # The backend of the tests need not be the first of the process.
    devrt.set_device(two[0])
    assert device_of(None) == devrt.current_device("mtia") == two[0]
    monkeypatch.setenv(variable, "1")
    assert device_of(None) == device_of("mtia") == two[1]
    assert device_of(two[0]) == device_of("mtia:0") == device_of(0) == two[0]
    monkeypatch.setenv(variable, "2")
    with pytest.raises(devrt.InvalidArgumentError, match=f"{variable} is 2.*2 devices"):
        device_of(None)
    assert device_of("mtia", shared_device=True) == two[0]
    monkeypatch.setenv(variable, "two")
    with pytest.raises(devrt.InvalidArgumentError, match="expected a number"):
        device_of(None)
    # The launcher may show each process one device.
    monkeypatch.setattr(_bootstraps._core, "devices", lambda backend: [two[0]])
    monkeypatch.setenv(variable, "2")
    assert device_of(None) == two[0]


def test_an_exception_of_the_bootstrap_is_raised(two):
    def refuse(mine, timeout):
        raise LookupError("no network")

    with pytest.raises(LookupError, match="no network"):
        collectives.init(two[0], refuse, rank=0, size=2)


def test_a_folder(two, tmp_path):
    tmp_path.chmod(0o700)

    def run(rank):
        def body():
            comm = collectives.init(two[rank], tmp_path / "job", rank=rank, size=2,
                                    watch=False)
            total = comm.all_reduce(full(comm, rank + 1)).tolist()
            comm.finish(timeout=30)
            return total
        return body

    assert in_threads([run(0), run(1)]) == [[3] * 4] * 2


def test_records_let_other_threads_run(two, tmp_path):
    """Each rank that asks for its records finds the failure, and waits for the other's."""
    tmp_path.chmod(0o700)

    def make(rank):
        return lambda: collectives.init(two[rank], tmp_path / "job", rank=rank, size=2,
                                        exchange_records=True)

    ranks = in_threads([make(0), make(1)])
    ranks[0].all_reduce(full(ranks[0], 1))
    ranks[1].broadcast(full(ranks[1], 1), 0)
    devrt.synchronize(two[0])
    in_threads([ranks[0].records, ranks[1].records])
    for rank in ranks:
        assert "over the bootstrap: they differ at 1" in rank.failure[1]


def test_the_ranks_compare_their_calls(two):
    meeting = exchanges(2)

    def run(rank):
        def body():
            comm = collectives.init(two[rank], meeting[rank], rank=rank, size=2,
                                    check_signatures=True)
            with pytest.raises(ValueError) as differ:
                comm.all_reduce(full(comm, 1, count=3 + rank))
            total = comm.all_reduce(full(comm, rank + 1)).tolist()
            comm.finish(timeout=30)
            return str(differ.value), total
        return body

    for text, total in in_threads([run(0), run(1)]):
        assert "rank 0: all_reduce(float32 x 3, sum)" in text
        assert "rank 1: all_reduce(float32 x 4, sum)" in text
        assert "test_collectives.py" in text
        assert total == [3] * 4
