# SPDX-License-Identifier: Apache-2.0
"""A copy of the checkout with a compiled build folder, in which mutants are made.

The files of the build folder are hard links: nothing is compiled twice, and what
is made here replaces a link, so that the build folder itself stays as it is. A
mutant takes one object and the links of the libraries that it is in. A program
that has the object inside is linked when its turn comes.
"""

import collections
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time

from sample import ROOT

# Archives of the installation. Their objects are in a shared library, too.
LEFT_ALONE = ("libdevrt.a", "libdevrt_mtia.a")
PRISTINE = ".pristine"
# These programs have code of the product compiled in, and test that copy.
OWN_COPIES = "tests/gpu/"


def tool(*names):
    return next((name for name in names if shutil.which(name)), None)


class Tree:
    def __init__(self, build, folder):
        self.build = pathlib.Path(build).resolve()
        self.folder = pathlib.Path(folder).resolve()
        self.root = self.folder / "tree"
        self.out = self.root / "build"
        self.compiler = tool("clang++", "clang++-14", "c++")
        self.lock = threading.Lock()
        self.linker = tool("mold", "ld.lld")

    # ---- Making the copy ----------------------------------------------------

    def make(self):
        shutil.rmtree(self.root, ignore_errors=True)
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True,
                                stdout=subprocess.PIPE).stdout.decode()
        for name in filter(None, listed.split("\0")):
            target = self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
        shutil.copytree(self.build, self.out, symlinks=True, copy_function=os.link)
        for other in ROOT.glob("build-python"):
            (self.root / other.name).symlink_to(other)

    def open(self):
        """Reads how things are made; what an interrupted run left is mended."""
        for left in self.root.rglob("*" + PRISTINE):
            os.replace(left, str(left).removesuffix(PRISTINE))
        commands = json.loads((self.out / "compile_commands.json").read_text())
        self.commands = {c["output"]: self.moved(c["command"]) for c in commands}
        self.source_of = {c["output"]: c["file"].removeprefix("../")
                          for c in commands}
        self.read_links()
        self.objects_of = collections.defaultdict(list)
        for output in self.commands:
            if self.users_of([output]) and (self.out / output).exists():
                self.objects_of[self.source_of[output]].append(output)
        self.read_headers()

    def moved(self, text):
        """The text with the paths of the checkout in the copy."""
        return re.sub(re.escape(str(ROOT)) + r"(?=[/:\s'\"]|$)", str(self.root),
                      text)

    def name_of(self, path):
        """Of a file, from the root; `path` is seen from the build folder."""
        return os.path.relpath(os.path.realpath(self.out / path), self.root)

    def ninja(self, *arguments):
        return subprocess.run(["ninja", *arguments], cwd=self.out, text=True,
                              check=True, stdout=subprocess.PIPE).stdout

    def read_links(self):
        """Reads the targets that link an object or an archive: its `users`."""
        self.users = collections.defaultdict(list)
        self.commands_of_links = {}
        target, made = None, re.compile(r"build (\S+)[^:]*: (\w+_LINKER) ([^|]*)")
        for line in (self.out / "build.ninja").read_text().replace(
                "$\n", "").splitlines():
            match = made.match(line)
            if match:
                target = match.group(1)
                for name in match.group(3).split():
                    self.users[name].append(target)
            elif not line.startswith(" "):
                target = None
            elif target and line.lstrip().startswith("LINK_ARGS = "):
                for name in re.findall(r"\S+\.a\b", line):
                    if name != target and target not in self.users[name]:
                        self.users[name].append(target)
        targets = json.loads((self.out / "meson-info/intro-targets.json").read_text())
        self.file_of = {t["id"]: os.path.relpath(t["filename"][0], self.build)
                        for t in targets}

    def users_of(self, objects):
        """The libraries and programs that have one of the objects inside."""
        found, archives, seek = [], set(), list(objects)
        while seek:
            for target in self.users[seek.pop()]:
                if target.endswith(".a"):
                    if target not in archives and not target.endswith(LEFT_ALONE):
                        archives.add(target)
                        seek.append(target)
                elif target not in found:
                    found.append(target)
        return found

    def programs_of(self, test):
        """Returns the programs and libraries of a test, by their place in the build
        folder."""
        return [self.file_of[name] for name in test["depends"]
                if name in self.file_of]

    def read_headers(self):
        """Which objects a header is in, of those that are linked again."""
        known = {output for all_ in self.objects_of.values() for output in all_}
        place = {}
        output = None
        for line in self.ninja("-t", "deps").splitlines():
            if not line.startswith(" "):
                output = line.split(":")[0]
            elif output in known and line.endswith(".h"):
                name = line.strip()
                if name not in place:
                    place[name] = self.name_of(name)
                if not place[name].startswith(".."):
                    self.objects_of[place[name]].append(output)
        # Tests of what is in a library use the library.
        for name, outputs in self.objects_of.items():
            inside = [o for o in outputs
                      if o.startswith(OWN_COPIES) or
                      any(".so" in target for target in self.users_of([o]))]
            if name.endswith(".h") and inside:
                self.objects_of[name] = inside

    # ---- Compiling and linking ----------------------------------------------

    def compile(self, output, flags, target=None):
        """Returns the compiler's messages, or None if the file compiled."""
        words = [w for w in shlex.split(self.commands[output])
                 if not re.match(r"-(W[a-z-]*[^,]*|O\d|g\d?|fdiagnostics.*|MD)$", w)]
        while not words[0].startswith("-"):
            words.pop(0)
        source = words[words.index("-c") + 1]
        for flag in ("-MQ", "-MF", "-o", "-c"):
            at = words.index(flag)
            del words[at:at + 2]
        target = target or self.out / (output + ".new")
        words = [self.compiler, "-w", *flags, *words]
        return self.call([*words, *self.precompiled(output, words), "-c",
                          source, "-o", str(target)])

    def call(self, words):
        result = subprocess.run(words, cwd=self.out, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return result.stdout if result.returncode != 0 else None

    def precompiled(self, output, words):
        """Parses the headers that most files include once, which saves half of the
        time. clang only."""
        if "clang" not in self.compiler or not re.match("(lib/libdevrt.so|python/)",
                                                        output):
            return []
        key = hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]
        header = self.folder / f"common-{key}.pch"
        with self.lock:
            if not header.exists() and self.call(
                    [*words, "-x", "c++-header", "-o", str(header),
                     str(self.root / "lib/precompiled/common.h")]) is not None:
                return []
        return ["-include-pch", str(header)]

    def replace(self, name, new):
        """Puts a file into the copy; `restore` brings back what was there."""
        kept = self.out / (str(name) + PRISTINE)
        if not kept.exists():
            os.rename(self.out / name, kept)
        os.replace(new, self.out / name)

    def restore(self, names):
        for name in names:
            kept = self.out / (str(name) + PRISTINE)
            if kept.exists():
                os.replace(kept, self.out / name)

    def link(self, target, objects, flags=()):
        """Returns the linker's messages, or None if it linked. Objects precede the
        archives that contain them, too."""
        if target not in self.commands_of_links:
            self.commands_of_links[target] = shlex.split(self.moved(
                self.ninja("-t", "commands", "-s", target).strip()))
        words = list(self.commands_of_links[target])
        at = words.index("-o")
        words[at + 1] = target + ".new"
        words[at + 2:at + 2] = [o for o in objects if target not in self.users[o]
                                and target in self.users_of([o])]
        words[0:1] = [self.compiler, *flags]
        if self.linker:
            words.insert(1, "-fuse-ld=" + self.linker.replace("ld.", ""))
        said = self.call(words)
        if said is None:
            self.replace(target, self.out / (target + ".new"))
        return said

    # ---- Tests --------------------------------------------------------------

    def tests(self, left_out):
        """By name, those of no suite that is left out."""
        listed = json.loads(
            (self.out / "meson-info/intro-tests.json").read_text())
        found = {}
        for test in listed:
            suites = {s.split(":")[-1] for s in test["suite"]}
            if not suites & left_out:
                found[test["name"]] = test
        return found

    def run(self, test, timeout, environment=None):
        """'passed', 'failed', 'skipped' or 'timeout', and the seconds; those of the
        processor, which a loaded machine does not change."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("DEVRT_")}
        env.update({k: self.moved(v) for k, v in test["env"].items()})
        env.update({"GTEST_FAIL_FAST": "1", "PYTEST_ADDOPTS": "-x -q",
                    "PYTHONDONTWRITEBYTECODE": "1"})
        env.update(environment or {})
        command = [self.moved(word) for word in test["cmd"]]
        process = subprocess.Popen(
            command, cwd=self.moved(test["workdir"] or "") or self.out, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        verdict = self.wait(process.pid, time.monotonic() + timeout)
        # With what it left behind.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if verdict is None:
            verdict = "timeout", os.wait4(process.pid, 0)[2]
        process.returncode = 0  # it has been waited for
        return verdict[0], verdict[1].ru_utime + verdict[1].ru_stime

    @staticmethod
    def wait(pid, end):
        """The verdict and the resources it took; None: it has not ended."""
        while time.monotonic() < end:
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return {0: "passed", 77: "skipped"}.get(code, "failed"), usage
            time.sleep(0.02)
        return None
