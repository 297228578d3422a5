# SPDX-License-Identifier: Apache-2.0
"""mpi4py, each case as a program under mpiexec."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import machine
from engine import Case, Skip

PROGRAM = pathlib.Path(__file__).resolve().parent / "mpi_program.py"


def mpiexec():
  beside = pathlib.Path(sys.executable).parent / "mpiexec"
  found = str(beside) if beside.exists() else shutil.which("mpiexec")
  if not found:
    raise Skip("there is no mpiexec")
  return found


def run(action, kind, ranks):
  command = [mpiexec(), "-n", str(ranks), "--oversubscribe", sys.executable,
             str(PROGRAM), action, kind]
  with tempfile.TemporaryDirectory(prefix="mpi.") as folder:
    answer = pathlib.Path(folder) / "answer"
    environment = {
        **os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # By what is left out: shared memory is "vader" up to 4.1, then "sm".
        "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "^openib,ofi,uct,usnic",
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "DEVRT_MPI_ANSWER": str(answer), "TMPDIR": folder,
        "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, env=environment, capture_output=True,
                           text=True, timeout=120)
    assert ended.returncode == 0, (
        f"exit code {ended.returncode}: {ended.stderr[-600:]}")
    said = [json.loads((pathlib.Path(f"{answer}.{rank}")).read_text())
            for rank in range(ranks)]
  return "; ".join(sorted({text for text in said if text}))


def cases():
  peers = ("mpi_peer",)
  for kind in ("cuda", "cuda_ro", "managed", "pinned", "pinned_mapped",
               "mtia_pinned", "mtia", "cpu"):
    backend = machine.BACKEND_OF[kind]
    yield Case(f"producer/{kind}/mpi4py", "A", functools.partial(
        run, "address", kind, 1), peers, backend)
    if kind not in ("cuda", "cuda_ro"):
      for ranks in (1, 2):
        code = "C" if kind == "mtia" else "Z"
        yield Case(f"scenario/C7/{kind}/{ranks}", code, functools.partial(
            run, "messages", kind, ranks), peers, backend)
