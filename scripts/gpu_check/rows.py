# SPDX-License-Identifier: Apache-2.0
"""Makes rows of a command's results: exit codes, tests, suites, soaks, benchmarks."""

import re
import shutil

from gpu_check.runner import FAILED, PASSED, SKIPPED

MOST_NAMED = 12  # tests that a row names
LONG_SOAK = 600  # seconds after which growth is judged


def named(names):
    more = len(names) - MOST_NAMED
    text = ", ".join(names[:MOST_NAMED])
    return f"{text} and {more} more" if more > 0 else text


def add_command(check, command, detail):
    """Adds a row for a command that reports no more than its exit code."""
    if command.code == 0:
        check.add(command.part, PASSED, detail)
    else:
        check.add(command.part, FAILED, f"{detail}: {command.ending}")


def add_tests(check, command, what, tests):
    """Adds rows: one for what passed, one for what failed, one for each reason to skip.

    Tests that all skip beside a GPU have shown nothing.
    """
    part = command.part
    failed = [t["name"] for t in tests if t["outcome"] == "failed"]
    told = [f"{t['name']}: {t['reason']}" if t.get("reason") else t["name"]
            for t in tests if t["outcome"] == "failed"]
    passed = [t["name"] for t in tests if t["outcome"] == "passed"]
    if failed:
        check.add(part, FAILED, f"{what}: {named(failed)}",
                  {"failed": len(failed)}, told)
    elif command.code != 0:
        check.add(part, FAILED, f"{what}: {command.ending}")
    if passed:
        check.add(part, PASSED, f"{what}: {len(passed)} tests",
                  {"passed": len(passed)})
    reasons = {}
    for test in tests:
        if test["outcome"] == "skipped":
            reasons.setdefault(test["reason"], []).append(test["name"])
    for reason, names in reasons.items():
        check.add(part, SKIPPED, f"{what}: {named(names)}: {reason}",
                  {"skipped": len(names)})


def run_suite(check, options, plugin, variables=None):
    """Runs devrt cts of a plugin, and adds a row."""
    json_file = check.file(f"{check.part}.json")
    words = [check.path("tools/devrt"), "cts",
             "--plugin=" + check.path(plugin),
             f"--report=json:{json_file}", "--timeout=15",
             f"--programs={300 if options.quick else 2000}"]
    if options.xfail:
        words += [f"--xfail={options.xfail}", "--verify-xfail"]
    command = check.run(words, 900, variables)
    report = check.read_json(json_file)
    if report is None:
        add_command(check, command, "no report")
        return
    counts = report["counts"]
    detail = (f"{counts['passed']} passed, {counts['failed']} failed, "
              f"{counts['unsupported']} unsupported, {counts['skipped']} "
              f"skipped on {', '.join(report['devices'])}")
    failed = [test["name"] for test in report["tests"]
              if test["outcome"] in ("failed", "unexpected_pass")]
    of_parts = {name: counts[name]
                for name in ["passed", "failed", "unsupported", "skipped"]}
    if command.code == 0:
        check.add(command.part, PASSED, detail, of_parts)
    else:
        check.add(command.part, FAILED,
                  f"{detail}; {named(failed) or command.ending}", of_parts,
                  failed or [command.ending])


def google_test(check, program, timeout, *arguments, variables=None):
    """Runs a GoogleTest program, of tests/hardware if no folder is named."""
    folder, _, program = program.rpartition("/")
    json_file = check.file(f"{program}.json")
    command = check.run([check.path(f"{folder or 'tests/hardware'}/{program}"),
                         f"--gtest_output=json:{json_file}", *arguments],
                        timeout, variables)
    report = check.read_json(json_file)
    tests = []
    for suite in (report or {}).get("testsuites", []):
        for test in suite["testsuite"]:
            if test["status"] != "RUN":
                continue
            outcome = "failed" if "failures" in test else "passed"
            reason = first_words(test)
            if test["result"] == "SKIPPED":
                outcome = "skipped"
                reason = skip_reason(test, command.output)
            tests.append({"name": test["name"], "outcome": outcome,
                          "reason": reason})
    add_tests(check, command, program, tests)


def first_words(test):
    """Returns the beginning of what a failed test said, in one line."""
    said = " ".join(of["failure"] for of in test.get("failures", []))
    return " ".join(said.split())[:300]


def skip_reason(test, output):
    """Returns the printed reason, which older versions write nowhere else."""
    name = re.escape(f"{test['classname']}.{test['name']}")
    told = re.search(rf"^\[ RUN      \] {name}\n.*?Skipped\n(.*?)^\[  SKIPPED",
                     output, re.MULTILINE | re.DOTALL)
    return " ".join(told.group(1).split()) if told else "see its output"


def run_soak(check, program, seconds):
    """Runs one of tests/hardware's soaks, with figures of what must not grow."""
    json_file = check.file(f"{program}.json")
    command = check.run(
        [check.path(f"tests/hardware/{program}"), "--backend=cuda",
         f"--seconds={seconds:g}", f"--json={json_file}"], seconds + 120)
    report = check.read_json(json_file)
    if report is None:
        add_command(check, command, "no report")
        return
    if seconds < LONG_SOAK:
        check.partial[check.part] = f"{seconds:g} s of {LONG_SOAK}"
    check.figures[check.part] = {
        "rounds": report["rounds"],
        "threads": report["threads"],
        **{f"{of['name']} grew by": f"{of['growth']:.4g}, allowed {of['allowed']:.4g}"
           for of in report["verdicts"] if of["judged"]}}
    growing = [of["name"] for of in report["verdicts"] if of["grows"]]
    detail = (f"{report['rounds']} rounds of {report['threads']} threads on "
              f"{', '.join(report['devices'])}, {seconds:g} s")
    if report["error"]:
        detail += f"; {report['error']}"
    if growing:
        detail += f"; grows: {', '.join(growing)}"
    add_command(check, command, detail)


def run_google_benchmark(check, program, options, variables=None, chosen=None,
                         tool=()):
    """Returns the medians of its rows, from Google Benchmark's JSON.

    `chosen` is a filter of rows, and `tool` the words of a program that runs this one.
    The repetitions of all rows take turns, so that some slow seconds touch few of each.
    Also adds a row for its end.
    """
    json_file = check.file(f"{program.name}.json")
    least, times = ("0.02", 3) if options.quick else ("0.1", 9)
    if options.simulated:  # to see that it runs
        least, times = "0.0001", 2
    command = check.run(
        [*tool, program, f"--benchmark_min_time={least}",
         f"--benchmark_repetitions={times}",
         "--benchmark_enable_random_interleaving=true",
         "--benchmark_report_aggregates_only=true",
         f"--benchmark_out={json_file}", "--benchmark_out_format=json",
         *([f"--benchmark_filter={chosen}"] if chosen else [])], 600, variables)
    report = check.read_json(json_file) or {"benchmarks": []}
    rows = [row for row in report["benchmarks"]
            if row.get("aggregate_name") == "median"]
    of_tool = f"{tool[-1]} of " if tool else ""
    add_command(check, command,
                f"{of_tool}{program.name}: {len(rows)} rows, medians of {times}")
    return rows


def sanitizer():
    """Returns the path of compute-sanitizer, or None."""
    return shutil.which("compute-sanitizer") or shutil.which(
        "/usr/local/cuda/bin/compute-sanitizer")


def nanoseconds(row, which):
    """Returns a time of a row of Google Benchmark, "cpu_time" or "real_time"."""
    return row[which] * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[row["time_unit"]]


def add_bench_rows(check, rows, missing=()):
    """Keeps rows for the result file, and adds what came of their bars.

    A missed bar is no failure, as machines differ.  A missing row is.
    """
    check.bench_rows[check.part] = rows
    if missing:
        check.add(check.part, FAILED, f"without rows: {', '.join(missing)}")
    bars = [(f"{row['row']} {row['devrt']:g} {row['unit']}, {text}", met)
            for row in rows for text, met in row.get("bars", {}).items()]
    if bars:
        missed = [text for text, met in bars if not met]
        check.add(check.part, PASSED, f"{len(bars)} bars; missed: "
                  f"{'; '.join(missed) or 'none'}", {})
