# SPDX-License-Identifier: Apache-2.0
"""Which folder may include which: the rooms of the product and their floors.

A room is a top-level folder of the product, a folder of backends/ or layers/, or one
of two folders of tools/: timeline/, which the Python module compiles too, and common/.
Its headers are of two kinds:

    public  linked in include/devrt/ and included as "devrt/ROOM/NAME.h"; open to
            the room's own floor and every floor above
    inner   every other header, included by its path from the root of the checkout
            ("memory/device/block.h"); open to the room itself and to the rooms
            that INNER names

docs/decisions/0019-rooms.md has the reasons.
"""

import pathlib
import re

import checks

# From the top down.  A room includes from its own floor and below.
FLOORS = [
    ["python", "tools"],
    ["sim"],
    ["tools/timeline"],
    ["tools/common"],
    ["cts"],
    ["collectives"],
    ["arrays"],
    ["memory"],
    ["guards"],
    ["streams"],
    ["runtime"],
    ["backends/cuda", "backends/hip", "backends/mtia", "backends/template",
     "layers/faults", "layers/trace", "layers/validate"],
    ["backends/gpu"],
    ["backends/tensor"],
    ["backends/abi", "backends/text", "backends"],
]

# The rooms that may include the inner headers of a room, beside the room itself.
INNER = {
    "arrays": {"collectives", "python"},
    "memory": {"arrays", "python"},
    "streams": {"arrays", "collectives", "memory", "python", "sim"},
    "runtime": {"arrays", "collectives", "guards", "memory", "sim", "streams"},
    "layers/trace": {"tools"},  # the format of the ring files
    "tools/common": {"tools", "tools/timeline"},
    "tools/timeline": {"python", "sim", "tools"},  # the picture of what ran when
    "backends/gpu": {"backends/cuda", "backends/hip"},
    "backends/tensor": {"arrays", "backends/cuda", "backends/gpu", "backends/hip",
                        "backends/mtia"},
    "backends/text": {"backends/mtia", "cts", "layers/faults", "memory", "runtime", "sim", "streams",
                      "tools", "tools/common"},
    "backends": {"backends/mtia", "python"},  # tables of data
}

# The folders of each room that has several, from the top down; "." is the room itself.
# A file includes from its own folder and from the folders below it.  Folders in one list
# do not include each other.
FOLDERS = {
    "arrays": [["exchange"], ["ops"], ["copy"], ["core"], ["storage"]],
    "backends/mtia": [["table"], ["drivers"], ["threads"], ["engine"],
                      ["kernels", "memory"], ["config"], ["common", "system"]],
    "backends/template": [[".", "c"]],
    "collectives": [["core"], ["mpi"], ["host", "nccl", "recorder"], ["bootstrap"], ["."]],
    "cts": [["tests"], ["random"], ["."]],
    "memory": [["torch"], ["external"], ["api"], ["pinned", "resource", "snapshot"],
               ["device"], ["common"]],
    "runtime": [["raw_memory"], ["registry"], ["plugins"], ["loader"], ["common"]],
    "streams": [["captures", "operations"], ["objects"], ["timelines"], ["common"]],
    "tools": [["."], ["bench", "check", "cts", "demo", "memory", "topo", "trace"]],
}

# A backend or a layer knows the ABI, and none of the floors between it and the
# programs.
STAND_ALONE = {"backends/cuda", "backends/hip", "backends/mtia",
               "backends/template", "backends/gpu", "layers/faults", "layers/trace"}

FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# Developers' programs may include anything.  The product includes none of them.
PROGRAMS = {"bench", "examples", "tests", "packaging"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def room_of(name):
    """Returns the room of a path below the root, or of an include without "devrt/"."""
    parts = pathlib.PurePosixPath(name).parts
    if len(parts) > 2 and "/".join(parts[:2]) in FLOOR_OF:
        return "/".join(parts[:2])
    return parts[0] if parts[0] in FLOOR_OF or parts[0] in PROGRAMS else None


def why_not(room, name):
    """Returns why a room may not include a header, or None."""
    public = name.startswith("devrt/")
    target = room_of(name.removeprefix("devrt/"))
    if target is None or target == room:
        return None
    if target in PROGRAMS:
        return f"{target}/ holds programs of developers, not the product"
    if room in STAND_ALONE and not target.startswith("backends"):
        return f"{room}/ knows the ABI and not what stands above it"
    if FLOOR_OF[target] < FLOOR_OF[room]:
        return f"{target}/ is on a floor above {room}/"
    if target in STAND_ALONE and room not in INNER.get(target, ()):
        return f"{target}/ is reached through its table only"
    if not public and room not in INNER.get(target, ()):
        return (f"the header is not public, and INNER of scripts/rooms.py does not "
                f"open {target}/ to {room}/")
    return None


def behind_link(name):
    """Returns the path of an included header: of a public one, where its link leads."""
    link = checks.ROOT / "include" / name
    if not link.is_symlink():
        return name
    return link.resolve().relative_to(checks.ROOT.resolve())


def folder_of(room, path):
    """Returns the folder of a file inside its room; "." is the room itself."""
    return pathlib.PurePosixPath(path).parent.relative_to(room).as_posix()


def why_not_inside(room, path, name):
    """Returns why a file may not include a header of another folder of its room."""
    level = {folder: i for i, row in enumerate(FOLDERS.get(room, ())) for folder in row}
    own, other = folder_of(room, path), folder_of(room, name)
    if own == other or own not in level:
        return None
    if other not in level:
        return f"FOLDERS of scripts/rooms.py does not name {room}/{other}/"
    if level[other] <= level[own]:
        return f"{room}/{other}/ is not below {room}/{own}/"
    return None


def check_rooms():
    findings = []
    folders = {}
    for path in checks.sources(checks.CODE | {".inc"}):
        room = room_of(path)
        if room is None or room in PROGRAMS:
            continue
        folders.setdefault(room, set()).add(folder_of(room, path))
        text = (checks.ROOT / path).read_text(encoding="utf-8")
        for name in INCLUDE.findall(text):
            reason = why_not(room, name)
            header = behind_link(name)
            if room_of(header) == room:
                reason = why_not_inside(room, path, header)
            if reason:
                findings.append(f"{path} includes {name}: {reason}")
    return findings + check_folders(folders) + check_links()


def check_folders(folders):
    """Checks that FOLDERS orders the folders of each room that has several."""
    return [f"FOLDERS of scripts/rooms.py does not name {room}/{folder}/"
            for room, found in sorted(folders.items()) if len(found) > 1
            for folder in sorted(found - {f for row in FOLDERS.get(room, ()) for f in row})]


def check_links():
    """Checks that each public header of include/devrt/ links to a file of its room."""
    findings = []
    folder = checks.ROOT / "include/devrt"
    for path in sorted(folder.rglob("*.h")):
        name = path.relative_to(folder)
        room = room_of(name) if len(name.parts) > 1 else None
        if room is None:
            continue
        target = path.resolve()
        inside = checks.ROOT.joinpath(room).resolve() in target.parents
        if not (path.is_symlink() and path.exists() and inside):
            findings.append(f"include/devrt/{name} is no link to a header of {room}/")
    return findings
