#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the compiler refuses wrong uses of devrt_plugin_helper.h, and its
messages.

usage: helper_refuses.py COMPILER [ARGUMENT...]

Each case changes the worked example of the header in one place. The compiler
reads what the cases have in common from a precompiled header.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE / "plugins"))
import extract_example  # noqa: E402  (needs the path)

ROOT = HERE.parents[1]
HEADER = ROOT / "backends/abi/devrt_plugin_helper.h"
SIGNATURE = ("the backend's member is private or has not the signature of the "
             "slot in devrt_plugin.h: ")
GOOD = 'DEVRT_DEFINE_PLUGIN(Mine, "mine", "Acme", "1");'
ALLOC = "devrt_status alloc(uint32_t, uint64_t, uint64_t, void**)"

# Name, body of `class Mine : public Tiny`, definition, expected words (None:
# it compiles).
CASES = [
    ("control", "public: using Tiny::Tiny;", GOOD, None),
    ("overloads", f"public: using Tiny::Tiny; {ALLOC}; void alloc(); ", GOOD,
     None),
    ("argument", "public: using Tiny::Tiny; "
     "devrt_status alloc(uint32_t, uint32_t, uint64_t, void**);", GOOD,
     SIGNATURE + "alloc"),
    ("fewer arguments", "public: using Tiny::Tiny; "
     "devrt_status stream_sync();", GOOD, SIGNATURE + "stream_sync"),
    ("result", "public: using Tiny::Tiny; "
     "void event_sync(devrt_event);", GOOD, SIGNATURE + "event_sync"),
    ("private", f"{ALLOC}; public: using Tiny::Tiny;", GOOD,
     SIGNATURE + "alloc"),
    ("data member", "public: using Tiny::Tiny; int host_func = 0;", GOOD,
     SIGNATURE + "host_func"),
    ("shutdown", "public: using Tiny::Tiny; devrt_status shutdown();", GOOD,
     SIGNATURE + "shutdown"),
    ("get_extension", "public: using Tiny::Tiny; "
     "void* get_extension(const char*);", GOOD, SIGNATURE + "get_extension"),
    ("required slot", "public: using Tiny::Tiny;",
     'class Bare {}; DEVRT_DEFINE_PLUGIN(Bare, "bare", "Acme", "1");',
     "the backend lacks the member function of the required slot: "
     "device_count"),
    ("capability", "public: using Tiny::Tiny;",
     'DEVRT_DEFINE_PLUGIN(Mine, "mine", "Acme", "1", DEVRT_CAP_HOST_FUNC);',
     "the backend promises DEVRT_CAP_HOST_FUNC but lacks the member function: "
     "host_func"),
    ("name", "public: using Tiny::Tiny;",
     'DEVRT_DEFINE_PLUGIN(Mine, "Mine", "Acme", "1");',
     "a backend's name is [a-z][a-z0-9_]*"),
    ("long name", "public: using Tiny::Tiny;",
     f'DEVRT_DEFINE_PLUGIN(Mine, "{"a" * 32}", "Acme", "1");',
     "a text of the manifest is too long"),
    ("final", "public: using Tiny::Tiny;",
     'class Last final : public Mine { using Mine::Mine; };'
     'DEVRT_DEFINE_PLUGIN(Last, "last", "Acme", "1");',
     "a backend must be a class that is not final"),
    ("Open", "public: using Tiny::Tiny; static Mine* Open();", GOOD,
     "Open must be: static std::unique_ptr<Class> Open("),
    ("constructor", "public: explicit Mine(int) : Tiny(nullptr) {}", GOOD,
     "a backend needs Open, a constructor that takes a const devrt_host_v0*, "
     "or one without arguments"),
    ("thunk", "public: using Tiny::Tiny; void run(int);",
     GOOD + "const auto kThunk = devrt::plugin::Thunk<&Mine::run>;",
     "a function of an extension table returns devrt_status"),
]


def run(compiler, *arguments, source=""):
    command = [*compiler, "-std=c++17", f"-I{ROOT / 'include'}", *arguments]
    return subprocess.run(command, input=source, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "LC_ALL": "C"})


def write_tiny(compiler, header):
    """The example's `class Tiny`, as text and precompiled."""
    example = extract_example.extract(HEADER)
    header.write_text(example[:example.index("DEVRT_DEFINE_PLUGIN")],
                      encoding="utf-8")
    made = run(compiler, "-x", "c++-header", header, "-o", f"{header}.gch")
    if made.returncode != 0:
        sys.exit(f"the example does not compile:\n{made.stdout}")


def complaint(compiler, header, case):
    """Returns the fault of the compiler's answer, or an empty text."""
    name, body, definition, expected = case
    answer = run(compiler, "-include", header, "-fsyntax-only", "-x", "c++", "-",
                 source=f"class Mine : public Tiny {{ {body} }};\n{definition}\n")
    if expected is None:
        wrong = answer.returncode != 0
    else:
        wrong = answer.returncode == 0 or expected not in answer.stdout
    if not wrong:
        return ""
    return (f"{name}: expected {expected or 'no error'}, exit "
            f"{answer.returncode}:\n{answer.stdout}")


def main():
    compiler = sys.argv[1:]
    if not compiler:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        header = pathlib.Path(folder) / "tiny.h"
        write_tiny(compiler, header)
        found = list(pool.map(
            lambda case: complaint(compiler, header, case), CASES))
    print("".join(found), end="")
    print(f"{len(CASES)} cases, {sum(map(bool, found))} wrong")
    return any(found)


if __name__ == "__main__":
    sys.exit(main())
