# SPDX-License-Identifier: Apache-2.0
"""Compiles exchange_consumer.c for this Python, once in a process."""

import functools
import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sysconfig
import tempfile

from engine import Skip

HERE = pathlib.Path(__file__).resolve().parent
NAME = "exchange_consumer_c"


def compiler():
  named = os.environ.get("CC")
  if named:
    return shlex.split(named)
  for name in ("cc", "gcc", "clang"):
    if shutil.which(name):
      return [name]
  raise Skip("there is no C compiler for the exchange API's consumer")


@functools.lru_cache(maxsize=None)
def load():
  """The extension module; Skip where a compiler or Python's headers lack."""
  headers = pathlib.Path(sysconfig.get_path("include"))
  if not (headers / "Python.h").exists():
    raise Skip(f"there is no Python.h in {headers}")
  with tempfile.TemporaryDirectory(prefix="interop.") as folder:
    library = pathlib.Path(folder) / (NAME + ".so")
    ended = subprocess.run(
        [*compiler(), "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror",
         "-shared", "-fPIC", "-pthread", "-I", str(HERE.parents[1] / "include"),
         "-isystem", str(headers), str(HERE / "exchange_consumer.c"), "-o",
         str(library)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True)
    assert ended.returncode == 0, ended.stdout[-1500:]
    spec = importlib.util.spec_from_file_location(NAME, library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
