# SPDX-License-Identifier: Apache-2.0
"""What CollectiveError and the recorder's report say of a failure, on mtia."""

import os
import re
import subprocess
import sys

import pytest

import devrt
from devrt import collectives


def full(rank, value, count=4):
    return devrt.full(count, value, dtype="float32", device=rank.device)


def test_the_report_says_what_is_complete(ranks):
    values = [full(rank, 1) for rank in ranks]
    with collectives.group():
        ranks[0].send(values[0], 1)
        ranks[1].recv(values[1], 0)
    with collectives.group():
        for rank, x in zip(ranks, values):
            rank.all_reduce(x)
    assert values[0].tolist() == [2] * 4
    with pytest.raises(collectives.CollectiveError) as raised:
        with collectives.group():
            ranks[0].all_reduce(values[0])
            ranks[1].broadcast(values[1], 0)
        ranks[0].wait()
    assert raised.value.sequence == 2
    ends = [line.rpartition(" (")[2] for line in raised.value.report.splitlines()]
    assert ends == ["complete)", "complete)", "not known to be complete)"]


def test_calls_that_differ_are_told_with_their_lines(ranks):
    values = [full(ranks[0], 1), full(ranks[1], 1, count=8)]
    line = sys._getframe().f_lineno + 2
    with collectives.group():
        ranks[0].all_reduce(values[0])
        ranks[1].all_reduce(values[1])
    with pytest.raises(collectives.CollectiveError) as raised:
        ranks[0].wait()
    for rank in range(2):
        assert re.search(rf"rank {rank}: all_reduce #1 \([^)]*\) at "
                         rf"\S*test_collectives_reports.py:{line + rank}\b",
                         str(raised.value)), raised.value


def test_the_first_call_that_may_have_failed(ranks):
    x = full(ranks[0], 1)
    for _ in range(2):
        ranks[0].all_reduce(x)
    ranks[0].abort("over")
    with pytest.raises(collectives.CollectiveError, match="between 1 all_red") as raised:
        ranks[0].wait()
    assert raised.value.sequence == 1


def test_the_report_finds_the_guilty_line(run_program, tmp_path):
    tool = os.environ.get("DEVRT_TOOL")
    if not tool:
        pytest.skip("the command is not built")
    done = run_program("""
        import devrt
        from devrt import collectives
        ranks = collectives.init_all(devrt.devices("mtia"), timeout=1.0, name="grads")
        x = [devrt.ones(8, device=rank.device) for rank in ranks]
        for step in range(2):
            with collectives.group():
                for rank, a in zip(ranks, x):
                    if step == 1 and rank.rank == 3:
                        rank.all_gather(a)          # the guilty line
                    else:
                        rank.all_reduce(a)
        try:
            ranks[0].wait()
        except collectives.CollectiveError as error:
            print(error.rank, error.sequence)
        """, env={"DEVRT_MTIA": "devices=8,collective_mismatch=hang",
                  "DEVRT_COLLECTIVES_RECORD": str(tmp_path), "DEVRT_LOG": "off"})
    assert done.stdout.split() == ["0", "2"], done.stderr
    report = subprocess.run([tool, "collectives", "report", tmp_path],
                            capture_output=True, text=True, timeout=60)
    assert report.returncode == 0, report.stderr
    assert "grads" in report.stdout
    lines = report.stdout.splitlines()
    assert lines[0].endswith("they differ at 2")
    assert lines[1].split() == ["rank", "3", "is", "at", "2", "all_gather(float64",
                                "x", "8)", "<string>:10"]
    assert "ranks 0-2, 4-7 are at 2 all_reduce" in lines[2]
    assert lines[2].endswith("<string>:12")


def test_a_sibling_of_what_failed_has_no_number(two):
    failing, sibling = (collectives.init_all(two, name=name) for name in "ab")
    values = [full(rank, 1, count=4 + rank.rank) for rank in failing]
    with collectives.group():
        for rank, value in zip(failing, values):
            rank.all_reduce(value)
    with pytest.raises(devrt.CollectiveError) as failure:
        failing[0].wait()
    assert failure.value.sequence == 1
    with pytest.raises(devrt.CollectiveError, match="because another one") as failure:
        sibling[0].all_reduce(values[0])
    assert failure.value.sequence == 0
