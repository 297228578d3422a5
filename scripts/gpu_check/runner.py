# SPDX-License-Identifier: Apache-2.0
"""Runs commands for the parts, and keeps their results."""

import dataclasses
import itertools
import json
import os
import pathlib
import shlex
import signal
import subprocess
import time
import traceback

PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"
TAIL = 40  # lines of a command that Command.tail keeps


class Skip(Exception):
    """The part, or the rest of it, cannot run here.  The text says why."""


@dataclasses.dataclass
class Row:
    part: str
    outcome: str
    detail: str
    counts: dict  # number of tests by outcome
    failures: list  # the tests that failed
    left_out: bool = False  # by --skip or --only


@dataclasses.dataclass
class Command:
    part: str
    words: list
    code: int  # None: it did not end in time
    output: str
    seconds: float

    @property
    def text(self):
        return shlex.join(self.words)

    @property
    def ending(self):
        if self.code is None:
            return f"did not end within {self.seconds:.0f} s"
        if self.code < 0:
            return f"ended by signal {-self.code}"
        return f"exit code {self.code}"

    @property
    def tail(self):
        return "\n".join(self.output.splitlines()[-TAIL:])


class Runner:

    def __init__(self, root, folder, library_path):
        self.root = root
        self.folder = folder
        self.rows = []
        self.commands = []
        self.numbers = itertools.count(1)
        # For the result file, by part.
        self.figures = {}
        self.bench_rows = {}
        self.partial = {}
        self.part = None
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith("DEVRT_") or library_path}
        places = [library_path] if library_path else []
        places += [str(root / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        self.environment["LD_LIBRARY_PATH"] = ":".join(p for p in places if p)

    def rows_of(self, part):
        return [row for row in self.rows if row.part == part]

    def add(self, part, outcome, detail, counts=None, failures=None):
        """Adds a row, which counts as one test if `counts` does not say otherwise."""
        failed = failures or [detail] if outcome == FAILED else []
        self.rows.append(Row(part, outcome, detail,
                             {outcome.lower(): 1} if counts is None else counts,
                             failed))

    def leave_out(self, part):
        self.rows.append(Row(part, SKIPPED, "--skip", {}, [], left_out=True))

    def run_part(self, name, part, options):
        self.part = name
        print(f"{name} ...", flush=True)
        try:
            part(self, options)
        except Skip as reason:
            self.add(name, SKIPPED, str(reason))
        except Exception as error:  # the results of other parts must not be lost
            traceback.print_exc()
            self.add(name, FAILED, f"gpu-check itself: {error!r}")

    def path(self, name):
        return str(self.root / name)

    def file(self, name):
        """Returns a new file for a command's output, so that no old one is taken for
        it.
        """
        path = self.folder / name
        path.unlink(missing_ok=True)
        return path

    def run(self, words, timeout, variables=None):
        """Runs a command, and ends it with all its children when the time is up.

        Several threads of a part may run commands at a time.
        """
        begin = time.monotonic()
        words = [str(word) for word in words]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True,
            env={**self.environment, **(variables or {})})
        try:
            output, _ = process.communicate(timeout=timeout)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            code = None
        command = Command(self.part, words, code, output,
                          time.monotonic() - begin)
        self.commands.append(command)
        number = next(self.numbers)
        (self.folder / f"{number:02}_{self.part}.txt").write_text(
            f"$ {command.text}\n{output}\n{command.ending}\n",
            encoding="utf-8")
        return command

    def read_json(self, path):
        """Returns None if the command did not write it."""
        try:
            return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def device_list(self):
        self.part = "list"
        command = self.run([self.path("tools/devrt"), "list", "--json"], 60)
        try:
            found = json.loads(command.output)["devices"]
        except (KeyError, ValueError):
            return []
        return [f"{device['device']} {device['name']}" for device in found]
