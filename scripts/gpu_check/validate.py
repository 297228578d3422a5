# SPDX-License-Identifier: Apache-2.0
"""The race detector: it finds planted mistakes, and nothing in correct programs."""

import json
import pathlib

from gpu_check import examples
from gpu_check.rows import add_command, google_test
from gpu_check.runner import FAILED, Skip

LAYER = "lib/devrt/layers/libdevrt_layer_validate.so"
CORPUS = "tests/layers/layers_validate"
FILES = [LAYER, CORPUS]
# Programs whose work is ordered.
CORRECT = {
    "tests/hardware/arrays_tests": [],
    "tests/hardware/memory_tests": [],
    examples.PIPELINE: ["--backend=cuda", "--devices=1", "--timeline="],
    examples.HALO: ["--backend=cuda", "--devices=1", "--timeline="],
}


def tests(check, options):
    if options.simulated:
        raise Skip("a simulated driver runs no kernels")
    absent = [name for name in FILES if not pathlib.Path(check.path(name)).exists()]
    if absent:
        raise Skip(f"there is no {absent[0]}: it was not built")
    # The host's pointers are watched on the simulator alone.
    without = "Host/*"
    if examples.count_devices(check) < 2:
        without += ":*AKernelUsesMemoryOfAnother*:*Peer*:*TwoDevices*:*AnotherDevice*"
    google_test(check, CORPUS, 300, f"--gtest_filter=-{without}",
                variables={"DEVRT_TEST_BACKEND": "cuda"})
    for program, words in CORRECT.items():
        if pathlib.Path(check.path(program)).exists():
            correct(check, program, words)


def correct(check, program, words):
    findings = check.file("findings.json")
    command = check.run(
        [check.path(program), *words], 300,
        {"DEVRT_LAYERS": "validate", "DEVRT_RACE_FILE": str(findings),
         "DEVRT_LOG": "off"})
    name = pathlib.Path(program).name
    try:
        lines = findings.read_text(encoding="utf-8").splitlines()
    except OSError:
        check.add(command.part, FAILED, f"{name}: the layer wrote no file")
        return
    found = [entry for entry in map(json.loads, lines) if "kind" in entry]
    if found:
        check.add(command.part, FAILED,
                  f"{name}: {len(found)} findings; {place(found[0])}")
    else:
        add_command(check, command, f"{name}: no findings")


def place(finding):
    earlier, later = finding["earlier"]["site"], finding["later"]["site"]
    return f"{finding['kind']}: {earlier} and {later}"
