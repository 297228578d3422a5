#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the small picture of README.md: the timeline of `devrt demo`, without its events.

usage: scripts/front_picture.py DEVRT > docs/pictures/front.svg

DEVRT is the command, build/tools/devrt. The demo's own picture is 1200 pixels wide: beside
the text of README.md its words could not be read.
"""

import json
import subprocess
import sys

WIDTH, LEFT, RIGHT = 430, 116, 420
TOP, ROW, BAR = 46, 27, 20
COLOURS = {"copy to device": "#1f6fb4", "kernel": "#b4540a", "peer copy": "#0b7a5b",
           "copy to host": "#8a3f94"}
FONT = "'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
WIDE_ENOUGH = 14  # pixels of a bar that has room for a number


def text(x, y, words, attributes=""):
  return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{words}</text>\n'


def picture(demo):
  operations = [op for op in demo["operations"] if op["kind"] in COLOURS]
  rows = list(dict.fromkeys((op["device"], op["stream"]) for op in operations))
  scale = (RIGHT - LEFT) / demo["elapsed_ns"]
  bottom = TOP + ROW * len(rows)
  out = text(10, 24, f"{demo['chunks']} chunks pass through {' and '.join(demo['devices'])}",
             ' font-weight="600" font-size="14"')
  for time in range(0, demo["elapsed_ns"], 100_000):
    x = LEFT + time * scale
    out += f'<path d="M{x:.1f} {TOP - 6} V{bottom}" stroke="#d9dee4"/>\n'
    out += text(x, bottom + 16, f"{time // 1000} us", ' text-anchor="middle" fill="#5c6570"')
  for row, (device, stream) in enumerate(rows):
    first = row == 0 or rows[row - 1][0] != device
    y = TOP + ROW * row + 14.5
    if first:
      out += text(10, y, device, ' font-weight="600"')
    out += text(LEFT - 6, y, stream, ' text-anchor="end" font-size="11"')
  for op in operations:
    x, end = (LEFT + op[key] * scale for key in ("begin_ns", "end_ns"))
    y = TOP + ROW * rows.index((op["device"], op["stream"]))
    out += (f'<rect x="{x:.1f}" y="{y}" width="{end - x:.1f}" height="{BAR}" rx="2" '
            f'fill="{COLOURS[op["kind"]]}"/>\n')
    if end - x >= WIDE_ENOUGH:
      out += text((x + end) / 2, y + 14.5, op["chunk"],
                  ' text-anchor="middle" fill="#ffffff"')
  height = bottom + 26
  return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
          f'width="{WIDTH}" height="{height}" role="img" font-family="{FONT}" '
          'font-size="12" fill="#1b1f24">\n<title>devrt demo</title>\n'
          f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6" '
          f'fill="#ffffff" stroke="#d9dee4"/>\n{out}</svg>\n')


def main(arguments):
  if len(arguments) != 1 or arguments[0].startswith("-"):
    print(__doc__, file=sys.stderr)
    return 2
  output = subprocess.run([arguments[0], "demo", "--json"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
  print(picture(json.loads(output)), end="")
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
