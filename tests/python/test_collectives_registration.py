# SPDX-License-Identifier: Apache-2.0
"""Communicator.register, on two devices of mtia, over NCCL on two GPUs, and over the fake
NCCL, which names the last call that it got.  Two ranks of NCCL can also have one GPU, from
2.30 on and with NCCL_MULTI_RANK_GPU_ENABLE=1."""

import ctypes
import gc
import os
import threading
import weakref

import pytest

import devrt
from devrt import collectives

BACKEND = os.environ.get("DEVRT_TEST_BACKEND", "mtia")


def make(count=2, **options):
    """Communicators without a watch, whose polls would be calls of NCCL, too."""
    devices = devrt.devices(BACKEND)[:count]
    if len(devices) < count:
        if os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE") != "1":
            pytest.skip("needs two GPUs")
        devices, options["shared_device"] = devices * count, True
    return collectives.init_all(devices, watch=False, **options)


def all_reduce(ranks, values):
    """Sums the values on all ranks.  Each rank has a stream, as ranks of one device need."""
    with collectives.group():
        for rank, x in zip(ranks, values):
            rank.all_reduce(x, stream=devrt.Stream(rank.device))


def full(rank, value=1, count=256):
    return devrt.full(count, value, dtype="float32", device=rank.device)


def held(rank):
    """Bytes of the rank's device that are allocated."""
    return devrt.memory_allocated(rank.device)


def fake_nccl():
    """The fake NCCL; None on mtia, and over NCCL itself."""
    path = os.environ.get("DEVRT_NCCL_LIBRARY")
    library = ctypes.CDLL(path) if BACKEND != "mtia" and path else None
    return library if hasattr(library, "fake_nccl_last_call") else None


def last_call():
    """The name of the fake NCCL's last call; None without it."""
    nccl = fake_nccl()
    if nccl is None:
        return None
    nccl.fake_nccl_last_call.restype = ctypes.c_char_p
    return nccl.fake_nccl_last_call().decode()


@pytest.fixture
def pair():
    made = make()
    yield made
    for rank in made:
        rank.abort("the test is over")


def test_operations_on_registered_memory(pair):
    values = [full(rank, 1 + rank.rank) for rank in pair]
    with pair[0].register(values[0]) as first, pair[1].register(values[1]):
        assert isinstance(first, collectives.Registration)
        assert last_call() in (None, "ncclCommRegister")
        for _ in range(2):
            all_reduce(pair, values)
    assert last_call() in (None, "ncclCommDeregister")
    assert [x.tolist() for x in values] == [[6.0] * 256] * 2
    assert [rank.state for rank in pair] == ["ready", "ready"]


@pytest.mark.parametrize("how", ["release", "block", "exception", "end of the object"])
def test_it_keeps_the_memory_until_its_release(pair, how):
    rank = pair[0]
    before = held(rank)
    registration = rank.register(full(rank))
    assert held(rank) > before
    if how == "release":
        assert registration.release() is None
    elif how == "block":
        with registration as same:
            assert same is registration
    elif how == "exception":
        with pytest.raises(KeyError):
            with registration:
                raise KeyError("no")
    else:
        del registration
    assert held(rank) == before
    assert last_call() in (None, "ncclCommDeregister")


def test_the_second_release_does_nothing(pair):
    with pair[0].register(full(pair[0])) as registration:
        registration.release()
        calls = pair[0].records()
        registration.release()
    registration.release()
    assert pair[0].records() == calls == []
    assert pair[0].state == "ready"


def test_memory_of_no_bytes_and_one_array_twice(pair):
    x = full(pair[0])
    with pair[0].register(x[:0]), pair[0].register(x), pair[0].register(x):
        all_reduce(pair, (x, full(pair[1])))
    assert x.tolist() == [2.0] * 256


@pytest.mark.parametrize("wrong, name", [
    (None, "NoneType"), ([1.0], "list"), (1, "int"), (b"1234", "bytes"),
    (memoryview(b"1234"), "memoryview")])
def test_another_type_is_refused(pair, wrong, name):
    with pytest.raises(TypeError) as raised:
        pair[0].register(wrong)
    assert str(raised.value) == f"expected a devrt.Array, not {name}"
    with pytest.raises(TypeError):
        pair[0].register()


def test_another_array_is_refused(pair):
    rank, grid = pair[0], devrt.zeros((2, 2), device=pair[0].device)
    elsewhere = [] if pair[1].device == rank.device else [
        (full(pair[1]), f"register: array is in {BACKEND}:1 and the communicator on "
                        f"{BACKEND}:0: copy it there")]
    for wrong, text in [
            *elsewhere,
            (devrt.zeros(4, device="cpu"), "register: array is in cpu"),
            (devrt.empty(4, device=rank.device, pinned=True), "register: array is in "),
            (grid[:, 0], "array of shape (2,) is not C-contiguous: use contiguous()")]:
        with pytest.raises(devrt.InvalidArgumentError) as raised:
            rank.register(wrong)
        assert text in str(raised.value)
    assert rank.state == "ready"


def test_memory_that_is_released_after_finish_stays_until_the_end():
    (rank,) = make(1)
    before = held(rank)
    registration = rank.register(full(rank))
    rank.finish()
    with pytest.raises(devrt.Error) as raised:
        rank.register(full(rank))
    assert raised.value.code == "FAILED_PRECONDITION"
    registration.release()
    assert held(rank) > before
    device = rank.device
    del rank, raised
    gc.collect()
    assert devrt.memory_allocated(device) == before


def test_an_aborted_communicator():
    ranks = make()
    before = held(ranks[0])
    registration = ranks[0].register(full(ranks[0]))
    for rank in ranks:
        rank.abort("over")
    with pytest.raises(collectives.CollectiveError, match="over"):
        ranks[0].register(full(ranks[0]))
    registration.release()
    device = ranks[0].device
    del rank, ranks, registration
    gc.collect()
    assert devrt.memory_allocated(device) == before


@pytest.mark.parametrize("order", ["communicator", "registration", "cycle"])
def test_neither_needs_the_other_to_end_first(order):
    (rank,) = make(1)
    device, before = rank.device, held(rank)
    registration = rank.register(full(rank))
    seen = weakref.ref(rank)
    if order == "cycle":
        rank.registration, registration.rank = registration, rank
        del rank, registration
    elif order == "communicator":
        del rank
        # The engine's place lives on: it has to take the memory back.
        assert seen() is None and devrt.memory_allocated(device) > before
        del registration
    else:
        del registration
        assert devrt.memory_allocated(device) == before
        del rank
    gc.collect()
    assert seen() is None and devrt.memory_allocated(device) == before


def test_a_release_waits_for_the_last_work_or_the_failure():
    if BACKEND != "mtia" and fake_nccl() is None:
        pytest.skip("NCCL takes no first submission of a rank alone")
    ranks = make(timeout=0.2)
    x = full(ranks[0])
    with ranks[0].register(x):
        ranks[0].all_reduce(x)  # rank 1 does not come
    assert ranks[0].state == "failed"
    with pytest.raises(collectives.CollectiveError):
        ranks[0].wait()
    ranks[1].abort()


def test_a_release_lets_ctrl_c_through(run_program):
    done = run_program("""
        import signal, threading
        import devrt
        from devrt import collectives
        ranks = collectives.init_all(devrt.devices("mtia"))
        x = devrt.ones(4, device=ranks[0].device)
        registration = ranks[0].register(x)
        ranks[0].all_reduce(x)  # rank 1 does not come
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        rescue = threading.Timer(8, ranks[0].abort)
        rescue.daemon = True
        rescue.start()
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            registration.release()
        except KeyboardInterrupt:
            print("interrupted", ranks[0].state)
        registration.release()  # the first one goes on in the background
        for rank in ranks:
            rank.abort()
        """, env={"DEVRT_MTIA": "devices=2,mode=threaded", "DEVRT_BACKENDS": "mtia"})
    assert done.stdout == "interrupted ready\n", done.stdout + done.stderr


def test_a_release_on_another_thread(pair):
    before = held(pair[0])
    registration = pair[0].register(full(pair[0]))
    thread = threading.Thread(target=registration.release)
    thread.start()
    thread.join()
    assert held(pair[0]) == before


def test_an_engine_without_registration(run_program):
    if fake_nccl() is None:
        pytest.skip("mtia and NCCL have registration, and one of the fakes lacks it")
    folder = os.path.dirname(os.environ["DEVRT_NCCL_LIBRARY"])
    done = run_program("""
        import ctypes, os
        import devrt
        from devrt import collectives
        rank, = collectives.init_all(["cuda:0"], watch=False)
        nccl = ctypes.CDLL(os.environ["DEVRT_NCCL_LIBRARY"])
        assert not hasattr(nccl, "ncclCommRegister")
        calls = nccl.fake_nccl_calls()
        x = devrt.ones(4, device=rank.device)
        with rank.register(x) as registration:
            assert nccl.fake_nccl_calls() == calls
            rank.all_reduce(x)
        registration.release()
        rank.wait()
        print(rank.state, x.tolist())
        rank.finish()
        """, env={"DEVRT_NCCL_LIBRARY": os.path.join(folder, "libnccl_required.so.2")})
    assert done.stdout == "ready [1.0, 1.0, 1.0, 1.0]\n", done.stdout + done.stderr
