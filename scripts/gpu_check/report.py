# SPDX-License-Identifier: Apache-2.0
"""Prints the results."""

from gpu_check import runner


def print_rows(rows):
    for row in rows:
        print(f"  {row.outcome:8} {row.detail}", flush=True)


def print_summary(check):
    print()
    for part, outcome, detail, seconds in summary(check):
        print(f"{part:12} {outcome:8} {seconds:7.1f} s  {detail}")


def summary(check):
    """Returns one line for each part: its worst outcome, and the number of outcomes."""
    lines = []
    for part in dict.fromkeys(row.part for row in check.rows):
        rows = check.rows_of(part)
        counts = {outcome: sum(row.outcome == outcome for row in rows)
                  for outcome in
                  [runner.FAILED, runner.PASSED, runner.SKIPPED]}
        worst = next(name for name, count in counts.items() if count)
        if len(rows) == 1:
            detail = rows[0].detail
        else:
            detail = ", ".join(f"{count} {name}"
                               for name, count in counts.items() if count)
        seconds = sum(command.seconds for command in check.commands
                      if command.part == part)
        lines.append((part, worst, detail, seconds))
    return lines
