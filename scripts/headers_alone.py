#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each public header alone, so that none depends on earlier includes.

With --together, compiles all headers in one file, as C++ only, once for each standard.

A header is public if include/devrt/ has it, usually as a link to the file beside its
body.  meson.build files list them in devrt_public_headers.  Every header is compiled as
C++, and those that test __cplusplus also as C.  Headers that need mpi.h are left out
where there is no MPI; the exit code is 77 if nothing else was asked for.

With --c, compiles only as C.  All headers alone as C++ take half a minute on two cores,
so "meson test" has --c and --together, and scripts/check the rest.
"""

import argparse
import concurrent.futures
import functools
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def public_headers():
    """Returns the public headers as programs include them, without devrt/."""
    folder = ROOT / "include/devrt"
    return sorted(os.path.relpath(os.path.join(path, name), folder)
                  for path, _, names in os.walk(folder, followlinks=True)
                  for name in names if name.endswith(".h"))


def languages(header, standards):
    """Returns the (language, standard) pairs to compile the header in."""
    path = ROOT / "include/devrt" / header
    pairs = [("c++", f"c++{s}") for s in standards]
    if path.exists() and "#ifdef __cplusplus" in path.read_text():
        pairs += [("c", "c99"), ("c", "c11")]
    return pairs


def needs_mpi(header):
    """Returns true if a program compiles the header with its own mpi.h."""
    path = ROOT / "include/devrt" / header
    return path.exists() and "#include <mpi.h>" in path.read_text(encoding="utf-8")


@functools.lru_cache
def mpi_folders():
    """Returns the folders of mpi.h, by Open MPI's compiler; none without MPI."""
    if shutil.which("mpicxx") is None:
        return []
    run = subprocess.run(["mpicxx", "--showme:incdirs"], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return run.stdout.split() if run.returncode == 0 else []


def include_folders():
    """Returns the include folders of this tree, and of Abseil if Meson fetched it."""
    fetched = sorted(ROOT.glob("subprojects/abseil-cpp-*/"))
    return [f"-I{path}" for path in [ROOT / "include"] + fetched] + [
        # Not the C++ interface of MPI, which is gone.
        "-DOMPI_SKIP_MPICXX", *(f"-isystem{path}" for path in mpi_folders())]


def complaints(compiler, headers, language, standard):
    """Returns the compiler's complaints about a file with these includes."""
    source = "".join(f'#include "devrt/{header}"\n' for header in headers)
    return complaints_about(compiler + WARNINGS, source, language, standard)


def complaints_about(compiler, source, language, standard):
    """The compiler's, about a source text; empty for none."""
    command = compiler + include_folders() + [
        f"-std={standard}", "-fsyntax-only", "-x", language, "-"]
    run = subprocess.run(command, input=source, text=True, cwd=ROOT,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return "" if run.returncode == 0 else run.stdout or "the compiler failed\n"


def compile_alone(job):
    """Returns the compiler's complaints about one header, "" for none."""
    compiler, header, language, standard = job
    # Included twice, to test its include guard.
    found = complaints(compiler, [header] * 2, language, standard)
    return found and f"{header} does not compile alone as {standard}:\n{found}"


def failures(headers, compiler, standards):
    """Returns the complaints about all headers.

    Uses one thread per processor.
    """
    jobs = [(compiler, header, language, standard) for header in headers
            for language, standard in languages(header, standards)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for text in pool.map(compile_alone, jobs) if text]


def failures_together(headers, compiler, standards):
    """Returns the complaints about one file of all headers, for each standard."""
    all_found = []
    for standard in standards:
        found = complaints(compiler, headers, "c++", f"c++{standard}")
        if found:
            all_found.append(f"the headers do not compile as c++{standard}:\n"
                             + found)
    return all_found


def default_compiler():
    """Returns the compiler's command line, or None without a compiler."""
    return os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--compiler", default=default_compiler(),
                        help="C++ compiler command (default: $CXX, c++)")
    parser.add_argument("--std", nargs="+", default=["17", "20"],
                        help="C++ standards (default: 17 20)")
    parser.add_argument("--together", action="store_true",
                        help="all in one file for each standard")
    parser.add_argument("--c", action="store_true", help="only as C")
    parser.add_argument("headers", nargs="*",
                        help="such as runtime/device.h (default: all)")
    args = parser.parse_args()
    if not args.compiler:
        sys.exit("headers_alone: no C++ compiler found; set CXX")
    look = failures_together if args.together else failures
    headers = args.headers or public_headers()
    if not mpi_folders():
        headers = [header for header in headers if not needs_mpi(header)]
    if not headers:
        print("no MPI here; scripts/setup --mpi")
        return 77
    found = look(headers, shlex.split(args.compiler), [] if args.c else args.std)
    print("\n".join(found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
