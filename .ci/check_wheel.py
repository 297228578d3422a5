# SPDX-License-Identifier: Apache-2.0
"""Follows a page with the devrt that this Python has, which is to be complete.

    check_wheel.py PAGE [COMMAND]
    check_wheel.py --without-command BUILD PACKAGE

Runs the page's blocks in Python, compares what they print with the page, and
fails if any of devrt's or Abseil's libraries came from outside of the package.
Then runs the command: `python -m devrt`, and COMMAND, which pip has installed.

The second form compares what Meson would install from BUILD, which was configured where
libmd is missing, with the files of PACKAGE: the command is what these have beyond it.
"""

import json
import pathlib
import os
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/python/docs"))

import pages  # noqa: E402

# What a complete package has of its own.
NEEDED = {"_core", "libdevrt", "libdevrt_mtia"}


def follow(path):
    """The number of blocks that ran; raises SystemExit at the first failure."""
    page, ran = pages.Page(path), 0
    for line, language, source in pages.blocks(path.read_text(encoding="utf-8")):
        if language not in ("python", "text"):
            continue
        result, said = page.run(line, language, source)
        if result != "ok":
            sys.exit(f"{path.name}:{line}: {said}")
        ran += 1
    return ran


def libraries():
    """Files of devrt's and Abseil's that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps}
    return sorted(p for p in map(pathlib.Path, paths)
                  if re.match(r"_core\.|libdevrt|libabsl", p.name))


def run(command, *arguments, code=0):
    """What it prints; raises SystemExit for another exit code."""
    # Its signals are those of a shell's child, not those that Python ignores.
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, text=True,
                          timeout=60)
    if done.returncode != code:
        sys.exit(f"{command} {arguments} ended with {done.returncode}")
    return done.stdout


def try_command(package, *command):
    """The command with its backends and layers, out of the package."""
    import devrt

    if not re.fullmatch(r"devrt \d+\.\d+\.\d+\n", run(command, "--version")):
        sys.exit(f"{command} has no version")
    listed = run(command, "list")
    if "mtia" not in listed or str(package) not in run(command, "list", "--json"):
        sys.exit(f"{command} list has no mtia of {package}: {listed}")
    run(command, "no-such-command", code=2)
    run(command, "demo")
    run(command, "trace", f"--output={os.devnull}", "--", sys.executable, "-c",
        f"import devrt; devrt.ones(3, device={str(devrt.devices('mtia')[0])!r})")


def check_without_command(build, package):
    """Raises SystemExit if anything but the command depends on libmd."""
    plan = json.loads((build / "meson-info/intro-install_plan.json").read_text())
    planned = {entry["destination"].partition("/devrt/")[2]
               for kind in plan.values() for entry in kind.values()
               if entry["tag"] in ("runtime", "python-runtime")}
    here = {str(path.relative_to(package)) for path in package.rglob("*")
            if path.is_file() and path.suffix != ".pyc"}
    if here - planned != {"bin/devrt"} or planned - here:
        sys.exit(f"without libmd a wheel lacks {sorted(here - planned)} and has "
                 f"{sorted(planned - here)} beyond this one")


def main():
    if sys.argv[1] == "--without-command":
        return check_without_command(*map(pathlib.Path, sys.argv[2:]))
    ran = follow(pathlib.Path(sys.argv[1]).resolve())
    if ran < 2:
        sys.exit(f"{sys.argv[1]} has no block in Python and what it prints")
    import devrt

    package = pathlib.Path(devrt.__file__).resolve().parent
    if ROOT in package.parents:
        sys.exit(f"{package} is of the checkout")
    loaded = libraries()
    foreign = [str(p) for p in loaded if package not in p.parents]
    missing = NEEDED - {p.name.partition(".")[0] for p in loaded}
    if foreign or missing:
        sys.exit(f"{package}: not of it are {foreign}, not loaded are {missing}")
    try_command(package, sys.executable, "-m", "devrt")
    if len(sys.argv) > 2:
        try_command(package, sys.argv[2])
    print(f"{package}: {ran} blocks, {len(loaded)} libraries, all of the package")


if __name__ == "__main__":
    main()
