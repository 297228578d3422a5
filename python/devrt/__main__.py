# SPDX-License-Identifier: Apache-2.0
"""The command `devrt`, which is also `python -m devrt`.

The command is a program beside the library.  This process is replaced by it, so exit
codes and signals are those of the program.
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
    """Returns where the program may be: in a wheel, a build tree or an installation."""
    up = _PACKAGE.parents
    return [_PACKAGE / "bin/devrt", up[1] / "tools/devrt"] + [
        folder / "bin/devrt" for folder in list(up)[1:5]
    ]


def _is_program(path: pathlib.Path) -> bool:
    """Tells the program from the script of this module that pip puts into bin/."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def _find() -> Optional[pathlib.Path]:
    return next(filter(_is_program, _places()), None)


def main() -> NoReturn:
    """Runs the command with the arguments of this process."""
    program = _find()
    if program is None:
        sys.exit(_MISSING)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these signals, and exec would keep them ignored.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(program, ["devrt", *sys.argv[1:]])


if __name__ == "__main__":
    main()
