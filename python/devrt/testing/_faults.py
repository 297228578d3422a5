# SPDX-License-Identifier: Apache-2.0
"""Faults of calls, by the layer `faults`."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Union

from .. import _core


class FaultError(AssertionError):
    """A body handles a fault wrongly. The text names the fault, and how to repeat it."""


def enable_faults() -> None:
    """Puts the layer `faults` in front of each backend.

    Call it before the first use of a device, as in conftest.py, or set
    DEVRT_LAYERS=faults.
    """
    _core._enable_faults()


def set_faults(
    rules: Union[str, List[Dict[str, Any]]] = "", backend: str = "mtia"
) -> None:
    """Replaces the rules by which calls of a backend fail; without arguments, ends them.

    rules: as in DEVRT_FAULTS, "oom:nth=2", or a list of dicts,
    [{"class": "oom", "nth": 2}].

    Raises InvalidArgumentError for a mistake, and Error if the layer is not loaded.
    """
    if isinstance(rules, list):
        rules = json.dumps({"faults": rules})
    if not isinstance(rules, str):
        raise TypeError(f"rules must be a str or a list, not {type(rules).__name__}")
    _core._set_faults(rules, backend)
