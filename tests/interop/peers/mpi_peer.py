# SPDX-License-Identifier: Apache-2.0
"""mpi4py; looked for without starting MPI, which only the programs do."""
import importlib.util

from peers import Absent

VERSIONS = ("mpi4py",)


def load():
  if importlib.util.find_spec("mpi4py") is None:
    raise Absent("mpi4py is not installed")


ROUTES = {}
PLACES = ()
