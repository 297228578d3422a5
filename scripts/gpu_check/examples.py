# SPDX-License-Identifier: Apache-2.0
"""The examples over several devices.  Each checks its own result."""

import json
import pathlib
import re

from gpu_check.rows import add_command
from gpu_check.runner import FAILED, PASSED, Skip

HALO = "examples/halo_exchange"
PIPELINE = "examples/pipeline"
RING = "examples/ring_allreduce"
# The examples that `pack` copies.
FILES = [HALO, PIPELINE, RING]
MEBIBYTES = [256, 1024]
BAR = 85  # percent of the bound that one peer copy sets


def tests(check, options):
    if options.simulated:
        raise Skip("a simulated driver runs no kernels")
    absent = [name for name in FILES
              if not pathlib.Path(check.path(name)).exists()]
    if absent:
        raise Skip(f"there is no {absent[0]}: it was not built")
    devices = min(count_devices(check), 8)
    run(check, PIPELINE, devices, "--kibibytes=16384", "--chunks=64")
    run(check, HALO, devices, "--rows=8192", "--columns=8192", "--steps=8")
    if devices < 2:
        raise Skip("ring_allreduce needs two devices")
    for size in MEBIBYTES[:1 if options.quick else None]:
        ring(check, devices, size)


def count_devices(check):
    listed = check.run([check.path("tools/devrt"), "list", "--json"], 60)
    try:
        found = json.loads(listed.output)["devices"]
    except (KeyError, ValueError):
        raise Skip("devrt list has no answer") from None
    return sum(device["device"].startswith("cuda:") for device in found)


def run(check, program, devices, *words):
    command = check.run([check.path(program), "--backend=cuda",
                         f"--devices={devices}", "--timeline=", *words], 120)
    name = pathlib.Path(program).name
    lines = command.output.strip().splitlines()
    said = lines[0] if command.code == 0 and lines else "wrong or failed"
    add_command(check, command, f"{name}: {said}")
    return command


def piece_of(size):
    """Returns the piece for an array of `size` MiB: small beside the array, and large
    beside the cost of a submission.
    """
    return f"--piece_kibibytes={min(size * 1024 // 4, 128 * 1024)}"


def ring(check, devices, size):
    command = run(check, RING, devices, f"--mebibytes={size}", "--runs=10",
                  piece_of(size))
    found = re.search(r"([\d.]+) % of the bound", command.output)
    if found is None:
        return
    percent = float(found.group(1))
    check.add(command.part, PASSED if percent >= BAR else FAILED,
              f"ring_allreduce of {size} MiB: {percent} % of the bound that one "
              f"peer copy sets, at least {BAR} % wanted")
    check.figures.setdefault(check.part, {})[
        f"ring_allreduce of {size} MiB, of one peer copy"] = f"{percent} %"
