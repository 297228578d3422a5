# SPDX-License-Identifier: Apache-2.0
"""The installed tree: what is in it, and programs that are built against it
with Meson, CMake and plain pkg-config, run there, and run after a move."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

from tree import HERE, InstallTest, MESON, PREFIX, ROOT, STRIPPED

import blocks

PROGRAM = HERE / "program"
# Of each language of a block: the file, how it begins, and what configures it.
PAGE_FILES = {
    "meson": ("meson.build", "project('page', 'cpp', default_options: 'cpp_std=c++17')\n",
              [MESON, "setup", "build"]),
    "cmake": ("CMakeLists.txt",
              "cmake_minimum_required(VERSION 3.16)\nproject(page CXX)\n"
              "set(CMAKE_CXX_STANDARD 17)\nadd_executable(program main.cc)\n",
              ["cmake", "-G", "Ninja", "-B", "build"]),
}
# It needs the headers and the library, and compiles faster than a tutorial's.
SMALL = """#include "devrt/runtime/log.h"
int main() { devrt::SetLogLevel(devrt::LogLevel::kError); }
"""
HOLDS = "mtia:1 holds 42\n"
TORCH_HOST = """
import ctypes, sys
torch = ctypes.CDLL(sys.argv[1])
torch.devrt_torch_pool_alloc.restype = ctypes.c_void_p
words = ctypes.c_size_t(1000), ctypes.c_int(0), None
block = torch.devrt_torch_pool_alloc(*words)
torch.devrt_torch_free(ctypes.c_void_p(block), *words)
print(open("/proc/self/maps").read())
"""


def needed(program):
    """Returns the libraries that the dynamic linker loads for the program."""
    return subprocess.run(["readelf", "-dW", str(program)], check=True,
                          stdout=subprocess.PIPE).stdout


class Installed(InstallTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        libraries = cls.tree.path("LIBDIR")
        # -Ddefault_library decides: one kind, or both.
        cls.kinds = [kind for kind, name in [("shared", "libdevrt.so"),
                                             ("static", "libdevrt.a")]
                     if (libraries / name).exists()]

    # ---- What is in the tree ----

    def test_headers_are_all_there_and_find_each_other(self):
        headers = self.tree.path("INCLUDEDIR") / "devrt"
        found = {str(path.relative_to(headers))
                 for path in headers.rglob("*") if path.is_file()}
        self.assertEqual(found, set(os.environ["DEVRT_HEADERS"].split()))
        for name in found:
            text = (headers / name).read_text(encoding="utf-8")
            for include in re.findall(r'^#\s*include "([^"]+)"', text, re.M):
                if not include.startswith("absl/"):
                    self.assertIn(include.removeprefix("devrt/"), found,
                                  f"{name} includes {include}")

    def test_packages_name_no_other_place(self):
        for path in [*self.tree.folder.rglob("*.pc"),
                     *self.tree.folder.rglob("*.cmake")]:
            text = path.read_text(encoding="utf-8")
            self.assertNotIn(os.environ["DEVRT_BUILD"], text, path)
            self.assertNotIn(f"/{PREFIX}", text, path)

    def test_pkg_config(self):
        for variable, folder in [("plugindir", self.tree.plugins),
                                 ("libdir", self.tree.path("LIBDIR"))]:
            said = self.run_command("pkg-config", f"--variable={variable}",
                                    "devrt").strip()
            self.assertTrue(os.path.samefile(said, folder), said)
        version = self.pkg_config("--modversion")[0]
        self.assertEqual(self.run_command("devrt", "--version"),
                         f"devrt {version}\n")
        self.assertIn("absl_statusor", self.pkg_config("--print-requires"))

    def test_the_command_runs_the_suite(self):
        self.run_command("devrt", "cts", "--groups=load",
                         f"--plugin={self.tree.plugins}/libdevrt_mtia.so")

    def test_the_command_finds_its_backends(self):
        report = json.loads(self.run_command("devrt", "list", "--json"))
        found = {attempt["backend"]: attempt["path"]
                 for attempt in report["load_report"] if attempt["backend"]}
        self.assertIn("mtia", [b["name"] for b in report["backends"]])
        # All that were built, and where they were installed.
        self.assertEqual(set(found.values()),
                         {str(path) for path in
                          self.tree.plugins.glob("libdevrt_*.so")})

    # ---- PyTorch's object ----

    def test_torch_shows_its_functions_and_finds_the_library(self):
        torch = self.tree.path("LIBDIR") / "libdevrt_torch.so"
        listed = subprocess.run(["nm", "-D", "--defined-only", torch],
                                check=True, text=True, stdout=subprocess.PIPE)
        # Beside them weak ones of the C++ library's, if any.
        shown = {line.split()[2] for line in listed.stdout.splitlines()
                 if line.split()[1] == "T"}
        self.assertEqual(shown, {"devrt_torch_" + name for name in (
            "alloc", "free", "pool_alloc", "record_stream", "empty_cache",
            "set_memory_fraction", "base_allocation", "begin_allocate_to_pool",
            "end_allocate_to_pool", "release_pool")})
        self.assertEqual(b"[libdevrt.so.0]" in needed(torch),
                         "shared" in self.kinds)
        # As its host loads it, by nothing but its path; there may be no GPU.
        loaded = self.run_command(sys.executable, "-c", TORCH_HOST, torch)
        if "shared" in self.kinds:
            self.assertIn(f"{self.tree.path('LIBDIR')}/libdevrt.so.0", loaded)

    # ---- Programs ----

    def assert_works(self, program, kind, **variables):
        if kind == "static":
            self.assertNotIn(b"libdevrt.so", needed(program))
            variables["DEVRT_PLUGIN_PATH"] = str(self.tree.plugins)
            variables["DEVRT_LAYER_PATH"] = str(self.tree.plugins / "layers")
        self.assertEqual(self.run_command(program, **variables), HOLDS)
        self.assertEqual(
            self.run_command("devrt", "check", "--", program, **variables),
            HOLDS + "devrt check: no findings\n")

    def assert_tests(self, program, kind, **variables):
        """A vendor's test program: exit code and words are the suite's."""
        if kind == "static":
            self.assertNotIn(b"libdevrt", needed(program))
        good = self.tree.plugins / "libdevrt_mtia.so"
        self.assertEqual(self.run_command(program, good, **variables),
                         "mtia: passed\n")
        bad = self.folder / "bad.so"
        bad.write_bytes(good.read_bytes()[:999])
        self.assertRegex(
            self.run_command(program, bad, expect=1, **variables),
            r"^load.opens: [A-Z_]+: .*\n.*: failed\n$")

    def work_folder(self, name, *files):
        folder = self.folder / name
        folder.mkdir()
        for file in files:
            shutil.copy(PROGRAM / file, folder)
        self.write_first_program(folder / "main.cc")
        return folder

    def test_meson_project_builds_and_runs(self):
        folder = self.work_folder("meson", "meson.build", "meson_options.txt",
                                  "conformance.cc")
        kinds = [f"-D{kind}={str(kind in self.kinds).lower()}"
                 for kind in ["shared", "static"]]
        self.run_command(MESON, "setup", *kinds, folder / "build", folder)
        self.run_command("ninja", "-C", folder / "build")
        for kind in self.kinds:
            self.assert_works(folder / "build" / f"program_{kind}", kind)
            self.assert_tests(folder / "build" / f"conformance_{kind}", kind)

    def test_cmake_project_builds_and_runs(self):
        self.need("cmake")
        folder = self.work_folder("cmake", "CMakeLists.txt", "conformance.cc")
        *launcher, compiler = shlex.split(os.environ["DEVRT_CXX"])
        said = self.run_command(
            "cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja",
            f"-DCMAKE_CXX_COMPILER_LAUNCHER={';'.join(launcher)}",
            *[f"-D{kind}=ON" for kind in self.kinds], CXX=compiler)
        self.assertIn(f"plugins: {self.tree.plugins}\n", said)
        self.run_command("ninja", "-C", folder / "build")
        for kind in self.kinds:
            self.assert_works(folder / "build" / f"program_{kind}", kind)
            self.assert_tests(folder / "build" / f"conformance_{kind}", kind)

    def test_build_files_of_pages(self):
        """Each block for Meson or CMake, as the end of a file that begins a project."""
        if "shared" not in self.kinds:
            self.skipTest("the pages' programs find backends beside the library")
        found = [block for block in blocks.all_blocks()
                 if block.language in PAGE_FILES]
        self.assertGreater(len(found), 1)
        for number, block in enumerate(found):
            with self.subTest(block.place):
                name, begin, setup = PAGE_FILES[block.language]
                self.need(setup[0])
                folder = self.folder / f"page-{number}"
                folder.mkdir()
                (folder / "main.cc").write_text(SMALL, encoding="utf-8")
                text = block.text if "project(" in block.text else begin + block.text
                (folder / name).write_text(text, encoding="utf-8")
                compiler = shlex.split(os.environ["DEVRT_CXX"])[-1]
                self.run_command(*setup, folder=folder, CXX=compiler)
                self.run_command("ninja", "-C", "build", folder=folder)

    def test_pkg_config_of_the_suite(self):
        folder = self.work_folder("suite", "conformance.cc")
        compiler = shlex.split(os.environ["DEVRT_CXX"])
        libraries = self.pkg_config("--variable=libdir")[0]
        self.run_command(
            *compiler, "-std=c++17", "-c", "conformance.cc",
            *self.run_command("pkg-config", "--cflags", "devrt_cts").split(),
            folder=folder)
        for kind in self.kinds:
            words = self.run_command(
                "pkg-config", "--libs", *(["--static"] if kind == "static" else []),
                "devrt_cts").split()
            if kind == "static":
                words = [f"-l:lib{word[2:]}.a" if word in (
                    "-ldevrt", "-ldevrt_cts") else word for word in words]
            program = folder / f"conformance_{kind}"
            self.run_command(
                *compiler, "conformance.o", "-o", program, *words,
                f"-Wl,-rpath,{libraries}", STRIPPED, folder=folder)
            self.assert_tests(program, kind)

    def test_the_program_of_the_page(self):
        """The program of install.md runs the suite, on a file that is no plugin,
        because a whole run takes long."""
        if "shared" not in self.kinds:
            self.skipTest("the page's line is that of the shared library")
        page = self.tree.path("DATADIR") / "doc/devrt/install.md"
        (program,) = [block for block in re.findall(
            r"^```cpp\n(.*?)^```$", page.read_text(encoding="utf-8"),
            re.M | re.S) if "cts::Run" in block]
        folder = self.work_folder("page")
        (folder / "test.cc").write_text(program, encoding="utf-8")
        words = self.run_command("pkg-config", "--cflags", "--libs",
                                 "devrt_cts").split()
        self.run_command(
            *shlex.split(os.environ["DEVRT_CXX"]), "-std=c++17", "test.cc",
            "-o", "test", *words, folder=folder)
        self.run_command(folder / "test", folder / "test.cc", expect=1,
                         LD_LIBRARY_PATH=str(self.tree.path("LIBDIR")))
        self.run_command(folder / "test", "test.cc", expect=2,
                         LD_LIBRARY_PATH=str(self.tree.path("LIBDIR")))

    def test_the_build_tree(self):
        """The lines of install.md for a program beside a build, which need no
        installation; `build` is a link here."""
        if "shared" not in self.kinds:
            self.skipTest("the page's lines are those of the shared library")
        page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
        (lines,) = [block for block in re.findall(
            r"^```sh by hand\n(.*?)^```$", page, re.M | re.S)
            if "meson-uninstalled" in block]
        folder = self.work_folder("build-tree")
        (folder / "build").symlink_to(os.environ["DEVRT_BUILD"])
        self.run_command("bash", "-ec", lines, folder=folder)
        self.assertEqual(self.run_command(folder / "program"), HOLDS)

    def test_pkg_config_and_a_move(self):
        folder = self.work_folder("pkg-config")
        compiler = shlex.split(os.environ["DEVRT_CXX"])
        self.run_command(*compiler, "-std=c++17", "-c", "main.cc",
                         *self.pkg_config("--cflags"), folder=folder)
        shared = self.pkg_config("--libs")
        static = ["-l:libdevrt.a" if word == "-ldevrt" else word
                  for word in self.pkg_config("--libs", "--static")]
        libraries = self.pkg_config("--variable=libdir")[0]
        for kind in self.kinds:
            self.run_command(
                *compiler, "main.o", "-o", f"program_{kind}",
                *(shared if kind == "shared" else static),
                f"-Wl,-rpath,{libraries}", STRIPPED, folder=folder)
            self.assert_works(folder / f"program_{kind}", kind)
        self.move(folder)

    def move(self, folder):
        """The tree goes elsewhere, its programs with it."""
        old = self.tree.folder
        shutil.copytree(old, self.folder / "moved", symlinks=True)
        # To nothing: the old one must not be of help.
        old.rename(self.folder / "away")
        self.tree.folder = self.folder / "moved"
        try:
            self.test_the_command_finds_its_backends()
            self.test_the_command_runs_the_suite()
            self.test_pkg_config()
            libraries = str(self.tree.path("LIBDIR"))
            for kind in self.kinds:
                program = self.tree.path("BINDIR") / f"program_{kind}"
                shutil.copy(folder / program.name, program)
                # In bin/ the static one needs no help either.
                self.assertEqual(
                    self.run_command(program, LD_LIBRARY_PATH=libraries), HOLDS)
        finally:
            self.tree.folder = old
            (self.folder / "away").rename(old)


if __name__ == "__main__":
    unittest.main()
