# SPDX-License-Identifier: Apache-2.0
"""The code examples of headers and of pages, as a compiler can read them.

In a header an example is indented by three blanks or more behind the `//`, or the ` *`, of its
comment. Two kinds of indented text are not code: text in which no line ends with
`;`, `{` or `}`, and lists, in which an item begins with `- ` or with a term and two
blanks. An example that cannot be compiled begins with `// Fragment: REASON`.

A line `... some text` in an example stands for code that the header does not show.

In a page an example is a ```cpp block. A block with a main function is a program of
its own. A block that begins with "// FILE" is a file's content, which follow_page.py
compiles, and no example.
"""

import dataclasses
import re

import follow_page

LINE = re.compile(r"^\s*(//|\*) {3}(.*)$")
ENDS_LIKE_CODE = re.compile(r"[;{}]\s*(?://.*)?$", re.M)
LIST_ITEM = re.compile(r"^(?:- |\w+ {2,}\w)", re.M)
FRAGMENT = re.compile(r"^// Fragment: \w")
BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.M | re.S)
MAIN = re.compile(r"^int main\(", re.M)
LEFT_OUT = re.compile(r"^(\s*)\.\.\.", re.M)
INCLUDE = re.compile(r"^#include .*\n", re.M)
# A class, a template or the head of a function cannot be in a function.
AT_FILE_SCOPE = re.compile(
    r"^(?:class|struct|template)\b|^\w[\w:<>*& ]*[ *&]\w+\([^;]*$", re.M)


@dataclasses.dataclass
class Example:
    header: str  # "devrt/runtime/device.h", or "docs/concepts/memory.md"
    line: int    # of its first line of code
    language: str
    text: str

    @property
    def is_in_page(self):
        return self.header.endswith(".md")

    @property
    def is_program(self):
        return bool(MAIN.search(self.text))

    @property
    def is_fragment(self):
        return bool(FRAGMENT.match(self.text))

    @property
    def end(self):
        """The line behind the last one."""
        return self.line + self.text.count("\n")

    def code(self, number):
        """The example in a namespace or a function with this number.

        Compiler messages name the header and its line.
        """
        body = LEFT_OUT.sub(r"\1// ...", self.text)
        place = f'#line {self.line} "{self.header}"\n'
        if AT_FILE_SCOPE.search(body):
            if self.language == "c":
                return place + body
            body = INCLUDE.sub("\n", body)
            return f"namespace example{number} {{\n{place}{body}\n}}\n"
        if self.language == "c":
            return f"void example{number}(void) {{\n{place}{body}\n}}\n"
        return (f"absl::Status Example{number}() {{\n{place}{body}\n"
                "return absl::OkStatus();\n}\n")

    def includes(self):
        """The #include lines, which cannot stay inside a namespace."""
        return "" if self.language == "c" else "".join(INCLUDE.findall(self.text))


def paragraphs(text):
    """(first line, language, lines) of the indented paragraphs of comments."""
    found, language, first = [], "", 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        match = LINE.match(line)
        if match and match[2]:
            if not found:
                language = "c" if match[1] == "*" else "c++"
                first = number
            found.append(match[2])
        elif found:
            yield first, language, found
            found = []


def examples(header, text):
    """The examples of a header, fragments among them.

    Paragraphs of code with nothing but a blank line between them are one example.
    """
    all_lines = text.split("\n")
    found = []
    for line, language, lines in paragraphs(text):
        if LIST_ITEM.search("\n".join(lines)):
            continue
        end = found[-1].end if found else 0
        if line == end + 1 and all_lines[end - 1].strip() in ("//", "*"):
            found[-1].text += "\n" + "\n".join(lines) + "\n"
        else:
            found.append(Example(header, line, language, "\n".join(lines) + "\n"))
    return [example for example in found if ENDS_LIKE_CODE.search(example.text)]


def page_examples(page, text):
    """The examples of a page, programs and fragments among them."""
    found = []
    for block in BLOCK.finditer(text):
        if not follow_page.FILE.match(block[1]):
            line = text.count("\n", 0, block.start(1)) + 1
            found.append(Example(page, line, "c++", block[1]))
    return found
