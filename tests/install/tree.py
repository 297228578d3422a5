# SPDX-License-Identifier: Apache-2.0
"""An installed devrt in a temporary folder, and programs run beside it.

The tree lies elsewhere than the prefix that devrt was configured for, so that
whatever works here has found its way from where it is. tests/install/meson.build
sets the variables that are read here.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/docs"))
import extract_snippet  # noqa: E402

MESON = os.environ["DEVRT_MESON"]
# Programs link in half of the time without the static libraries' line numbers.
STRIPPED = "-Wl,-S"
PREFIX = os.environ["DEVRT_PREFIX"].lstrip("/")


class Tree:
    """The files that `meson install` left below a folder."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, kind):
        """The folder of that kind: BINDIR, DATADIR, INCLUDEDIR or LIBDIR."""
        return self.folder / PREFIX / os.environ[f"DEVRT_{kind}"]

    @property
    def plugins(self):
        return self.path("LIBDIR") / "devrt"

    def environment(self, **variables):
        """Nothing of devrt's but the commands and packages of this tree."""
        result = {name: value for name, value in os.environ.items()
                  if not name.startswith(("DEVRT_", "LD_", "PKG_CONFIG"))
                  and name not in ("CPATH", "LIBRARY_PATH", "CFLAGS", "CXXFLAGS",
                                   "LDFLAGS", "DESTDIR")}
        result.update(
            CC=os.environ["DEVRT_CC"], CXX=os.environ["DEVRT_CXX"],
            # Nobody looks into these programs with a debugger.
            CFLAGS="-g0", CXXFLAGS="-g0", LDFLAGS=STRIPPED,
            LC_ALL="C.UTF-8",
            PATH=f"{self.path('BINDIR')}:{os.environ['PATH']}",
            PKG_CONFIG_PATH=str(self.path("LIBDIR") / "pkgconfig"),
            CMAKE_PREFIX_PATH=str(self.folder / PREFIX),
            # So that a compiler cache knows the same program elsewhere.
            CCACHE_BASEDIR=str(self.folder.parent), CCACHE_NOHASHDIR="1")
        result.update(variables)
        return result


class InstallTest(unittest.TestCase):
    """Installs once for a class; its tests share the tree and the folder."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        # Files here must not be writable by others, or devrt refuses to load plugins
        # from here.
        os.umask(0o022)
        folder = tempfile.TemporaryDirectory(prefix="devrt-install-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        cls.tree = Tree(cls.folder / "tree")
        result = subprocess.run(
            [MESON, "install", "-C", os.environ["DEVRT_BUILD"], "--no-rebuild",
             "--quiet", "--destdir", str(cls.tree.folder)],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if result.returncode != 0:
            raise AssertionError(f"meson install failed:\n{result.stdout}")

    def run_command(self, *command, folder=None, expect=0, **variables):
        """The output of a command, which has to end as expected."""
        result = subprocess.run(
            [str(word) for word in command], cwd=folder or self.folder,
            env=self.tree.environment(**variables), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, expect,
                         f"{shlex.join(map(str, command))}\n{result.stdout}")
        return result.stdout

    def pkg_config(self, *arguments):
        return self.run_command("pkg-config", *arguments, "devrt").split()

    def write_first_program(self, path, device=None):
        """The program of the first tutorial, on another device if one is given."""
        text = extract_snippet.extract(ROOT / "docs/tutorials/0-first-program.md")
        path.write_text(text.replace("mtia:1", device) if device else text)

    def need(self, program):
        found = shutil.which(program)
        if found is None:
            self.skipTest(f"{program} is missing")
        return found
