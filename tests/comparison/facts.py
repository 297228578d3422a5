#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what docs/coming-from/ says of PyTorch, CuPy, Numba and cuda.core.

usage: facts.py [--library NAME] [--only ID,ID] [--json FILE] [--commit COMMIT]
       facts.py --list
       facts.py --not-measured FILE

Needs a machine with an NVIDIA GPU; a library that is missing is skipped. Prints one
line for each claim, and writes a JSON of all to FILE (by default to stdout), with the
date, the commit of this tree (or COMMIT), the machine and the versions:

  holds       the library does what the page says; "observed" says what was seen
  differs     it does something else, so the page is wrong
  failed      the measurement raised, hung or ended the process
  skipped     the library or a second GPU is missing
  documented  read in the library's documents, not measured; "observed" has the address

--list prints the claims without measuring anything, and needs no library. Nor does
--not-measured: it marks those claims in FILE as documented whose measurement is new or
has changed since that run. Exit code: 0, 1 if a claim differs or failed, 77 without a GPU.

The claims of a library run in one process, those that may spoil a process each in one
of their own. A process that ends early is started again after the claim that ended it.
"""

import argparse
import concurrent.futures
import datetime
import faulthandler
import importlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import claims  # noqa: E402
import gpu  # noqa: E402
from gpu_check import machine  # noqa: E402

MODULES = ["torch_claims", "cupy_claims", "numba_claims", "cuda_core_claims",
           "rmm_claims"]
LONGEST = 20  # seconds for one claim
IMPORT = 60  # seconds more for the first claim, which imports the library
NO_GPU = 77
BAD = ("differs", "failed")


def libraries():
    return [importlib.import_module(name).library for name in MODULES]


def chosen(arguments):
    """[(library, claims)], as the command line wants them."""
    only = set(arguments.only.split(",")) if arguments.only else None
    found = []
    for library in libraries():
        if arguments.library in (None, library.name):
            found.append((library, [c for c in library.claims.values()
                                    if only is None or c.id in only]))
    return found


def row(claim, outcome, observed, seconds=0.0):
    return {"id": claim.id, "library": claim.library, "claim": claim.says,
            "outcome": outcome, "observed": observed, "seconds": round(seconds, 2),
            "code": claim.code}


def text_of(report):
    """JSON with one line for each member and fact."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}"
             for key, value in report.items() if key != "facts"]
    facts = ",\n".join(f"  {json.dumps(fact)}" for fact in report["facts"])
    return "{\n" + ",\n".join(lines) + f',\n "facts": [\n{facts}]\n}}\n'


def mark_not_measured(path):
    """Replaces the rows of claims that the run did not measure as they are now."""
    report = json.loads(path.read_text(encoding="utf-8"))
    old = {fact["id"]: fact for fact in report["facts"]}
    report["facts"] = [
        old[claim.id] if old.get(claim.id, {}).get("code") == claim.code
        else row(claim, "documented", claim.source or library.documents)
        for library in libraries() for claim in library.claims.values()]
    path.write_text(text_of(report), encoding="utf-8")


# ---- In a process of its own: claims of one library, a line of JSON for each


def measured(claim, devices):
    if devices < claim.devices:
        return "skipped", f"needs {claim.devices} GPUs"
    try:
        return "holds", claim.measure()
    except claims.Differs as difference:
        return "differs", str(difference)
    except claims.Skip as reason:
        return "skipped", str(reason)
    except Exception as error:
        return "failed", claims.named(error)


def work(name, ids):
    library = next(x for x in libraries() if x.name == name)
    devices = gpu.device_count()
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print does not come between the lines
    limit = LONGEST + IMPORT
    for id in ids:
        claim = library.claims[id]
        faulthandler.dump_traceback_later(limit, exit=True)
        limit = LONGEST
        begin = time.monotonic()
        outcome, observed = measured(claim, devices)
        if not claim.alone:
            gpu.driver().cuCtxSynchronize()  # for the next claim
        json.dump(row(claim, outcome, observed, time.monotonic() - begin), output)
        output.write("\n")
        output.flush()
        faulthandler.cancel_dump_traceback_later()
    os._exit(0)  # no destructor of a spoiled process


# ---- In the process that starts these


def last_lines(text):
    return " | ".join(text.strip().splitlines()[-3:])[-300:]


def one_process(library, wanted):
    """The rows that a process has printed, and what it said if it ended early."""
    with tempfile.TemporaryFile("w+") as errors:
        try:
            done = subprocess.run(
                [sys.executable, str(HERE / "facts.py"), "--work", library.name,
                 ",".join(c.id for c in wanted)],
                stdout=subprocess.PIPE, stderr=errors, text=True,
                timeout=2 * (LONGEST + IMPORT))
            printed, ended = done.stdout, f"ended with {done.returncode}"
        except subprocess.TimeoutExpired as expired:
            printed = (expired.stdout or b"").decode()
            ended = "took too long"
        errors.seek(0)
        said = errors.read()
    rows = [json.loads(line) for line in printed.splitlines() if line.endswith("}")]
    return rows, f"the process {ended}: {last_lines(said)}"


def run(library, wanted):
    """The rows of all these claims."""
    rows, rest = [], list(wanted)
    while rest:
        found, said = one_process(library, rest)
        rows += found
        rest = rest[len(found):]
        if rest:
            rows.append(row(rest.pop(0), "failed", said))
    return rows


def missing(library):
    for name in library.modules:
        try:
            if importlib.util.find_spec(name) is None:
                return name
        except ImportError:
            return name
    return None


def all_rows(selection):
    """The libraries one after the other, then the claims that run alone, together."""
    rows, alone = [], []
    for library, wanted in selection:
        rows += [row(c, "documented", c.source) for c in wanted if c.source]
        wanted = [c for c in wanted if not c.source]
        absent = missing(library)
        if absent is not None:
            rows += [row(c, "skipped", f"no module {absent}") for c in wanted]
            continue
        rows += run(library, [c for c in wanted if not c.alone])
        alone += [(library, [c]) for c in wanted if c.alone]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for found in pool.map(lambda job: run(*job), alone):
            rows += found
    order = [c.id for library in libraries() for c in library.claims.values()]
    return sorted(rows, key=lambda r: order.index(r["id"]))


def versions():
    found = {"python": platform.python_version()}
    for name in ["numpy"] + [d for x in libraries() for d in x.distributions]:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--library")
    parser.add_argument("--only", metavar="ID,ID")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--commit", metavar="COMMIT")
    parser.add_argument("--not-measured", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.work:
        name, ids = arguments.work
        return work(name, ids.split(","))
    if arguments.not_measured:
        mark_not_measured(arguments.not_measured)
        return 0
    selection = chosen(arguments)
    if arguments.list:
        json.dump([{"id": c.id, "library": c.library, "claim": c.says,
                    "source": c.source or "measured", "code": c.code}
                   for _, wanted in selection for c in wanted],
                  sys.stdout, indent=1)
        print()
        return 0
    devices = gpu.device_count()
    if devices == 0:
        print("skipped: there is no CUDA device", file=sys.stderr)
        return NO_GPU
    begin = time.monotonic()
    rows = all_rows(selection)
    report = {"date": datetime.date.today().isoformat(),
              "commit": arguments.commit or machine.described(),
              "machine": f"{devices} x {gpu.device_name()}",
              "seconds": round(time.monotonic() - begin, 1),
              "versions": versions(), "facts": rows}
    for r in rows:
        print(f"{r['outcome']:10} {r['id']:5} {r['claim']}: {r['observed']}",
              file=sys.stderr)
    text = text_of(report)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 1 if any(r["outcome"] in BAD for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
