# SPDX-License-Identifier: Apache-2.0
"""What devrt.collectives says of bad arguments, on the two devices of mtia."""

import pytest

import devrt
from devrt import collectives


NO_ARRAY = "expected a devrt.Array, not NoneType"


def full(rank, value, count=4):
    return devrt.full(count, value, dtype="float32", device=rank.device)


def test_bad_arguments(ranks, two):
    x = full(ranks[0], 1)
    with pytest.raises(devrt.InvalidArgumentError, match="op is 'mean'"):
        ranks[0].all_reduce(x, op="mean")
    with pytest.raises(TypeError, match="expected a devrt.Array, not list"):
        ranks[0].broadcast([1], 0)
    with pytest.raises(devrt.InvalidArgumentError, match="mtia:1"):
        ranks[0].all_reduce(full(ranks[1], 1))
    with pytest.raises(devrt.InvalidArgumentError, match="multiple"):
        ranks[0].reduce_scatter(full(ranks[0], 1, count=3))
    with pytest.raises(devrt.InvalidArgumentError, match="on_failure"):
        collectives.init_all(two, on_failure="cry")
    with pytest.raises(TypeError, match="bootstrap must be"):
        collectives.init(bootstrap=3)
    with pytest.raises(devrt.InvalidArgumentError, match="RANK and WORLD_SIZE"):
        collectives.init(bootstrap="/tmp/folder")
    assert ranks[0].state == "ready"


@pytest.mark.parametrize("call, error, text", [
    (lambda rank, x: rank.all_reduce(x, op=None), TypeError, "op is None, expected a str"),
    (lambda rank, x: rank.broadcast(x, 2**40), ValueError, "root is 1099511627776, which"),
    (lambda rank, x: rank.broadcast(x, 2**70), ValueError, "root is 1180591620717411303424"),
    (lambda rank, x: rank.broadcast(x, "0"), TypeError, "root is '0', expected an int"),
    (lambda rank, x: rank.broadcast(x, True), TypeError, "root is True, expected an int"),
    (lambda rank, x: rank.send(x, 1.0), TypeError, "peer is 1.0, expected an int"),
    (lambda rank, x: rank.wait(timeout="1"), TypeError, "timeout is '1', expected seconds"),
    (lambda rank, x: rank.wait(timeout=float("nan")), ValueError, "timeout is nan, exp"),
    (lambda rank, x: rank.split("0"), TypeError, "color is '0', expected an int"),
    (lambda rank, x: rank.split(None), TypeError, "color is None, expected an int"),
    (lambda rank, x: rank.split(0, None), TypeError, "key is None, expected an int"),
    (lambda rank, x: rank.shrink(0), TypeError, "gone is 0, expected a list of ints"),
    (lambda rank, x: rank.shrink(None), TypeError, "gone is None, expected a list of ints"),
    (lambda rank, x: rank.shrink([None]), TypeError, "gone is None, expected an int"),
    (lambda rank, x: rank.abort(3), TypeError, "why is 3, expected a str"),
    (lambda rank, x: collectives.split_all([rank], None), TypeError,
     "colors is None, expected a list of ints"),
    (lambda rank, x: collectives.split_all([rank], [0], 1), TypeError,
     "keys is 1, expected a list of ints"),
    (lambda rank, x: collectives.shrink_all([rank], 1), TypeError,
     "gone is 1, expected a list of ints"),
    (lambda rank, x: collectives.finish_all([rank, 3]), TypeError,
     "ranks has 3, expected Communicators"),
    (lambda rank, x: rank.supports("all_reduce", "int8", None), TypeError,
     "op is None, expected a str"),
    (lambda rank, x: rank.shrink(["1"]), TypeError, "gone is '1', expected an int"),
    (lambda rank, x: rank.supports("sum", "int8"), ValueError, "operation is 'sum', exp"),
    (lambda rank, x: rank.all_reduce(None), TypeError, NO_ARRAY),
    (lambda rank, x: rank.all_reduce(None, x), TypeError, NO_ARRAY),
    (lambda rank, x: rank.reduce(None, 0, x), TypeError, NO_ARRAY),
    (lambda rank, x: rank.broadcast(None, 0), TypeError, NO_ARRAY),
    (lambda rank, x: rank.all_gather(None), TypeError, NO_ARRAY),
    (lambda rank, x: rank.all_gather(None, x), TypeError, NO_ARRAY),
    (lambda rank, x: rank.reduce_scatter(None), TypeError, NO_ARRAY),
    (lambda rank, x: rank.all_to_all(None, x), TypeError, NO_ARRAY),
    (lambda rank, x: rank.gather(None, 0), TypeError, NO_ARRAY),
    (lambda rank, x: rank.gather(None, 0, x), TypeError, NO_ARRAY),
    (lambda rank, x: rank.scatter(x, 0, None), TypeError, NO_ARRAY),
    (lambda rank, x: rank.send(None, 1), TypeError, NO_ARRAY),
    (lambda rank, x: rank.recv(None, 1), TypeError, NO_ARRAY),
    (lambda rank, x: rank.all_gather([1]), TypeError, "expected a devrt.Array, not list"),
    (lambda rank, x: collectives.init_all("mtia"), TypeError,
     "devices is 'mtia', expected a list of devices: devrt.devices('mtia')"),
    (lambda rank, x: collectives.init(x.device, "", rank=0, size=1), ValueError,
     "bootstrap is '', expected"),
])
def test_a_bad_argument_is_named_with_its_value(ranks, call, error, text):
    with pytest.raises(error) as raised:
        call(ranks[0], full(ranks[0], 1))
    assert text in str(raised.value)
    assert ranks[0].state == "ready" and ranks[0].records() == []


@pytest.mark.parametrize("options, error, text", [
    ({"timeout": float("nan")}, ValueError, "timeout is nan, expected seconds, or None"),
    ({"init_timeout": "5"}, TypeError, "init_timeout is '5', expected seconds, or None"),
    ({"timeout": 10**400}, ValueError, "0000, expected seconds, or None"),
    ({"timeout": 0}, ValueError, "absl::InfiniteDuration(), in Python None"),
    ({"name": 3}, TypeError, "name is 3, expected a str"),
    ({"shared_device": 1}, TypeError, "shared_device must be a bool, not int"),
    ({"watch": None}, TypeError, "watch must be a bool, not NoneType"),
])
def test_a_bad_option_is_named_with_its_value(two, options, error, text):
    with pytest.raises(error) as raised:
        collectives.init_all(two, **options)
    assert text in str(raised.value)


def test_ranks_that_share_a_device_are_told_of_pythons_argument(two):
    with pytest.raises(devrt.Error) as raised:
        collectives.init_all([two[0], two[0]])
    assert raised.value.code == "FAILED_PRECONDITION"
    assert str(raised.value).endswith("; for tests take shared_device=True")


@pytest.mark.parametrize("parts, text", [
    (None, "the bootstrap returned NoneType, expected a list with the bytes of each rank"),
    ([b"", 1], "the bootstrap returned int for rank 1, expected bytes"),
])
def test_a_bootstrap_that_returns_no_bytes(two, parts, text):
    with pytest.raises(devrt.Error) as raised:
        collectives.init(two[0], lambda mine, timeout: parts, rank=0, size=2)
    assert text in str(raised.value) and raised.value.code == "DATA_LOSS"


@pytest.mark.parametrize("options", [(), (1,) * 10, [], "01234567890"])
def test_options_are_those_of_init(options):
    with pytest.raises(TypeError, match="tuple of options is .*, expected that of init"):
        devrt._core._create_ranks([], options)
    with pytest.raises(TypeError, match="expected that of init"):
        devrt._core._create_ranks([], devrt.ones((0, 2)))


def test_a_rank_of_its_own_fault_says_so_though_nobody_comes(two):
    """The reason goes before the exception of a function that nobody answers."""
    def alone(mine, timeout):
        raise TimeoutError("nobody came")

    with pytest.raises(ValueError, match="init_timeout is"):
        collectives.init(two[0], alone, rank=0, size=2, timeout=0)


def test_ctrl_c_in_a_bootstrap_function_is_raised(two):
    def interrupted(mine, timeout):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collectives.init(two[0], interrupted, rank=0, size=2, timeout=0)


def test_a_bootstrap_function_that_raises_is_not_called_again(two):
    calls = []

    def refuse(mine, timeout):
        calls.append(timeout)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        collectives.init(two[0], refuse, rank=0, size=2)
    assert len(calls) == 1


@pytest.mark.parametrize("item", [None, 3])
def test_calls_of_all_ranks_refuse_what_is_no_rank(item):
    core = devrt._core
    for call in (lambda: core._split_ranks([item], [0], [0]),
                 lambda: core._shrink_ranks([item], [0]),
                 lambda: core._finish_ranks([item], None)):
        with pytest.raises(TypeError, match="an item that is no rank"):
            call()
