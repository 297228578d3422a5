# SPDX-License-Identifier: Apache-2.0
"""The command: `devrt` where pip has installed it, and `python -m devrt`.

The command itself is a program beside the library, which takes this process's
place: its exit codes and what signals do to it are its own.
"""

from __future__ import annotations

import os
import pathlib
import signal
import sys
from typing import List, NoReturn, Optional

_PACKAGE = pathlib.Path(__file__).resolve().parent

_MISSING = (
    "devrt: this package has no command: libmd was missing where it was built "
    "(Debian: apt install libmd-dev); install it, then build devrt again: "
    "pip install --force-reinstall --no-cache-dir ."
)


def _places() -> List[pathlib.Path]:
    """Where the program may be: in a wheel, in a build tree, in an installed one."""
    up = _PACKAGE.parents
    return [_PACKAGE / "bin/devrt", up[1] / "tools/devrt"] + [
        folder / "bin/devrt" for folder in list(up)[1:5]
    ]


def _is_program(path: pathlib.Path) -> bool:
    """Not this module's own script, which pip puts into bin/."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def _find() -> Optional[pathlib.Path]:
    return next(filter(_is_program, _places()), None)


def main() -> NoReturn:
    """Runs the command with this process's arguments."""
    program = _find()
    if program is None:
        sys.exit(_MISSING)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores them, and what a program ignores stays ignored behind exec.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(program, ["devrt", *sys.argv[1:]])


if __name__ == "__main__":
    main()
