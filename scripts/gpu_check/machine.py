# SPDX-License-Identifier: Apache-2.0
"""Describes this machine.  No question to the driver makes a context."""

import datetime
import pathlib
import platform
import subprocess

GPUS = pathlib.Path("/proc/driver/nvidia/gpus")
VERSION = pathlib.Path("/proc/driver/nvidia/version")


def output(*command):
    """Returns what the command prints, or "" if it is missing or fails."""
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def gpus():
    """Returns a name for each GPU."""
    listed = [line for line in output("nvidia-smi", "-L").splitlines()
              if line.startswith("GPU ")]
    if listed:
        return listed
    return sorted(path.name for path in GPUS.glob("*"))


def driver():
    version = output("nvidia-smi", "--query-gpu=driver_version",
                     "--format=csv,noheader")
    if version:
        return version.splitlines()[0]
    if VERSION.exists():
        return VERSION.read_text(encoding="utf-8").splitlines()[0]
    return "unknown"


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def facts(check, simulated):
    """Returns rows of (name, value) for the report."""
    root = pathlib.Path(__file__).resolve().parents[2]
    now = datetime.datetime.now(datetime.timezone.utc)
    rows = [
        ("Date", now.strftime("%Y-%m-%d %H:%M UTC")),
        ("Commit", output("git", "-C", str(root), "describe", "--always",
                          "--dirty") or "unknown"),
        ("System", f"{platform.freedesktop_os_release()['PRETTY_NAME']}, "
                   f"Linux {platform.release()}"),
        ("Processor", processor()),
    ]
    if simulated:
        rows.append(("Driver", "simulated, of --library-path"))
    else:
        rows.append(("Driver", driver()))
        rows += [(f"GPU {i}", name) for i, name in enumerate(gpus())]
    rows.append(("devrt list", check.device_list()))
    return rows
