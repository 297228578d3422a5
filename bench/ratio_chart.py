# SPDX-License-Identifier: Apache-2.0
"""Draws the benchmarks of a topic beside others as an SVG bar chart.

A bar to the right says how many times better devrt is than the best of the others, a
bar to the left how many times worse.  The scale is logarithmic.
"""

import html
import math

LEFT, WIDTH, LINE = 330, 760, 18  # pixels: of the axis, of the picture, of a row
OCTAVE = 60  # pixels for a factor of two
LOWER_IS_BETTER = {"ns", "MiB"}
# The colours follow the reader's scheme, also where the page shows the file as an image.
STYLE = """
  text { font: 12px sans-serif; fill: #222; }
  .label { text-anchor: end; }
  .better { fill: #2a7f62; }
  .worse { fill: #c4572e; }
  line { stroke: #8886; }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd; }
    .better { fill: #4fb893; }
    .worse { fill: #e58a63; }
  }
"""


def times_better(row):
    """Returns how many times better devrt is; below 1 where it is worse."""
    ratio = row["ratio"]
    return 1 / ratio if row["unit"] in LOWER_IS_BETTER else ratio


def bar(row, y):
    times = times_better(row)
    length = max(abs(math.log2(times)) * OCTAVE, 1)
    kind, x = ("better", LEFT) if times >= 1 else ("worse", LEFT - length)
    length = min(length, WIDTH - LEFT - 60)
    yield (f'<rect class="{kind}" x="{x:.0f}" y="{y - 11}" width="{length:.0f}" '
           f'height="13"/>')
    yield (f'<text class="label" x="{min(LEFT, x) - 6:.0f}" y="{y}">'
           f'{html.escape(row["row"])}</text>')
    yield f'<text x="{max(LEFT, x + length) + 6:.0f}" y="{y}">{times:.3g}</text>'


def chart(topic, rows):
    """Returns the picture of a topic's rows, which all have a ratio."""
    y = LINE
    shapes = [f'<text x="8" y="{y}">Times better than the best of the others, '
              "logarithmic scale</text>"]
    for row in rows:
        y += LINE
        shapes += bar(row, y)
    height = y + LINE // 2
    axis = f'<line x1="{LEFT}" x2="{LEFT}" y1="{LINE + 5}" y2="{height}"/>'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">',
        f"<title>{html.escape(topic)}: how many times better devrt is than the best of "
        "the others</title>",
        f"<style>{STYLE}</style>", axis, *shapes, "</svg>"]) + "\n"
