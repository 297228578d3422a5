# SPDX-License-Identifier: Apache-2.0
"""Every code example of a public header and of a page compiles, or says why not.

All C++ examples of headers, and those of pages without a main function, are one program,
each in a function or a namespace of its own; each C example is a program. Of the pages'
programs those with equal includes are one.
header_example_names.h and header_example_names_c.h declare the names that examples use and
do not declare; meson.build sets the variables that are read here.
"""

import collections
import os
import pathlib
import shlex
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parents[1] / "scripts"))
import header_examples  # noqa: E402
import headers_alone  # noqa: E402

# Examples are short: they leave results unused and name what they never use.
SETTINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused",
            "-Wno-unused-parameter", "-Wno-unused-result"]
# In a namespace, main is a function that needs a return statement.
NO_RETURN = '_Pragma("GCC diagnostic ignored \\"-Wreturn-type\\"")'
NAMES_DEVRT = r"devrt::|(?i:devrt_)\w+\("
COMPILER = shlex.split(os.environ["DEVRT_CXX"]) + SETTINGS


def public_examples():
    found = []
    for header in headers_alone.public_headers():
        if headers_alone.needs_mpi(header) and not headers_alone.mpi_folders():
            continue
        path = headers_alone.ROOT / "include/devrt" / header
        found += header_examples.examples(
            f"devrt/{header}", path.read_text(encoding="utf-8"))
    return found


def examples_of_pages():
    found = []
    root = headers_alone.ROOT
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        found += header_examples.page_examples(
            str(path.relative_to(root)),
            path.read_text(encoding="utf-8"))
    return found


def complaints(examples, language):
    """Returns the compiler's messages about a program of these examples."""
    standard = {"c": "c99", "c++": "c++17"}[language]
    headers = sorted({example.header for example in examples
                      if not example.is_in_page})
    names = {"c": "DEVRT_NAMES_C", "c++": "DEVRT_NAMES"}
    source = "".join(f'#include "{header}"\n' for header in headers)
    source += "".join(example.includes() for example in examples)
    source += f'#include "{os.environ[names[language]]}"\n'
    source += "".join(example.code(number)
                      for number, example in enumerate(examples))
    return headers_alone.complaints_about(COMPILER, source, language, standard)


class HeaderExamplesTest(unittest.TestCase):

    maxDiff = None

    def test_examples_in_cpp(self):
        of_headers = [example for example in public_examples()
                      if example.language == "c++" and not example.is_fragment]
        of_pages = [example for example in examples_of_pages()
                    if not example.is_program and not example.is_fragment]
        self.assertGreater(len(of_headers), 45)
        self.assertGreater(len(of_pages), 6)
        self.assertEqual(complaints(of_headers + of_pages, "c++"), "")

    def test_examples_in_c(self):
        chosen = [example for example in public_examples()
                  if example.language == "c" and not example.is_fragment]
        self.assertGreater(len(chosen), 6)
        for example in chosen:
            with self.subTest(header=example.header, line=example.line):
                self.assertEqual(complaints([example], "c"), "")

    def test_programs_of_pages(self):
        chosen = [example for example in examples_of_pages()
                  if example.is_program]
        self.assertGreaterEqual(len(chosen), 2)
        # Programs with equal includes are compiled as one: none of them can
        # use an include that only another has.
        alike = collections.defaultdict(list)
        for example in chosen:
            alike[example.includes()].append(example)
        for includes, programs in alike.items():
            source = includes
            for number, program in enumerate(programs):
                code = program.code(number).replace(
                    "\nint main(", f"\n{NO_RETURN} int main(")
                source += (f"#pragma GCC diagnostic push\n{code}"
                           "#pragma GCC diagnostic pop\n")
            self.assertEqual(headers_alone.complaints_about(
                COMPILER, source, "c++", "c++17"), "")

    def test_no_example_is_taken_for_text(self):
        for header in headers_alone.public_headers():
            path = headers_alone.ROOT / "include/devrt" / header
            text = path.read_text(encoding="utf-8")
            inside = {number for example in header_examples.examples(header, text)
                      for number in range(example.line, example.end)}
            for line, _, lines in header_examples.paragraphs(text):
                if line not in inside:
                    with self.subTest(header=header, line=line):
                        self.assertNotRegex("\n".join(lines), NAMES_DEVRT)

    def test_what_is_an_example(self):
        found = header_examples.examples("a.h", """\
// A header.
//
//   int F() {
//
//     return 1;
//   }
//
//   kBuffer   memory; a list
//   kCopy     of terms
//
// Text:
//   - an item;
//
//   // Fragment: needs CUDA's compiler
//   kernel<<<1, 1>>>();
//
// Text.
//   indented text
""")
        self.assertEqual([example.line for example in found], [3, 14])
        self.assertEqual([example.is_fragment for example in found],
                         [False, True])

    def test_what_is_an_example_of_a_page(self):
        found = header_examples.page_examples("docs/a.md", """\
# A page

```cpp
F();
```

```cpp
// file.cc
int a;
```

```cpp
// Fragment: needs CUDA
G();
```

```cpp
int main() {}
```
""")
        self.assertEqual([example.line for example in found], [4, 13, 18])
        self.assertEqual([example.is_fragment for example in found],
                         [False, True, False])
        self.assertEqual([example.is_program for example in found],
                         [False, False, True])

    def test_a_wrong_block_and_a_wrong_example_are_found(self):
        wrong = header_examples.page_examples(
            "docs/a.md", "```cpp\ndevrt::NoSuchFunction();\n```\n")
        wrong += header_examples.examples(
            "devrt/runtime/device.h",
            "//   devrt::Device d = devrt::NoSuchDevice();\n")
        found = complaints(wrong, "c++")
        self.assertRegex(found, "docs/a.md:2:.*NoSuchFunction")
        self.assertRegex(found, "devrt/runtime/device.h:1:.*NoSuchDevice")


if __name__ == "__main__":
    unittest.main()
