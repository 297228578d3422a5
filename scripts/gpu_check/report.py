# SPDX-License-Identifier: Apache-2.0
"""Prints the results, and writes the report."""

import shlex

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


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |"
              for row in rows]
    return "\n".join(lines)


def part_text(check, part):
    pieces = [f"## {part}", table(
        ["Outcome", "What"],
        [(row.outcome, row.detail) for row in check.rows_of(part)])]
    for of, title, header, rows in check.tables:
        if of == part:
            pieces += [title + ":", table(header, rows)]
    commands = [command for command in check.commands if command.part == part]
    if commands:
        pieces.append("```sh\n" + "\n".join(
            f"{command.text}  # {command.ending}, {command.seconds:.1f} s"
            for command in commands) + "\n```")
    if any(row.outcome == runner.FAILED for row in check.rows_of(part)):
        pieces += [f"The end of `{command.words[0]}`, {command.ending}:\n\n"
                   f"```text\n{command.tail}\n```"
                   for command in commands if command.code != 0]
    return "\n\n".join(pieces)


def markdown(check, facts, arguments):
    pieces = [
        "# devrt on hardware",
        f"`scripts/gpu-check {shlex.join(arguments)}`",
        table(["", ""], facts),
        table(["Part", "Result", "What", "Time"],
              [(part, outcome, detail, f"{seconds:.1f} s")
               for part, outcome, detail, seconds in summary(check)]),
    ]
    pieces += [part_text(check, part)
               for part in dict.fromkeys(row.part for row in check.rows)]
    return "\n\n".join(pieces) + "\n"
