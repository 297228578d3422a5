# SPDX-License-Identifier: Apache-2.0
"""The bootstrap's function of a communicator that compares its calls, on mtia."""

import gc
import weakref

import pytest

import devrt
from devrt import collectives


def full(rank, value):
    return devrt.full(4, value, dtype="float32", device=rank.device)


def test_the_function_of_a_bootstrap_may_have_the_communicator(two):
    class Trainer:
        def __init__(self):
            self.comm = collectives.init(two[0], self.gather, rank=0, size=1,
                                         check_signatures=True)

        def gather(self, mine, timeout):
            return [mine]

    trainer = Trainer()
    gc.collect()
    trainer.comm.all_reduce(full(trainer.comm, 1))
    registration = trainer.comm.register(full(trainer.comm, 1))
    left = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert left() is not None  # the registration keeps the communicator
    del registration
    gc.collect()
    assert left() is None


@pytest.mark.parametrize("error, raised", [
    (ValueError, collectives.CollectiveError), (KeyboardInterrupt, KeyboardInterrupt)])
def test_an_exception_of_the_bootstrap_ends_a_comparison(two, error, raised):
    is_broken = False

    def alone(mine, timeout):
        if is_broken:
            raise error("no bytes")
        return [mine]

    comm = collectives.init(two[0], alone, rank=0, size=1, check_signatures=True)
    comm.all_reduce(full(comm, 1))
    is_broken = True
    with pytest.raises(raised) as found:
        comm.all_reduce(full(comm, 1))
    if raised is not KeyboardInterrupt:
        assert ("the ranks could not compare their calls at 2: the bootstrap raised "
                "ValueError: no bytes") in str(found.value)
    assert comm.state == "failed"
    with pytest.raises(collectives.CollectiveError):
        comm.all_reduce(full(comm, 1))
