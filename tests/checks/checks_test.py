# SPDX-License-Identifier: Apache-2.0
"""Plants one defect per case in a small tree; the check has to name it.

A check that cannot fail is none, so each is shown a clean tree as well.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
sys.path.insert(0, str(HERE.parent.parent / ".ci"))
import checks  # noqa: E402
import citations  # noqa: E402
import count_tests  # noqa: E402
import headers_alone  # noqa: E402
import rooms  # noqa: E402

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
TREE = {
    "meson.build": "# SPDX-License-Identifier: Apache-2.0\n",
    "meson_options.txt": "# SPDX-License-Identifier: Apache-2.0\n",
    "runtime/meson.build": "# SPDX-License-Identifier: Apache-2.0\n"
                           "devrt_sources += files(\n  'a.cc',\n)\n",

    "runtime/a.cc": SPDX + '#include "devrt/runtime/a.h"\n'
                           '#include "runtime/b.h"\n',
    "runtime/a.h": SPDX + "int a();\n",
    "runtime/b.h": SPDX + "int b();\n",
    "streams/s.h": SPDX + '#include "devrt/runtime/a.h"\n',
}
PUBLIC = ["runtime/a.h", "streams/s.h"]


class TreeTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name).resolve()
        for module in [checks, headers_alone]:
            self.addCleanup(setattr, module, "ROOT", module.ROOT)
            module.ROOT = self.root
        for name, text in TREE.items():
            self.write(name, text)
        for name in PUBLIC:
            self.publish(name)

    def publish(self, name):
        link = self.root / "include/devrt" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(pathlib.Path("../../..") / name)

    def withdraw(self, name):
        (self.root / "include/devrt" / name).unlink()
        (self.root / name).unlink()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def assert_names(self, findings, *parts):
        self.assertEqual(len(findings), 1, findings)
        for part in parts:
            self.assertIn(part, findings[0])

    def test_rooms_lower_floor_includes_no_higher_one(self):
        self.assertEqual(rooms.check_rooms(), [])
        self.write("runtime/up.cc", SPDX + '#include "devrt/streams/s.h"\n')
        self.assert_names(rooms.check_rooms(), "runtime/up.cc", "streams/s.h",
                          "above")

    def test_rooms_folders_of_a_room(self):
        self.write("backends/mtia/engine/e.cc",
                   SPDX + '#include "backends/mtia/engine/e.h"\n'
                          '#include "backends/mtia/memory/m.h"\n')
        self.assertEqual(rooms.check_rooms(), [])
        self.write("backends/mtia/memory/m.cc",
                   SPDX + '#include "backends/mtia/engine/e.h"\n')
        self.assert_names(rooms.check_rooms(), "memory/m.cc", "engine/ is not below")
        self.write("backends/mtia/memory/m.cc",
                   SPDX + '#include "backends/mtia/kernels/k.h"\n')
        self.assert_names(rooms.check_rooms(), "memory/m.cc", "kernels/ is not below")
        self.write("backends/mtia/memory/m.cc",
                   SPDX + '#include "backends/mtia/new/n.h"\n')
        self.assert_names(rooms.check_rooms(), "memory/m.cc", "does not name")

    def test_rooms_backend_includes_the_abi_only(self):
        self.write("backends/mtia/table/plugin.cc",
                   SPDX + '#include "devrt/backends/abi/devrt_plugin.h"\n'
                          '#include "backends/mtia/engine/engine.h"\n')
        self.assertEqual(rooms.check_rooms(), [])
        self.write("backends/mtia/table/plugin.cc",
                   SPDX + '#include "devrt/runtime/a.h"\n')
        self.assert_names(rooms.check_rooms(), "backends/mtia/table/plugin.cc", "ABI")

    def test_rooms_no_room_includes_a_backend(self):
        self.write("runtime/a.cc",
                   SPDX + '#include "backends/mtia/engine/engine.h"\n')
        self.assert_names(rooms.check_rooms(), "backends/mtia/engine/engine.h",
                          "table")

    def test_rooms_inner_headers(self):
        self.write("streams/s.cc", SPDX + '#include "runtime/b.h"\n')
        self.assertEqual(rooms.check_rooms(), [])
        self.write("tools/t.cc", SPDX + '#include "devrt/runtime/a.h"\n')
        self.assertEqual(rooms.check_rooms(), [])
        self.write("tools/t.cc", SPDX + '#include "runtime/b.h"\n')
        self.assert_names(rooms.check_rooms(), "tools/t.cc", "not public")

    def test_rooms_folders_have_an_order(self):
        self.write("memory/device/d.h", SPDX)
        self.write("memory/api/a.cc", SPDX + '#include "memory/device/d.h"\n')
        self.assertEqual(rooms.check_rooms(), [])
        self.write("memory/common/c.cc", SPDX + '#include "memory/device/d.h"\n')
        self.assert_names(rooms.check_rooms(), "memory/common/c.cc",
                          "memory/device/ is not below memory/common/")
        (self.root / "include/devrt/memory").mkdir(parents=True)
        (self.root / "include/devrt/memory/d.h").symlink_to(
            self.root / "memory/device/d.h")
        self.write("memory/common/c.cc", SPDX + '#include "devrt/memory/d.h"\n')
        self.assert_names(rooms.check_rooms(), "memory/common/c.cc", "devrt/memory/d.h")

    def test_rooms_name_each_of_their_folders(self):
        self.write("guards/g.cc", SPDX)
        self.write("memory/device/d.cc", SPDX)
        self.assertEqual(rooms.check_rooms(), [])
        self.write("memory/new/n.cc", SPDX)
        self.assert_names(rooms.check_rooms(), "does not name memory/new/")
        (self.root / "memory/new/n.cc").unlink()
        self.write("guards/new/g.cc", SPDX)
        self.assertEqual(len(rooms.check_rooms()), 2)

    def test_rooms_product_includes_no_program(self):
        self.write("tools/t.cc", SPDX + '#include "bench/b.h"\n')
        self.assert_names(rooms.check_rooms(), "tools/t.cc", "developers")
        self.write("tools/t.cc", SPDX)
        self.write("bench/t.cc", SPDX + '#include "runtime/b.h"\n')
        self.assertEqual(rooms.check_rooms(), [])

    def test_rooms_layers(self):
        self.write("layers/trace/l.cc", SPDX + '#include "devrt/runtime/a.h"\n')
        self.assert_names(rooms.check_rooms(), "layers/trace/l.cc")

    def test_rooms_folders_and_public_headers(self):
        self.write("arrays/core/array.h", SPDX)
        link = self.root / "include/devrt/arrays/array.h"
        link.parent.mkdir()
        link.symlink_to("../../../arrays/core/array.h")
        self.write("arrays/copy/steps.h",
                   SPDX + '#include "devrt/arrays/array.h"\n')
        self.assertEqual(rooms.check_rooms(), [])
        self.write("arrays/storage/storage.h",
                   SPDX + '#include "devrt/arrays/array.h"\n')
        self.assert_names(rooms.check_rooms(), "arrays/storage/storage.h",
                          "arrays/core/ is not below")

    def test_rooms_public_headers_are_links(self):
        self.write("include/devrt/runtime/b.h", SPDX)
        self.assert_names(rooms.check_rooms(), "include/devrt/runtime/b.h", "link")

    def test_orphans_are_files_that_nothing_builds(self):
        self.withdraw("streams/s.h")
        self.assertEqual(checks.check_orphans(), [])
        self.write("runtime/lost.cc", SPDX)
        self.assert_names(checks.check_orphans(), "runtime/lost.cc")

    def test_orphans_of_a_loop_over_stems(self):
        self.withdraw("streams/s.h")
        self.write("runtime/meson.build",
                   TREE["runtime/meson.build"]
                   + "foreach stem : [\n  'one',\n]\n"
                     "  more += files('parts' / stem + '_part.cc')\n")
        self.write("runtime/parts/one_part.cc", SPDX)
        self.assertEqual(checks.check_orphans(), [])
        self.write("runtime/parts/two_part.cc", SPDX)
        self.assert_names(checks.check_orphans(), "two_part.cc")

    def test_orphans_of_an_orphan(self):
        self.write("runtime/lost.h", SPDX)
        self.write("streams/s.h", SPDX + '#include "runtime/lost.h"\n')
        self.assertEqual(len(checks.check_orphans()), 2)

    def test_size_of_sources_and_scripts_is_limited(self):
        self.assertEqual(checks.check_size(), [])
        self.write("runtime/long.cc", SPDX + "\n" * checks.MOST_LINES)
        self.assert_names(checks.check_size(), "runtime/long.cc", "501")
        self.write("runtime/long.cc", SPDX)
        self.write("tools/long.js", "\n" * (checks.MOST_LINES + 1))
        self.assert_names(checks.check_size(), "tools/long.js", "501")

    def test_exceptions_from_the_size(self):
        name = "runtime/long.cc"
        with unittest.mock.patch.dict(checks.LONG_FILES, {name: "a reason"}):
            self.write(name, SPDX + "\n" * checks.MOST_LINES)
            self.assertEqual(checks.check_size(), [])
            self.write(name, SPDX)
            self.assert_names(checks.check_size(), name, "needs no exception")

    def test_columns_of_comments_are_limited(self):
        self.write("runtime/wide.h", "// " + "x" * 77 + "\n")
        self.assertEqual(checks.check_columns(), [])
        for wide in ["  // " + "x" * 76, " * " + "x" * 78]:
            self.write("runtime/wide.h", SPDX + wide + "\n")
            self.assert_names(checks.check_columns(), "runtime/wide.h:2", "81")
        self.write("runtime/wide.h", SPDX + 'char a[] = "' + "x" * 80 + '";\n')
        self.assertEqual(checks.check_columns(), [])

    def test_openings_of_comments_without_a_subject_are_found(self):
        for good in ["// True if the same holds, whether or not", "int Whether;",
                     "// Whetherly", "int a;  // the same"]:
            self.write("runtime/a.cc", SPDX + good + "\n")
            self.assertEqual(checks.check_openings(), [], good)
        for bad, word in {"// Whether it is there.": "Whether",
                          "  // The same, later.": "The same",
                          "/* The same */": "The same",
                          " * Whether it is.": "Whether",
                          "int a;  // Whether it is.": "Whether"}.items():
            self.write("runtime/a.cc", SPDX + bad + "\n")
            self.assert_names(checks.check_openings(), "runtime/a.cc:2", word)

    def test_openings_of_public_headers_are_left_out(self):
        text = (self.root / "runtime/a.h").read_text() + "// The same.\n"
        self.write("runtime/a.h", text)
        self.assertEqual(checks.check_openings(), [])
        self.write("runtime/inner.h", SPDX + "// The same.\n")
        self.assert_names(checks.check_openings(), "runtime/inner.h:2")

    def test_spdx_line_is_required(self):
        self.assertEqual(checks.check_spdx(), [])
        self.write("runtime/bare.h", "int c();\n")
        self.assert_names(checks.check_spdx(), "runtime/bare.h")

    def test_links_to_missing_files_are_found(self):
        self.write("docs/index.md", "[there](../runtime/a.h#top) "
                                     "[elsewhere](https://example.org/x)\n"
                                     "```cpp\n[=](const int k) {}\n```\n")
        self.assertEqual(checks.check_links(), [])
        self.write("docs/index.md", "[gone](gone.md)\n")
        self.assert_names(checks.check_links(), "docs/index.md", "gone.md")

    def test_citations_without_a_target_are_found(self):
        self.write("docs/reference/semantics.md",
                   "## 2. Errors\n\n### 2.4 When\n\n#### C7 Order\n\n| F5 | x |\n")
        self.write("docs/reference/exchange-rules.md", "**E8** A use.\n\n**E9** Another.\n")
        self.write("docs/decisions/0012-memory.md", "# 12. Memory\n")
        self.write("docs/evidence/results/2026-01-01-1-0123abc.json", "{}\n")
        for good in ["C7, F5, E8-E9", "docs/reference/semantics.md 2.4", "semantics.md 2",
                     "decision 12", "[decision 12](decisions/0012-memory.md)",
                     "docs/evidence/results/2026-01-01-1-0123abc.json.",
                     "an H200, gcc -O2, DLPack 1.3, C++17, `rule 8`"]:
            self.write("docs/index.md", good + "\n")
            self.assertEqual(citations.check_citations(), [], good)
        for bad, reason in {
            "C8": "C8 is no item of docs/reference/semantics.md",
            "E8-E10": "E10 is no item of docs/reference/exchange-rules.md",
            "O4": "O4 is no item of any page",
            "docs/reference/semantics.md 2.5": "no section 2.5",
            "docs/reference/semantics.md 2.4, 3.1": "no section 3.1",
            "interop.md 1.3": "there is no interop.md",
            "rule 8": '"rule 8" is no form',
            "semantics 2.4": '"semantics 2.4" is no form',
            "decision 13": "no decision 13",
            "(docs/evidence/results/2026-01-01-2-0123abc.json)":
                "there is no docs/evidence/results/2026-01-01-2-0123abc.json",
        }.items():
            self.write("docs/index.md", bad + "\n")
            self.assert_names(citations.check_citations(), "docs/index.md:1",
                              reason)

    def test_citations_are_looked_for_in_comments(self):
        def found(name, text):
            self.write(name, text)
            findings = citations.check_citations()
            (self.root / name).unlink()
            return findings

        self.assert_names(found("runtime/c.cc", SPDX + "int a;  // as (O4)\n"),
                          "runtime/c.cc:2", "O4")
        self.assert_names(found("runtime/c.cc", SPDX + "// An error (2.4).\n"),
                          "runtime/c.cc:2", "name the document")
        self.assert_names(found("runtime/c.h", "/* docs/gone.md\n * 2.4 */\n"),
                          "runtime/c.h:1", "docs/gone.md")
        self.assertEqual(found("runtime/c.cc", 'int O4; auto* s = "// O4";\n'), [])
        self.assert_names(found("tools/a.py", '"""A module.\n\nrule 8"""\n'),
                          "tools/a.py:3", "rule 8")
        self.assert_names(found("tools/a.py", "x = 1  # O4\n"), "tools/a.py:1")
        self.assertEqual(found("tools/a.py", "x = ['O4', f('rule 8')]\n"), [])
        self.assert_names(found("tools/meson.build", "# rule 8\n"),
                          "tools/meson.build:1", "rule 8")

    def test_an_item_has_one_definition(self):
        self.write("docs/reference/exchange-rules.md", "**E8** A use.\n\n**E8** Another.\n")
        self.assert_names(citations.check_citations(), "E8", "more than once")

    def test_waits_need_a_row_on_the_page(self):
        head = "| File | Waits for | Ends because |\n|---|---|---|\n"
        self.write("docs/reference/waits.md", head)
        self.assertEqual(checks.check_waits(), [])
        for code in ["  nanosleep(&t, nullptr);", "  for (;;) Go();",
                     "  me->wake.wait_until(\n      lock, end);",
                     "  while (Poll()) {\n  }", "  thread.join();"]:
            self.write("runtime/a.cc", SPDX + f"void A() {{\n{code}\n}}\n")
            self.assert_names(checks.check_waits(), "runtime/a.cc waits")
        self.write("docs/reference/waits.md", head + "| `runtime/a.cc` | x | y |\n")
        self.assertEqual(checks.check_waits(), [])
        self.write("runtime/a.cc", SPDX + "// for (;;)\nint a() { return 1; }\n")
        self.assert_names(checks.check_waits(), "names runtime/a.cc")
        # Private modules of the package are the product's, too.
        self.write("docs/reference/waits.md", head)
        self.write("python/devrt/_wait.py", "while True:\n    pass\n")
        self.assert_names(checks.check_waits(), "python/devrt/_wait.py")

    def test_format_is_checked_and_fixed(self):
        try:
            checks.clang_format()
        except checks.Skipped as reason:
            self.skipTest(str(reason))
        self.assertEqual(checks.check_format(fix=False), [])
        self.write("runtime/wild.cc", SPDX + "int   c( ) ;\n")
        self.assert_names(checks.check_format(fix=False), "runtime/wild.cc")
        self.assertEqual(checks.check_format(fix=True), [])
        self.assertEqual(checks.check_format(fix=False), [])

    def test_guards_follow_the_path(self):
        good = ("#ifndef DEVRT_RUNTIME_INNER_B_H_\n"
                "#define DEVRT_RUNTIME_INNER_B_H_\n"
                "#endif  // DEVRT_RUNTIME_INNER_B_H_\n")
        for name in ["runtime/a.h", "runtime/b.h", "streams/s.h"]:
            (self.root / name).unlink()
        self.write("backends/template/c/backend.h", SPDX)
        self.write("runtime/inner/b.h", SPDX + good)
        self.assertEqual(checks.check_guards(), [])
        moved = good.replace("INNER_", "")
        self.write("runtime/inner/b.h", SPDX + moved)
        self.assert_names(checks.check_guards(), "runtime/inner/b.h",
                          "DEVRT_RUNTIME_INNER_B_H_")
        self.write("runtime/inner/b.h", SPDX + good.replace(
            "// DEVRT_RUNTIME_INNER_B_H_", "// DEVRT_RUNTIME_B_H_"))
        self.assert_names(checks.check_guards(), "runtime/inner/b.h", "#endif")

    def test_headers_that_do_not_compile_alone_are_found(self):
        compiler = [headers_alone.default_compiler()]
        self.assertEqual(headers_alone.public_headers(), PUBLIC)
        self.assertEqual(
            headers_alone.failures(["runtime/a.h"], compiler, ["17"]), [])
        self.write("runtime/a.h", SPDX + "std::string a();\n")
        self.assert_names(
            headers_alone.failures(["runtime/a.h"], compiler, ["17"]),
            "runtime/a.h", "std")

    def test_headers_together(self):
        def found(standards):
            return headers_alone.failures_together(
                ["runtime/a.h", "runtime/b.h"], compiler, standards)

        compiler = [headers_alone.default_compiler()]
        self.write("include/devrt/runtime/b.h",
                   SPDX + "inline int b(int concept_) { return concept_; }\n")
        self.assertEqual(found(["17", "20"]), [])
        self.write("include/devrt/runtime/b.h",
                   SPDX + "inline int b(int concept) { return concept; }\n")
        self.assert_names(found(["17", "20"]), "c++20", "b.h")

    def compile_library(self, name, source):
        self.write("x.cc", source)
        library = self.root / "build/lib" / name
        library.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([headers_alone.default_compiler(), "-shared", "-fPIC",
                        "-o", library, self.root / "x.cc"], check=True)

    def test_exports_are_compared_with_the_lists(self):
        if not shutil.which("nm"):
            self.skipTest("binutils is missing")
        build = self.root / "build"
        with self.assertRaises(checks.Skipped):
            checks.check_exports(build)
        plugin = ('extern "C" { int devrt_plugin_manifest_v0;'
                  " void devrt_plugin_open_v0() {} }\n")
        library = "namespace devrt { int f() { return 1; } }\n"
        self.compile_library("libdevrt.so", library)
        self.compile_library("devrt/libdevrt_x.so", plugin)
        (self.root / "lib").mkdir(exist_ok=True)
        self.assert_names(checks.check_exports(build), "exports devrt::f()")
        self.assertEqual(checks.check_exports(build, fix=True), [])
        self.assertEqual(checks.check_exports(build), [])

        self.compile_library("libdevrt.so", library + "int leaked;\n")
        self.assert_names(checks.check_exports(build), "exports leaked")
        self.compile_library("libdevrt.so", library.replace("f()", "g(int)"))
        found = "\n".join(checks.check_exports(build))
        self.assertIn("exports devrt::g(int), which is not in", found)
        self.assertIn("no longer exports devrt::f()", found)
        # A library from before the list says nothing about the sources.
        os.utime(build / "lib/libdevrt.so", (0, 0))
        self.assert_names(checks.check_exports(build), "libdevrt.so was built "
                          "before lib/devrt.symbols", "build it")
        self.compile_library("libdevrt.so", library)

        # The library of the conformance suite has a list of its own.
        suite = "namespace devrt { int run() { return 1; } }\n"
        self.compile_library("../cts/libdevrt_cts.so", suite)
        self.write("cts/meson.build", "")
        self.assert_names(checks.check_exports(build),
                          "libdevrt_cts.so exports devrt::run()",
                          "cts/devrt_cts.symbols")
        self.assertEqual(checks.check_exports(build, fix=True), [])
        self.assertEqual(checks.check_exports(build), [])

        self.compile_library("devrt/libdevrt_x.so", plugin + "int leaked;\n")
        self.assert_names(checks.check_exports(build), "libdevrt_x.so", "leaked")


class CommandTest(unittest.TestCase):

    def run_without_tools(self, *arguments):
        script = HERE.parent.parent / "scripts/check"
        with tempfile.TemporaryDirectory() as empty:
            return subprocess.run(
                [sys.executable, script, "format", *arguments], text=True,
                stdout=subprocess.PIPE, check=False,
                env={"PATH": empty, "CI": "true"})

    def test_a_missing_tool_fails_where_that_is_asked_for(self):
        # A machine that runs the tests may say CI without being made for checks.
        plain = self.run_without_tools()
        self.assertEqual(plain.returncode, 0, plain.stdout)
        self.assertIn("skipped", plain.stdout)
        strict = self.run_without_tools("--ci")
        self.assertEqual(strict.returncode, 1, strict.stdout)
        self.assertIn("clang-format 14 is missing", strict.stdout)


class CountTest(unittest.TestCase):

    def test_verdicts_are_counted(self):
        verdicts = ["OK", "EXPECTEDFAIL", "SKIP", "FAIL", "TIMEOUT",
                    "UNEXPECTEDPASS", "ERROR", "INTERRUPT", "SOMETHINGNEW"]
        lines = ['{"result": "%s"}\n' % verdict for verdict in verdicts]
        self.assertEqual(count_tests.count(lines), (2, 6, 1))

    def test_what_failed_tests_said(self):
        said = "[ RUN      ] A.B\nfile.cc:7: Failure\nExpected: 1\n" + "x\n" * 90
        tests = [{"name": "good", "result": "OK"},
                 {"name": "none", "result": "SKIP"},
                 {"name": "bad", "result": "FAIL", "returncode": 1,
                  "duration": 0.25, "stdout": said, "stderr": "the end\n"}]
        lines = list(count_tests.failures(map(json.dumps, tests)))
        self.assertEqual(lines[:3], ["FAIL after 0.2 s: bad (exit code 1)",
                                     "  file.cc:7: Failure", "  Expected: 1"])
        self.assertEqual(lines[-1], "  the end")
        self.assertEqual(len(lines), 1 + count_tests.SAID + 1)

    def test_what_did_not_pass(self):
        lines = ['{"name": "devrt:python / %s", "result": "%s"}\n' % test
                 for test in (("a", "OK"), ("b", "SKIP"), ("c", "FAIL"))]
        self.assertEqual(count_tests.not_passed(lines, ["a"]), [])
        self.assertEqual(count_tests.not_passed(lines, ["d", "c", "b", "a"]),
                         ["d", "c", "b"])


if __name__ == "__main__":
    unittest.main()
