# SPDX-License-Identifier: Apache-2.0
"""Checks the commands of a shell block without running them.

bash reads the block in an empty folder where each program is a stand-in, which writes
its arguments down and succeeds. So variables, quotes and here-documents mean what they
mean to a reader. Then each command is checked:

- the program is one of those in CHECKS below, a script of the tree, or a program that the
  build makes;
- each option is in what `PROGRAM --help` prints, where the program is installed; the
  options of a compiler are given to it with an empty source;
- each -DNAME=VALUE for Meson is an option of this project or of Meson;
- each test, suite or target that is named exists.

Not checked: whether the command would succeed, and values of options.
"""

import fnmatch
import functools
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Writes its name and its arguments, each with a NUL behind it, and a NUL behind all.
# Each prints "1", where a command's output is a number.
STAND_IN = """#!/bin/bash
printf '%s\\0' "${0#"$STAND_INS/"}" "$@" '' >>"$SAID"
echo 1
"""
# `.` reads a file that another command would have made; `cd` goes to a folder of the tree.
PRELUDE = """
function . { "$STAND_INS/source" "$@"; }
function cd {
  if [ -d "$TREE/$1" ]; then /bin/mkdir -p "$1"; fi
  builtin cd "$1"
}
"""
OF_A_BUILD = re.compile(r"(?:\./)?build[\w-]*/[\w./-]+")
# The reader's own programs.
OF_THE_READER = ("./program", "./train")
SCRIPT = re.compile(r"^(?:\./)?((?:\.ci|scripts|tests|bench)/[\w./-]+)$")
# Options of programs of a build that come from a library.
OF_LIBRARIES = {"--benchmark_filter", "--benchmark_repetitions", "--gtest_filter",
                "--benchmark_report_aggregates_only",
                "-runs", "-max_len", "-timeout", "-rss_limit_mb"}
COMPILERS = ("c++", "cc", "clang", "clang++", "gcc", "g++")


class CommandError(Exception):
    pass


def commands_of(text):
    """The commands of a block, each a list of words. Raises CommandError where bash fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        stand_ins, work, said = folder / "stand-ins", folder / "work", folder / "said"
        for place in (stand_ins, work):
            place.mkdir()
        said.touch()
        program = stand_ins / "stand-in"
        program.write_text(STAND_IN, encoding="utf-8")
        program.chmod(0o755)
        for known in (*CHECKS, "source"):
            (stand_ins / known).symlink_to(program)
        words = set(re.split(r"[\s;&|()\"'=]+", text))
        for word in words:
            script = SCRIPT.match(word)
            if OF_A_BUILD.fullmatch(word) or word in OF_THE_READER or (
                    script and (ROOT / script[1]).is_file()
                    and os.access(ROOT / script[1], os.X_OK)):
                path = work / word
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    path.symlink_to(program)
        done = subprocess.run(
            ["/bin/bash", "-euc", PRELUDE + text], cwd=work, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={"PATH": str(stand_ins), "HOME": str(work), "STAND_INS": str(stand_ins),
                 "SAID": str(said), "TREE": str(ROOT)})
        if done.returncode != 0:
            raise CommandError(done.stderr.strip())
        records = said.read_text(encoding="utf-8").split("\0\0")
        return [record.split("\0") for record in records if record]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, timeout=60,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    return done.returncode, done.stdout


@functools.lru_cache(maxsize=None)
def help_of(*command):
    """Returns the text of --help, or None if the command is not installed."""
    if shutil.which(command[0]) is None:
        return None
    return run(*command, "--help")[1]


def options_of(words):
    """The options of a command, up to `--`."""
    if "--" in words:
        words = words[:words.index("--")]
    return [word for word in words if re.match(r"-[\w-]", word)]


def check_options(words, text, what, known=()):
    if text is None:
        return
    for word in options_of(words):
        option = word.split("=")[0]
        if not option.startswith("--") and option not in known:
            option = option[:2]
        if option not in known and not re.search(
                rf"(?<![\w-]){re.escape(option)}(?![\w-])", text):
            raise CommandError(f"{what} has no option {option}")


@functools.lru_cache(maxsize=None)
def of_build(name):
    """Returns Meson's introspection of the build: "buildoptions", "tests" or
    "targets"."""
    path = pathlib.Path(os.environ["DEVRT_BUILD"]) / f"meson-info/intro-{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def check_meson_option(word):
    name = word[2:].split("=")[0]
    names = {option["name"] for option in of_build("buildoptions")}
    if name not in names:
        raise CommandError(f"no option of the build: {name}")


@functools.lru_cache(maxsize=None)
def files_of_build():
    build = os.environ["DEVRT_BUILD"]
    return {os.path.relpath(file, build) for target in of_build("targets")
            for file in target["filename"]}


def is_target(name):
    """Returns True for a program of the build, by its path, and for an alias of targets."""
    return name in files_of_build() or any(
        re.search(rf"alias_target\(\s*'{re.escape(name)}'", path.read_text("utf-8"))
        for folder in ("", "bench", "docs", "python", "tests", "tools")
        for path in (ROOT / folder).glob("**/meson.build" if folder else "meson.build"))


def without_values(words, options):
    """The words that are neither options nor the values of these options."""
    found, skip = [], False
    for word in words:
        if not skip and not word.startswith("-"):
            found.append(word)
        skip = not skip and word in options
    return found


def check_meson(words):
    command = words[1]
    check_options([w for w in words[2:] if not w.startswith("-D")],
                  help_of("meson", command), f"meson {command}")
    for word in words[2:]:
        if word.startswith("-D"):
            check_meson_option(word)
    if command == "test":
        names = {test["name"] for test in of_build("tests")}
        suites = {suite.split(":")[-1] for test in of_build("tests")
                  for suite in test["suite"]}
        for option, suite in zip(words, words[1:]):
            if option == "--suite" and suite not in suites | {"fuzz"}:
                raise CommandError(f"no suite of tests: {suite}")
        for name in without_values(words[2:], ("-C", "--suite", "-t",
                                               "--timeout-multiplier")):
            if not fnmatch.filter(names, name):
                raise CommandError(f"no test: {name}")


def check_ninja(words):
    check_options(words[1:], help_of("ninja"), "ninja")
    for name in without_values(words[1:], ("-C", "-j")):
        if not is_target(name):
            raise CommandError(f"no target: {name}")


def check_devrt(words):
    text = help_of(os.environ["DEVRT_TOOL"], words[1])
    if not text.startswith("Usage:") and "sage: devrt" not in text:
        raise CommandError(f"no command of devrt: {words[1]}")
    check_options(words[2:], text, f"devrt {words[1]}")
    if "--" in words:
        check(words[words.index("--") + 1:])


def check_pip(words):
    text = importlib.util.find_spec("pip") and help_of(sys.executable, "-m", "pip", words[1])
    if text and "--config-settings" in text:
        check_options(words[2:], text, f"pip {words[1]}")
    for word in words[2:]:
        if word.startswith("-Csetup-args="):
            check_meson_option(word.split("=", 1)[1])


def check_python(words):
    if words[1] == "-c":
        compile(words[2], "-c", "exec")
    elif words[1] == "-m":
        if run(sys.executable, "-c", f"import {words[2]}")[0] != 0:
            raise CommandError(f"no module of Python: {words[2]}")
    else:
        check_script(words[1:])


def check_script(words):
    path = ROOT / SCRIPT.match(words[0])[1]
    if not path.is_file():
        raise CommandError(f"no script: {words[0]}")
    text = path.read_text(encoding="utf-8")
    if "python3" in text.split("\n")[0]:
        text += help_of(sys.executable, str(path))
    check_options(words[1:], text, words[0])
    # A job or a part; values that look like files are the reader's.
    for word in words[1:]:
        if re.fullmatch(r"[a-z_]+", word) and not re.search(rf"\b{word}\b", text):
            raise CommandError(f"{words[0]} knows no {word}")


def check_program_of_build(words):
    name = re.sub(r"^(?:\./)?build[\w-]*/", "", words[0])
    if not is_target(name):
        raise CommandError(f"no program of the build: {words[0]}")
    if name == "tools/devrt":
        check_devrt(words)
    else:
        check_options(words[1:], "", words[0], OF_LIBRARIES)


def check_compiler(words):
    if shutil.which(words[0]) is None:
        return
    options = [word for word in options_of(words[1:]) if word != "-o"]
    code, said = run(words[0], *options, "-fsyntax-only", "-x",
                     "c++" if words[0].endswith("++") else "c", "/dev/null")
    if code != 0 or "unrecognized" in said:
        raise CommandError(said)


def check_source(words):
    if not words[1].endswith("/bin/activate"):
        raise CommandError(f"reads {words[1]}, which nothing makes")


def check_nice(words):
    check_options(words[1:2], help_of("nice"), "nice")
    check(words[3:])


def check_tool(words):
    """A command of Debian's packages; each letter of its short options."""
    text = help_of(words[0])
    for word in options_of(words[1:]):
        letters = [word] if word.startswith("--") else [f"-{x}" for x in word[1:]]
        if word.startswith("-") and not word.startswith("--") and len(word) == 2:
            letters = [word]
        check_options(letters, text, words[0])


CHECKS = {
    **dict.fromkeys(COMPILERS, check_compiler),
    **dict.fromkeys(("addr2line", "awk", "cat", "cp", "install", "jq", "mkdir",
                     "pkg-config", "rm"), check_tool),
    "devrt": check_devrt,
    "meson": check_meson,
    "nice": check_nice,
    "ninja": check_ninja,
    "pip": check_pip,
    "python": check_python,
    "python3": check_python,
}


def check(words):
    """Raises CommandError for a command that cannot be right."""
    name = words[0]
    if name == "source":
        check_source(words)
    elif name in CHECKS:
        CHECKS[name](words)
    elif SCRIPT.match(name):
        check_script(words)
    elif OF_A_BUILD.fullmatch(name):
        check_program_of_build(words)
    elif name not in OF_THE_READER:
        raise CommandError(f"no known program: {name}")


def check_block(text):
    """Checks all commands; returns how many there are."""
    commands = commands_of(text)
    for words in commands:
        check(words)
    return len(commands)
