# SPDX-License-Identifier: Apache-2.0
"""The checks that scripts/check runs.

Each returns a list of findings, or raises Skipped with the reason why it could not
look.  None needs git: a check reads the files that a build would read.
"""

import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE_FOLDERS = [
    "arrays", "backends", "bench", "collectives", "cts", "examples", "guards", "include",
    "layers", "lib", "memory", "packaging", "python", "runtime", "sim",
    "streams", "tests", "tools",
]
CODE = {".c", ".cc", ".cu", ".h"}
UNITS = {".c", ".cc", ".cu"}

MOST_LINES = 500
# The files that may have more, each with the reason.
LONG_FILES = {
    "tests/memory/device/recovery_test.cc":
        "the steps of one recovery, in their order, over one fixture",
}

# By library in a build folder: the list of its exports, one name a line.  A change of
# the list changes what programs may use, so reviewers see it.
EXPORT_LISTS = {
    "lib/libdevrt.so": pathlib.Path("lib/devrt.symbols"),
    "collectives/libdevrt_collectives.so": pathlib.Path(
        "collectives/devrt_collectives.symbols"),
    "cts/libdevrt_cts.so": pathlib.Path("cts/devrt_cts.symbols"),
}
EXPORT_LIST_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# What {} exports. After a change that is meant: scripts/check --fix
"""
# Abseil puts its version into its names: absl::lts_20220623::Status.
ABSL_VERSION = re.compile(r"\babsl::(lts_\d+|debian\d+)::")
PLUGIN_EXPORTS = {"devrt_plugin_manifest_v0", "devrt_plugin_open_v0"}
VENDOR_LIBRARY = re.compile(r"cuda|nvidia|nvrtc|hip|amd|rocm|hsa", re.I)


class Skipped(Exception):
    """A check could not look; the text says why."""


def run(*command):
    """Returns the output of a command that should succeed."""
    return subprocess.run(command, text=True, check=True, cwd=ROOT,
                          stdout=subprocess.PIPE).stdout


def sources(suffixes):
    """Returns all files with these suffixes, relative to the root.  Follows no links.

    Leaves out caches, whose names begin with a dot or an underscore.
    """
    found = []
    for folder in SOURCE_FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            relative = path.relative_to(ROOT)
            hidden = any(part[0] in "._" for part in relative.parts)
            if (path.suffix in suffixes and path.is_file() and not hidden
                    and not path.is_symlink()):
                found.append(relative)
    return sorted(found)


def scripts():
    """Returns scripts and build files, which are not compiled but read by people."""
    found = [p for p in ROOT.glob("scripts/*") if p.is_file()]
    found += [p for p in ROOT.glob(".ci/*") if p.is_file()]
    found += [ROOT / "meson.build", ROOT / "meson_options.txt"]
    return ([p.relative_to(ROOT) for p in sorted(found)]
            + sources({".build", ".py", ".map", ".inc", ".sh"}))


# format


def clang_format():
    """Returns the command of clang-format 14.  Other versions format differently."""
    for name in ["clang-format-14", "clang-format"]:
        if shutil.which(name) and " 14." in run(name, "--version"):
            return name
    raise Skipped("clang-format 14 is missing; scripts/setup --dev installs it")


def check_format(fix):
    command = [clang_format(), "-i"] if fix else [
        clang_format(), "--dry-run", "--Werror", "-fno-color-diagnostics"]
    result = subprocess.run(command + [str(p) for p in sources(CODE)], cwd=ROOT,
                            text=True, stderr=subprocess.PIPE)
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", result.stderr, re.M)))
    if result.returncode != 0 and not wrong:
        return [result.stderr]
    return [f"{path} is not formatted; scripts/check --fix formats it"
            for path in wrong]


# orphans


def included(path):
    """Returns the quoted includes of a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M)


def mentioned_in_builds():
    """Returns what the meson.build files name, as paths without suffix.

    A test table names a program by its stem, so a suffix may be missing.
    """
    found = set()
    for build in sources({".build"}):
        text = (ROOT / build).read_text(encoding="utf-8")
        words = re.findall(r"'([^'\n]+)'", text)
        # A loop over stems: files('tests' / stem + '_tests.cc').
        for folder, end in re.findall(r"files\('(\w+)' / \w+ \+ '([\w.]+)'\)",
                                      text):
            found |= {ROOT / build.parent / folder / (word + end)
                      for word in words}
        for word in words:
            path = (ROOT / build.parent / word).resolve()
            found.add(path)
            found.add(path.with_suffix(""))
    return found


def resolve(name, includer, known):
    """Returns the file of this tree that an include names, or None."""
    for base in [pathlib.Path(), includer.parent, pathlib.Path("include")]:
        path = ROOT / base / name
        if path.exists():
            path = path.resolve().relative_to(ROOT.resolve())
            if path in known:
                return path
    return None


def check_orphans():
    known = set(sources(CODE | {".inc"}))
    mentioned = mentioned_in_builds()
    reached = {path for path in known
               if ROOT / path in mentioned
               or (path.suffix in UNITS
                   and (ROOT / path).with_suffix("") in mentioned)}
    queue = list(reached)
    while queue:
        path = queue.pop()
        for name in included(path):
            target = resolve(name, path, known)
            if target and target not in reached:
                reached.add(target)
                queue.append(target)
    return [f"{path} is neither built nor included by anything that is"
            for path in sorted(known - reached)]


# headers: the part that needs no compiler


# `devrt new-backend` copies the template's headers into a project of its own.
GUARD_OF_ANOTHER_ROOT = "backends/template/"


def guard_of(path):
    """The include guard that a header's path from the root asks for."""
    return "DEVRT_" + re.sub(r"\W", "_", str(path)).upper() + "_"


def check_guards():
    findings = []
    for path in sources({".h"}):
        if str(path).startswith(GUARD_OF_ANOTHER_ROOT):
            continue
        guard = guard_of(path)
        text = (ROOT / path).read_text(encoding="utf-8")
        if f"\n#ifndef {guard}\n#define {guard}\n" not in text:
            findings.append(f"{path} needs the include guard {guard}")
        elif not re.search(rf"^#endif +(?:// |/\* ){guard}\b", text, re.M):
            findings.append(f"{path} lacks its guard's name behind #endif")
    return findings


# size


def check_size():
    findings = []
    files = sources(CODE | {".inc", ".js", ".css", ".pyi"}) + scripts()
    for path in sorted(set(files)):
        lines = (ROOT / path).read_bytes().count(b"\n")
        is_exception = str(path) in LONG_FILES
        if lines > MOST_LINES and not is_exception:
            findings.append(f"{path} has {lines} lines; {MOST_LINES} is the most: "
                            "give each subject a file")
        if lines <= MOST_LINES and is_exception:
            findings.append(f"{path} has {lines} lines and needs no exception in "
                            "LONG_FILES of scripts/checks.py")
    return findings


# columns


MOST_COLUMNS = 80
COMMENT = re.compile(r"\s*(//|/\*|\*)")


def check_columns():
    """Finds comments that are too wide: the formatter leaves comments alone."""
    return [f"{path}:{number} is a comment of {len(line)} columns; "
            f"{MOST_COLUMNS} are the most"
            for path in sources(CODE | {".inc"})
            for number, line in enumerate(
                (ROOT / path).read_text(encoding="utf-8").splitlines(), 1)
            if len(line) > MOST_COLUMNS and COMMENT.match(line)]


# openings


OPENING = re.compile(r"(?://+|/\*+|^\s*\*)\s*(Whether|The same)\b")


def check_openings():
    """Finds comments that begin without their subject: "Whether", "The same".

    Public headers are left out, since their text is a contract of the release.
    """
    public = {path.resolve() for path in (ROOT / "include").rglob("*.h")}
    findings = []
    for path in sources(CODE | {".inc"}):
        if (ROOT / path).resolve() in public:
            continue
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        findings += [f'{path}:{number} has a comment that begins with "{found[1]}": '
                     'name the subject, or write "Returns true if"'
                     for number, line in enumerate(lines, 1)
                     if (found := OPENING.search(line))]
    return findings


# spdx


def check_spdx():
    findings = []
    for path in sorted(set(sources(CODE | {".inc"}) + scripts())):
        with open(ROOT / path, encoding="utf-8") as file:
            head = [next(file, "") for _ in range(3)]
        if not any("SPDX-License-Identifier: Apache-2.0" in l for l in head):
            findings.append(f"{path} lacks its SPDX line")
    return findings


# links


def documents():
    return sorted([p for p in ROOT.glob("*.md")]
                  + [p for p in ROOT.glob("docs/**/*.md")]
                  + [ROOT / p for p in sources({".md"})])


def check_links():
    findings = []
    for document in documents():
        # A lambda of C++ looks like a link.
        text = re.sub(r"^ *```.*?^ *```$", "", document.read_text(encoding="utf-8"),
                      flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in target and not (document.parent / target).exists():
                findings.append(f"{document.relative_to(ROOT)} links to "
                                f"{target}, which does not exist")
    return findings


# waits


WAITING_FOLDERS = ["arrays", "backends", "collectives", "cts", "guards", "layers", "memory",
                   "python", "runtime", "sim", "streams", "tools"]
WAITS_PAGE = pathlib.Path("docs/reference/waits.md")
# What can hold a thread: sleeps, conditions, joins of threads and processes, the
# driver's waits, and loops without a condition in their head.
WAIT = re.compile(
    r"\b(?:nanosleep|sched_yield|sleep_for|sleep_until|sigtimedwait|waitid"
    r"|waitpid|pthread_join|sem_wait|time\.sleep|compare_exchange_weak)\("
    r"|\b(?:poll|pause|this_thread::yield)\("
    r"|(?:\.|->)wait(?:_for|_until)?\(\s*(?:\*?lock\b|lambda)"
    r"|(?:\.|->)join\(\)"
    r"|(?:->|\.)(?:stream|event|device)_sync\("
    r"|\bfor \(;;\)|\bwhile \(true\)|\bwhile True:"
    r"|\b(?:while|for) \([^\n]*\) \{\n\s*\}")


def waiting_files():
    """Returns the product's files that can hold a thread, by their code alone."""
    found = set()
    for folder in WAITING_FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in CODE | {".py"} or not path.is_file():
                continue
            text = path.read_text(encoding="utf-8")
            if path.suffix != ".py":
                text = re.sub(r"//[^\n]*", "", text)
            if WAIT.search(text):
                found.add(str(path.relative_to(ROOT)))
    return found


def check_waits():
    """Checks that docs/reference/waits.md says of each file with a wait why the wait ends."""
    page = (ROOT / WAITS_PAGE).read_text(encoding="utf-8")
    rows = re.findall(r"^\|([^|]*)\|", page, re.M)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    waiting = waiting_files()
    return ([f"{path} waits, or loops without an end in sight, and {WAITS_PAGE} "
             "does not say why that ends" for path in sorted(waiting - named)]
            + [f"{WAITS_PAGE} names {path}, which does not wait"
               for path in sorted(named - waiting)])


# exports


def exported(library):
    """Returns the dynamic symbols that a library defines."""
    lines = run("nm", "-D", "--defined-only", "--format=posix", str(library))
    return {line.split()[0] for line in lines.splitlines()}


def needed(library):
    """Returns the libraries that a library needs, by its dynamic section."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", str(library)))


def exported_names(library):
    """Returns what programs see of a C++ library, as they would write it."""
    lines = run("nm", "-DC", "--defined-only", str(library)).splitlines()
    return sorted({ABSL_VERSION.sub("absl::", line.split(maxsplit=2)[2])
                   for line in lines})


def check_export_list(library, export_list, fix):
    names = exported_names(library)
    path = ROOT / export_list
    if fix:
        path.write_text(EXPORT_LIST_HEAD.format(library.name)
                        + "\n".join(names) + "\n", encoding="utf-8")
    known = [line for line in path.read_text(encoding="utf-8").splitlines()
             if not line.startswith("#")] if path.exists() else []
    findings = ([f"{library.name} exports {name}, which is not in {export_list}"
                 for name in names if name not in known]
                + [f"{library.name} no longer exports {name}, see {export_list}"
                   for name in known if name not in names])
    if findings and path.exists() and (library.stat().st_mtime
                                       < path.stat().st_mtime):
        return [f"{library} was built before {export_list} was written and does "
                "not agree with it: build it, then check again"]
    return findings


def check_library(library, export_list, fix):
    findings = check_export_list(library, export_list, fix)
    loaded = run("ldd", str(library)).splitlines()
    return findings + [f"{library.name} loads {line.split()[0]}"
                       for line in loaded if VENDOR_LIBRARY.search(line.split()[0])]


def check_plugin(library):
    findings = []
    symbols = exported(library)
    if symbols != PLUGIN_EXPORTS:
        findings.append(f"{library.name} exports {sorted(symbols)}, "
                        f"expected {sorted(PLUGIN_EXPORTS)}")
    return findings + [f"{library.name} needs {name}: a plugin stands alone"
                       for name in needed(library)
                       if name.startswith(("libabsl", "libdevrt"))]


def check_exports(build, fix=False):
    libraries = {build / name: export_list
                 for name, export_list in EXPORT_LISTS.items()
                 if (build / name).exists()}
    plugins = sorted((build / "lib/devrt").glob("libdevrt_*.so"))
    if build / "lib/libdevrt.so" not in libraries or not plugins:
        raise Skipped(f"nothing built in {build}")
    if not (shutil.which("nm") and shutil.which("readelf")):
        raise Skipped("binutils is missing")
    findings = []
    for library, export_list in libraries.items():
        findings += check_library(library, export_list, fix)
    for plugin in plugins:
        findings += check_plugin(plugin)
    return findings
