# SPDX-License-Identifier: Apache-2.0
"""A simulator's timeline as a picture."""

from __future__ import annotations

import html
import os
from typing import Any, Dict, List, Tuple

_COLOURS = {
    "compute": "#4c78a8",
    "h2d": "#f58518",
    "d2h": "#e45756",
    "p2p": "#72b7b2",
    "host": "#b279a2",
}
_OTHER = "#9d9d9d"
_WIDTH, _LEFT, _LANE, _TOP = 900, 130, 30, 40


def _scale(nanoseconds: int) -> Tuple[int, str]:
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if nanoseconds >= size:
            return size, unit
    return 1, "ns"


def _step(nanoseconds: int) -> int:
    """A round distance of which there are two to ten in that time."""
    step = 1
    while step * 10 < nanoseconds:
        step *= 10
    for part in (5, 2, 1):
        if nanoseconds >= 2 * step * part:
            return step * part
    return max(1, step // 2)


def _box(op: Dict[str, Any], x: float, y: int, width: float) -> List[str]:
    name = str(op["name"] or op["kind"])
    file = os.path.basename(op["file"])
    where = f"\n{file}:{op['line']}" if file else ""
    tip = f"{name}\n{op['begin_ns']} to {op['end_ns']} ns ({op['state']}){where}"
    colour = _COLOURS.get(op["engine"], _OTHER)
    parts = [
        f'<g><title>{html.escape(tip)}</title><rect x="{x:.1f}" y="{y + 4}" '
        f'width="{max(width, 1.5):.1f}" height="{_LANE - 8}" rx="2" '
        f'fill="{colour}"/>'
    ]
    room = int((width - 6) / 6.2)
    if room >= 3:
        shown = name if len(name) <= room else name[: room - 1] + "…"
        parts.append(
            f'<text x="{x + 4:.1f}" y="{y + 19}" fill="#fff">'
            f"{html.escape(shown)}</text>"
        )
    return [*parts, "</g>"]


def _axis(begin: int, span: int, bottom: int) -> List[str]:
    size, unit = _scale(span)
    step, parts, at = _step(span), [], 0
    while at <= span:
        x = _LEFT + at * (_WIDTH - _LEFT - 40) / span
        parts.append(
            f'<path d="M{x:.1f} {_TOP}V{bottom}" stroke="#ddd"/>'
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">'
            f"{at / size:g} {unit}</text>"
        )
        at += step
    return parts


class Svg(str):
    """Text that notebooks show as the picture that it is."""

    def _repr_svg_(self) -> str:
        return str(self)


def svg(operations: List[Dict[str, Any]], title: str = "") -> Svg:
    """One lane per stream; what takes no time is a line.

    The picture begins with the first operation.  Those that have not ended are
    left out.
    """
    ended = [op for op in operations if op["state"] not in ("pending", "running")]
    lanes = sorted({(op["device"], op["stream"]) for op in ended})
    begin = min((op["begin_ns"] for op in ended), default=0)
    span = max([op["end_ns"] - begin for op in ended] + [1])
    bottom = _TOP + _LANE * len(lanes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
        f'height="{bottom + 28}" font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{bottom + 28}" fill="#fff"/>',
        f'<text x="8" y="22" font-size="14">{html.escape(title)}</text>',
        *_axis(begin, span, bottom),
    ]
    for index, (device, stream) in enumerate(lanes):
        y = _TOP + _LANE * index
        parts.append(
            f'<text x="8" y="{y + 19}">device {device}, stream {stream}</text>'
        )
        for op in ended:
            if (op["device"], op["stream"]) == (device, stream):
                scale = (_WIDTH - _LEFT - 40) / span
                x = _LEFT + (op["begin_ns"] - begin) * scale
                parts += _box(op, x, y, (op["end_ns"] - op["begin_ns"]) * scale)
    return Svg("\n".join([*parts, "</svg>", ""]))
