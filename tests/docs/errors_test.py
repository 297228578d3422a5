# SPDX-License-Identifier: Apache-2.0
"""docs/reference/errors.md lists exactly the codes, flags, classes and kinds of errors
that the source declares, and its messages are in the source."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
FOLDERS = ["arrays", "backends/mtia", "guards", "memory", "runtime", "sim",
           "streams"]
SHORTEST = 8  # characters of a piece that says something


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def rows(heading):
    """The cells of each row of the tables behind the first line `heading`."""
    part = PAGE.split(heading, 1)[1]
    part = re.split(r"^## ", part, maxsplit=1, flags=re.M)[0]
    found = [line.strip("|").split(" | ") for line in part.split("\n")
             if line.startswith("| ")]
    return [[cell.strip() for cell in cells] for cells in found]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def joined(source):
    """C++ source with its neighbouring string literals made one."""
    return re.sub(r'"\s*\n\s*"', "", source)


def pieces(text):
    """The fixed parts of a message."""
    return [part for part in text.split("...") if len(part) >= SHORTEST]


def python_classes(stub):
    found = {}
    for name, bases in re.findall(r"^class (\w*(?:Error|Warning))\(([^)]+)\):",
                                  stub, re.M):
        found[name] = [base.split(".")[-1].strip() for base in bases.split(",")]
    return found


class ErrorsTest(unittest.TestCase):

    maxDiff = None

    def test_codes_on_the_page_are_those_of_the_header(self):
        header = read("backends/abi/devrt_plugin.h")
        declared = {(number, name) for name, number in re.findall(
            r"#define DEVRT_(\w+) \(\(devrt_code\)(\d+)\)", header)}
        listed = {(row[0], row[1]) for row in rows("\n## Codes\n")
                  if row[0].isdigit()}
        self.assertEqual(listed, declared)
        self.assertGreater(len(declared), 14)

    def test_flags_on_the_page_are_those_of_the_header(self):
        header = read("backends/abi/devrt_plugin.h")
        listed = {name for row in rows("three flags beside") for name in
                  names(row[0])}
        self.assertEqual(
            listed, set(re.findall(r"#define (DEVRT_ERROR_\w+) \d+u", header)))

    def test_kinds_in_cpp(self):
        headers = "".join(read("include/devrt/" + name) for name in (
            "runtime/status.h", "runtime/capture_error.h", "arrays/exchange.h"))
        functions = [name for row in rows("\n## C++\n") for name in names(row[0])
                     if "(" in name]
        self.assertGreater(len(functions), 4)
        for name in functions:
            self.assertTrue(name.split("(")[0] + "(" in headers, name)
        enum = headers.split("enum class ExchangeError {")[1].split("}")[0]
        listed = {name for row in rows("\n`GetExchangeError` returns")
                  for name in names(row[0]) if name.startswith("k")}
        self.assertEqual(listed, set(re.findall(r"^  (k\w+),", enum, re.M)))

    def test_classes_of_python(self):
        declared = python_classes(read("python/devrt/_core.pyi"))
        declared.update({"testing." + name: bases for name, bases in
                         python_classes(
                             read("python/devrt/testing/_machine.py")).items()})
        listed = {names(row[0])[0]: names(row[1])
                  for row in rows("\n## Python\n") if names(row[0])}
        self.assertEqual(listed, declared)

    def test_messages_are_in_the_source(self):
        paths = [path for folder in FOLDERS
                 for path in sorted((ROOT / folder).rglob("*.cc"))]
        # Texts that backends and libdevrt share are inline.
        paths += sorted((ROOT / "backends/text").glob("*.h"))
        source = "\n".join(joined(path.read_text(encoding="utf-8")) for path in paths)
        texts = [name for row in rows("\n## Messages\n") for name in
                 re.findall(r"`([^`]+)`", row[0])]
        self.assertGreater(len(texts), 15)
        for text in texts:
            found = pieces(text)
            self.assertTrue(found, text)
            for piece in found:
                with self.subTest(text=text):
                    self.assertTrue(piece in source, piece)

    def test_how_the_source_is_read(self):
        self.assertEqual(joined('F("one "\n  "two");'), 'F("one two");')
        self.assertEqual(pieces("no backend ... was found"),
                         ["no backend ", " was found"])
        self.assertEqual(
            python_classes("class AError(B, x.CError): ...\nclass D(E): ...\n"),
            {"AError": ["B", "CError"]})


if __name__ == "__main__":
    unittest.main()
