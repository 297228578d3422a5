# SPDX-License-Identifier: Apache-2.0
"""Rows of what commands tell: exit codes, tests, the suite, benchmarks."""

from gpu_check.runner import FAILED, PASSED, SKIPPED

MOST_NAMED = 12  # tests that a row names


def named(names):
    more = len(names) - MOST_NAMED
    text = ", ".join(names[:MOST_NAMED])
    return f"{text} and {more} more" if more > 0 else text


def add_command(check, command, detail):
    """A row for a command that says no more than its exit code."""
    if command.code == 0:
        check.add(command.part, PASSED, detail)
    else:
        check.add(command.part, FAILED, f"{detail}: {command.ending}")


def add_tests(check, command, what, tests):
    """A row for all that passed, one for what failed, one for each reason to
    skip. Tests that all skip beside a GPU have shown nothing."""
    part = command.part
    failed = [t["name"] for t in tests if t["outcome"] == "failed"]
    passed = [t["name"] for t in tests if t["outcome"] == "passed"]
    if failed:
        check.add(part, FAILED, f"{what}: {named(failed)}")
    elif command.code != 0:
        check.add(part, FAILED, f"{what}: {command.ending}")
    if passed:
        check.add(part, PASSED, f"{what}: {len(passed)} tests")
    reasons = {}
    for test in tests:
        if test["outcome"] == "skipped":
            reasons.setdefault(test["reason"], []).append(test["name"])
    for reason, names in reasons.items():
        check.add(part, SKIPPED, f"{what}: {named(names)}: {reason}")


def run_suite(check, options, plugin, variables=None):
    """devrt cts of a plugin, with a row and a table of its groups."""
    json_file = check.file(f"{check.part}.json")
    words = [check.path("tools/devrt"), "cts",
             "--plugin=" + check.path(plugin),
             f"--report=json:{json_file}", "--timeout=15",
             f"--programs={300 if options.quick else 2000}"]
    if options.xfail:
        words += [f"--xfail={options.xfail}", "--verify-xfail"]
    command = check.run(words, 900, variables)
    result = check.read_json(json_file)
    if result is None:
        add_command(check, command, "no report")
        return
    counts = result["counts"]
    check.tables.append((command.part, "Groups",
                         ["Group", "Passed", "Failed", "Unsupported",
                          "Skipped"],
                         [(name, of["passed"], of["failed"], of["unsupported"],
                           of["skipped"])
                          for name, of in result["groups"].items()]))
    detail = (f"{counts['passed']} passed, {counts['failed']} failed, "
              f"{counts['unsupported']} unsupported, {counts['skipped']} "
              f"skipped on {', '.join(result['devices'])}")
    failed = [test["name"] for test in result["tests"]
              if test["outcome"] in ("failed", "unexpected_pass")]
    if command.code == 0:
        check.add(command.part, PASSED, detail)
    else:
        check.add(command.part, FAILED,
                  f"{detail}; {named(failed) or command.ending}")


def run_google_benchmark(check, program, options, variables=None):
    """Its rows' medians, as Google Benchmark's JSON has them; also adds a row
    of whether it ended well."""
    json_file = check.file(f"{program.name}.json")
    least, times = ("0.02", 3) if options.quick else ("0.1", 7)
    command = check.run(
        [program, f"--benchmark_min_time={least}",
         f"--benchmark_repetitions={times}",
         "--benchmark_report_aggregates_only=true",
         f"--benchmark_out={json_file}", "--benchmark_out_format=json"], 600,
        variables)
    result = check.read_json(json_file) or {"benchmarks": []}
    rows = [row for row in result["benchmarks"]
            if row.get("aggregate_name") == "median"]
    add_command(check, command,
                f"{program.name}: {len(rows)} rows, medians of {times}")
    return rows
