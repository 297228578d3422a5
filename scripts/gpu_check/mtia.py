# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/gpu-check --mtia, which need no GPU."""

import json
import pathlib

from gpu_check import memory, python, rows, validate
from gpu_check.result import UNITS, at_most, bench_row
from gpu_check.runner import FAILED, PASSED, SKIPPED, Skip

# What the parts need; the rest is optional.
NEEDED = ["lib/devrt/libdevrt_mtia.so", "tools/devrt"]
LOG, KNOWN = "meson-logs/testlog.json", "meson-info/intro-tests.json"
WHOLE = 0.9  # of all tests: a log with fewer is that of a chosen few
LEFT_OUT = "mutants"  # the suite that meson test runs by name alone
EXAMPLES = [
    ["three_streams"], ["thread_pool"], ["three_backends"],
    *([name, "--devices=3", "--timeline="]
      for name in ["halo_exchange", "pipeline", "ring_allreduce"])]

CALLS, ALLOCATORS = "Guards, streams and events on mtia", "Allocators on mtia"
LAYERS = "Layers, more than without"
VARIABLES = {"guards_bench": {"DEVRT_MTIA": "devices=64"}}
# By program: (topic, row, benchmark, unit, the bar).
TABLES = {
    "guards_bench": [
        (CALLS, "DeviceGuard, same device", "DeviceGuardSame", "ns", None),
        (CALLS, "DeviceGuard, switching", "DeviceGuardSwitch", "ns", None),
        (CALLS, "StreamGuard, same device", "StreamGuardSame", "ns", None),
        (CALLS, "StreamGuard, switching", "StreamGuardSwitch", "ns", None),
        (CALLS, "CurrentStream", "CurrentStream", "ns", 3),
        (CALLS, "one table call", "TableCall", "ns", 2),
        *((CALLS, f"{call} over {count} of 64 devices", f"{call}OfMany/{count}", "ns",
           None) for call in ["DeviceGuard", "CurrentStream"] for count in [1, 64])],
    "streams_bench": [
        (CALLS, "stream from the recycler and back", "StreamCreateDestroy", "ns", 60),
        (CALLS, "event create + record + destroy", "EventCreateRecordDestroy", "ns",
         150),
        (CALLS, "stream query, idle", "StreamQueryIdle", "ns", None),
        (CALLS, "one stream waits for another, both ways", "StreamWaitsForStream",
         "ns", None),
        (CALLS, "empty kernel, submitted and run", "EmptyLaunch", "ns", None),
        *((CALLS, f"{text} among {count:,} streams", f"{name}AmongStreams/{count}",
           "ns", None)
          for name, text in [("Record", "event create + record + destroy"),
                             ("Create", "stream from the recycler and back")]
          for count in [10, 10000])],
    "simulator_bench": [
        ("Simulated runs", f"{count} operations, {strategy}", f"{name}/{count}",
         "runs/s", bar)
        for count, bar in [(16, 20000), (64, 5000)]
        for name, strategy in [("RunsHardware", "as hardware would"),
                               ("RunsRandom", "in random order"),
                               ("RunsLifo", "the last first")]],
    "memory_bench": [(ALLOCATORS, text, name, "ns", most)
                     for text, name, most, _ in memory.TIMES
                     if not name.startswith("Pinned")],
    "pinned_bench": [(ALLOCATORS, text, name, "ns", most)
                     for text, name, most, _ in memory.TIMES
                     if name.startswith("Pinned")],
    "traces_bench": [(ALLOCATORS, f"a call of the {name} trace", f"TraceOf/{name}",
                      "ns", None) for name in memory.TRACES],
}


def conformance(check, options):
    rows.run_suite(check, options, "lib/devrt/libdevrt_mtia.so")


# ---- The tests that meson ran ------------------------------------------------


def tests(check, options):
    """Counts what the last `meson test` in the build folder found."""
    log, known = check.root / LOG, check.root / KNOWN
    if not log.exists() or not known.exists():
        raise Skip("needs a build folder in which meson test has run")
    found = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    total = sum(not any(suite.endswith(f":{LEFT_OUT}") for suite in test["suite"])
                for test in json.loads(known.read_text(encoding="utf-8")))
    if len(found) < WHOLE * total:
        raise Skip(f"the last meson test there ran {len(found)} of {total} tests")
    failed = [test["name"] for test in found
              if test["result"] not in ("OK", "EXPECTEDFAIL", "SKIP")]
    skipped = sum(test["result"] == "SKIP" for test in found)
    passed = len(found) - len(failed) - skipped
    if failed:
        check.add(check.part, FAILED, f"meson test: {rows.named(failed)}",
                  {"failed": len(failed)}, failed)
    check.add(check.part, PASSED, f"meson test: {passed} of {total} tests",
              {"passed": passed, **({"skipped": skipped} if skipped else {})})


# ---- Programs ----------------------------------------------------------------


def examples(check, options):
    for name, *words in EXAMPLES:
        program = pathlib.Path(check.path(f"examples/{name}"))
        if not program.exists():
            check.add(check.part, SKIPPED, f"{name}: it was not built")
            continue
        command = check.run([program, *words], 120, {"DEVRT_BACKENDS": "mtia"})
        rows.add_command(check, command, " ".join([name, *words]))


# ---- Figures -----------------------------------------------------------------


def figure(row, name, unit):
    """Returns a row's figure: nanoseconds of the processor, of one call in a trace."""
    if unit != "ns":
        return row["items_per_second"]
    return (1e9 / row["items_per_second"] if name.startswith("TraceOf/")
            else rows.nanoseconds(row, "cpu_time"))


def bench_rows(program, found):
    """Returns rows for the result file, and the benchmarks that are missing."""
    made, missing = [], []
    for topic, text, name, unit, bar in TABLES[program]:
        if name not in found:
            missing.append(name)
            continue
        value = figure(found[name], name, unit)
        met = at_most(value, bar) if UNITS[unit] is min else at_most(bar, value)
        made.append(bench_row(topic, text, unit, value,
                              bars={f"{bar:,} {unit}": met} if bar else None))
    return made, missing


def measured(check, options, program, variables=None):
    """Returns the medians of a program, by the names of its benchmarks."""
    path = pathlib.Path(check.path(f"bench/{program}"))
    if not path.exists():
        raise Skip(f"there is no bench/{program}: Google Benchmark was missing when it "
                   "was built")
    found = rows.run_google_benchmark(check, path, options, {
        "DEVRT_BACKENDS": "mtia",
        "DEVRT_BENCH_TRACES": check.path(memory.TRACES_FOLDER), **(variables or {})})
    return {row["run_name"]: row for row in found}


def benchmark(program):
    def part(check, options):
        found = measured(check, options, program, VARIABLES.get(program))
        rows.add_bench_rows(check, *bench_rows(program, found))
    return part


def layers(check, options):
    """What a layer adds to a call: differences of benchmarks."""
    plain = measured(check, options, "layers_bench")
    ring = check.file("layers_bench.ring")
    traced = measured(check, options, "layers_bench",
                      {"DEVRT_LAYERS": "trace", "DEVRT_TRACE": str(ring)})
    if not ring.exists():
        check.add(check.part, FAILED, "the trace layer wrote no file")
        return
    ring.unlink()  # a large file

    validates = {"DEVRT_LAYERS": "validate", "DEVRT_RACE": "report",
                 "DEVRT_LOG": "off"}
    watched = measured(check, options, "layers_bench", validates)
    with_stacks = measured(check, options, "layers_bench",
                           {**validates, "DEVRT_RACE_STACKS": "on"})

    def time(found, name):
        return rows.nanoseconds(found[name], "cpu_time")

    def more(name, layered=traced):
        return time(layered, name) - time(plain, name)

    none, one, four = (time(plain, f"PassThroughLayers<{count}>")
                       for count in [0, 1, 4])
    rows.add_bench_rows(check, [
        bench_row(LAYERS, text, "ns", value,
                  bars={f"{bar} ns": at_most(value, bar)} if bar else None)
        for text, value, bar in [
            ("a call, one pass-through layer", one - none, 0.7),
            ("a call, each further layer", (four - one) / 3, 0.7),
            ("a call, the trace layer", more("ChosenLayers"), 60),
            ("an operation, the trace layer", more("ChosenLayersOperation/512"),
             None),
            *((f"a step on {streams} streams, the layer validate",
               more(f"ChosenLayersStep/{streams}", watched), bar)
              for streams, bar in [(16, 200), (64, 400)]),
            ("a step on 16 streams, the layer validate with call stacks",
             more("ChosenLayersStep/16", with_stacks), None)]])


PARTS = {
    "mtia_conformance": conformance,
    "mtia_tests": tests,
    "mtia_examples": examples,
    "mtia_python": python.tests,
    "mtia_interop": python.interop,
    "mtia_validate_python": validate.python_tests,
    **{program: benchmark(program) for program in TABLES},
    "layers_bench": layers,
    "mtia_python_benchmarks": python.benchmarks,
}
