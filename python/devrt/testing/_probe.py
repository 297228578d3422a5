# SPDX-License-Identifier: Apache-2.0
"""Kernels that keep a stream busy."""

from __future__ import annotations

from typing import Optional

from .. import _core
from .._core import Stream


def spin(milliseconds: float, stream: Optional[Stream] = None) -> None:
    """Enqueues a kernel that runs for that time of the device's clock.

    stream: None is the current stream.
    """
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, (int, float)):
        raise TypeError(
            f"milliseconds must be a number, not {type(milliseconds).__name__}"
        )
    if not 0 <= milliseconds <= 1e9:
        raise ValueError(f"milliseconds is {milliseconds}, expected 0 to 1e9")
    _core._spin(int(milliseconds * 1e6), stream)


def commit_fault(form: str = "null_write", stream: Optional[Stream] = None) -> None:
    """Enqueues a kernel that commits a fault, after which its device is lost.

    form: 'null_write', 'misaligned', 'assert' or 'trap'.
    stream: None is the current stream.
    """
    _core._commit_fault(form, stream)
