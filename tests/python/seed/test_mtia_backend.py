# SPDX-License-Identifier: Apache-2.0
"""Of PyTorch's test_cpp_extensions_mtia_backend: all 5."""

import pytest

import devrt
from devrt import mtia


def test_get_device_module():
    device = devrt.device("mtia:0")
    module = devrt.get_device_module(device)
    assert module is mtia and devrt.get_device_module("mtia:0") is mtia
    assert module.current_stream().device_type == int(devrt.DeviceType.MTIA)


def test_stream_basic():
    current = mtia.current_stream()
    assert current.stream_id == 0 and current == mtia.default_stream()
    user = mtia.Stream()
    assert mtia.current_stream() == current and user != current
    assert user.stream_id != 0
    with mtia.stream(user):
        assert mtia.current_stream() == user
    assert user.query()
    current.synchronize()
    assert current.query()


def test_stream_context():
    first, second = mtia.Stream(device="mtia:0"), mtia.Stream(device="mtia:0")
    for stream in (first, second):
        with mtia.stream(stream):
            assert mtia.current_stream() == stream


def test_stream_context_different_device():
    for index in (0, 1):
        stream = mtia.Stream(device=devrt.device("mtia", index))
        with mtia.stream(stream):
            assert mtia.current_device() == index
            assert mtia.current_stream() == stream
        assert mtia.current_device() == 0
        assert mtia.current_stream() == mtia.default_stream()


@pytest.mark.parametrize("index", [0, 1])
def test_device_context(index):
    with mtia.device(devrt.device("mtia", index)):
        assert mtia.current_device() == index
    assert mtia.current_device() == 0
