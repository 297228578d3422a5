# SPDX-License-Identifier: Apache-2.0
"""The C++ and C reference: each entry has a text, and comments become what they mean.

What scripts/docs asks of the built pages is tried here on small pages.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "docs/site"
sys.dont_write_bytecode = True
sys.path.insert(0, str(SITE))
import doxygen_filter  # noqa: E402
import reading  # noqa: E402
import reference_xml  # noqa: E402

HEADER = """\
// SPDX-License-Identifier: Apache-2.0
//
// Things of a test.
//
//   for (int i = 0; i < 2; ++i) Use(&i);

// The two numbers.
#define DEVRT_ONE 1 /* the first */
#define DEVRT_TWO 2
#define DEVRT_HIDDEN_ 3
#define DEVRT_GONE 4
#undef DEVRT_GONE

namespace devrt {

struct Silent {
  int number;
};

// A thing of __init__.
//   NOT_FOUND         no thing,
//                     anywhere
//   INVALID_ARGUMENT  a bad name
class Thing {
 public:
  explicit Thing(int number);
  // The functions of things:
  int First() const;
  int Second() const;

  // Only the third.
  int Third() const;
  int Fourth() const;
  // Ends it.
  void End(int a);
  void End(long b);
  Thing(const Thing&) = delete;
  ~Thing();

  // For devrt's own code:
  int* record();
  int* gate();

 private:
  int Hidden();
};

}  // namespace devrt
"""


def doxygen(source, out, converted=None):
    """Doxygen's XML of the headers in source/include, as the site shows it.

    If the folder `converted` has what the filter makes of these headers, then
    Doxygen does not call the filter."""
    settings = (SITE / "Doxyfile").read_text(encoding="utf-8")
    if converted:
        settings += "INPUT_FILTER =\n"
    subprocess.run(["doxygen", "-"], check=True, text=True, input=settings,
                   cwd=source, env={
                       **os.environ, "DEVRT_PYTHON": sys.executable,
                       "DEVRT_SOURCE": str(converted or source),
                       "DEVRT_OUTPUT": str(out)})
    reference_xml.prepare(out / "xml", source / "include")
    return out / "xml"


def convert(headers):
    """Filters the headers in this process, since Doxygen starts two processes
    for each header."""
    for path in headers.rglob("*.*"):
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(doxygen_filter.converted(lines)) + "\n",
                        encoding="utf-8")


def needs_doxygen(test):
    return unittest.skipUnless(shutil.which("doxygen"), "Doxygen is missing")(test)


@needs_doxygen
class HeadersTest(unittest.TestCase):

    def test_each_entry_has_a_text(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            shutil.copytree(ROOT / "include", folder / "include")
            convert(folder / "include")
            xml = doxygen(ROOT, folder, converted=folder)
            numbers, silent = reference_xml.without_text(xml, ROOT / "include")
        self.assertGreater(numbers["function"], 400)
        self.assertEqual(silent, [])


class PublicHeadersTest(unittest.TestCase):

    def test_headers_outside_devrt_h_are_marked(self):
        include = ROOT / "include/devrt"
        everything = (include / "devrt.h").read_text(encoding="utf-8")
        included = set(re.findall(r'#include "devrt/(.+)"', everything))
        for path in sorted(include.glob("*/*.h")):
            name = str(path.relative_to(include))
            # The last two need GoogleTest, and collectives/ is a library of its own.
            apart = name.startswith("collectives/") or \
                name in ("cts/cts.h", "sim/explore_gtest.h",
                         "streams/validate_gtest.h") or \
                path.read_text(encoding="utf-8").startswith("/*")
            with self.subTest(name):
                self.assertEqual(reference_xml.is_public(path),
                                 name in included or apart)


@needs_doxygen
class AttachedCommentsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        source = pathlib.Path(folder.name)
        shutil.copytree(SITE, source / "docs/site")
        header = source / "include/devrt/things/thing.h"
        header.parent.mkdir(parents=True)
        header.write_text(HEADER, encoding="utf-8")
        internal = header.with_name("internal.h")
        internal.write_text("// SPDX-License-Identifier: Apache-2.0\n//\n"
                            "// Not for programs.\nvoid Silent();\n", encoding="utf-8")
        xml = doxygen(source, source)
        cls.texts = {name: reference_xml.text_of(entry)
                     for _, _, _, name, entry in reference_xml.entries(xml)}
        cls.silent = reference_xml.without_text(xml, source / "include")[1]

    def test_entries_without_a_text_are_found(self):
        self.assertEqual(self.silent, [
            "devrt/things/thing.h:16: struct devrt::Silent has no text",
            "devrt/things/thing.h:26: function devrt::Thing::Thing has no text",
            "devrt/things/thing.h:33: function devrt::Thing::Fourth has no text"])

    def test_macros_share_the_comment_above_them_only(self):
        self.assertEqual(self.texts["DEVRT_ONE"], "The two numbers. the first")
        self.assertEqual(self.texts["DEVRT_TWO"], "The two numbers.")

    def test_a_comment_with_a_colon_is_of_all(self):
        self.assertEqual(self.texts["devrt::Thing::First"], "The functions of things.")
        self.assertEqual(self.texts["devrt::Thing::Second"], "The functions of things.")

    def test_overloads_share_a_comment(self):
        self.assertEqual(self.texts["devrt::Thing::End"], "Ends it.")

    def test_what_is_for_own_code_leaves(self):
        for name in ("DEVRT_HIDDEN_", "DEVRT_GONE", "devrt::Thing::record",
                     "devrt::Thing::gate", "devrt::Thing::Hidden"):
            self.assertNotIn(name, self.texts)

    def test_lists_and_special_words(self):
        self.assertEqual(
            self.texts["devrt::Thing"], "A thing of __init__. NOT_FOUND: no thing, "
            "anywhere INVALID_ARGUMENT: a bad name")


class FilterTest(unittest.TestCase):

    def converted(self, *lines):
        return list(doxygen_filter.converted(lines))

    def test_an_example_is_a_block_of_code(self):
        self.assertEqual(self.converted("// Text.", "//", "//   x = &y;  // two"),
                         ["/// Text.", "/// ", "///     x = &y;  // two"])

    def test_a_list_has_items(self):
        self.assertEqual(
            self.converted(" * Text:", "// Errors", "//   NOT_FOUND  none", "//     at all",
                           "//   1 or 2     others"),
            [" * Text:", "/// Errors", "///   - **NOT_FOUND**: none",
             "///     at all", "///   - **1 or 2**: others"])

    def test_a_numbered_list_with_a_list_inside(self):
        self.assertEqual(
            self.converted("/* Rules", " *   1. Tags:", " *        [any]   from any thread",
                           " *                also now", " *   2. Sizes.  In bytes. */"),
            ["/** Rules", " *   1. Tags:", " *        - **[any]**: from any thread",
             " *          also now", " *   2. Sizes.  In bytes. */"])

    def test_tables_stay_tables(self):
        self.assertEqual(self.converted("//   key  value  changes", "//   a    1      now"),
                         ["///     key  value  changes", "///     a    1      now"])

    def test_code_inside_a_comment_of_c_keeps_its_comment(self):
        self.assertEqual(self.converted("/* Text", " *   f(x);  // that", " */"),
                         ["/** Text", " *     f(x);  // that", " */"])


class ReadingTest(unittest.TestCase):
    GOOD = ("<p>This page is a reference. It is for those who read.</p>"
            "<pre>" + "code " * 100 + "</pre><ul><li>one</li></ul>"
            "<table><tr><td>cell</td></tr></table>")

    def complaints(self, body):
        return reading.complaints("a.html", f"<p>{'x ' * 99}</p><article>{body}</article>")

    def test_a_good_page(self):
        self.assertEqual(self.complaints(self.GOOD), [])

    def test_the_first_paragraph(self):
        for body in ("", "<p>This page is a reference.</p>", "<p>It is for all.</p>",
                     "<pre>x</pre><p>A text.</p>" + self.GOOD):
            self.assertEqual(self.complaints(body), [
                "a.html: the first paragraph does not say what the page is and who it "
                "is for"])

    def test_long_text(self):
        long, short = "word " * 81, "word " * 41
        self.assertEqual(self.complaints(f"{self.GOOD}<p>{long}</p>"),
                         [f"a.html: 81 words in one <p>: {long[:60]}"])
        self.assertEqual(self.complaints(f"{self.GOOD}<li>{long}<ul></ul></li>"),
                         [f"a.html: 81 words in one <li>: {long[:60]}"])
        self.assertEqual(self.complaints(f"{self.GOOD}<p>{short}</p><td>{short}</td>"),
                         [f"a.html: 41 words in one <td>: {short[:60]}"])


if __name__ == "__main__":
    unittest.main()
