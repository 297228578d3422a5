# SPDX-License-Identifier: Apache-2.0
"""The pages that a tool writes: one a header, one a module, one command, and one of the
statements about other libraries."""

import collections
import json
import re
import subprocess

import reference_xml

# The order of the C++ chapters. Each has the headers of one folder: a title, and what the
# readers of its pages write.
CHAPTERS = {
    "runtime": ("Devices, backends, errors and the simulator",
                "C++ programs that find devices, load backends or use the simulator"),
    "guards": ("Current devices and streams",
               "C++ programs that make devices and streams current"),
    "streams": ("Streams, events, copies and launches",
                "C++ programs that give work to devices"),
    "memory": ("Memory", "C++ programs that allocate memory, or allocators"),
    "arrays": ("Arrays and exchange",
               "C++ programs that compute with arrays, or exchange them"),
    "collectives": ("Collectives", "C++ programs that use several devices together"),
    "cts": ("The conformance suite", "the test program of a backend"),
}
C_CHAPTERS = {
    "backends/abi": ("Backends and layers", "a backend or a layer"),
    "memory": ("Memory for other libraries",
               "C, or a language that calls C, and want devrt's memory"),
    "arrays": ("Arrays for other libraries",
               "C, or a language that calls C, and exchange arrays"),
}
MODULES = {
    "devrt": "Devices, streams, events, memory and arrays",
    "devrt.simulator": "The simulated accelerator",
    "devrt.testing": "Tests with schedules and faults",
    "devrt.interop": "Exchange with other libraries",
    "devrt.accelerator": "The names of torch.accelerator",
    "devrt.cuda": "The names of torch.cuda",
    "devrt.hip": "The names of torch.cuda, for HIP",
    "devrt.mtia": "The names of torch.mtia",
}
# These have classes of devrt under their own names; an index would list each twice.
FACADES = ("devrt.accelerator", "devrt.cuda", "devrt.hip", "devrt.mtia")


def write(path, title, intro, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# {title}\n\n{intro}\n\n{body}\n", encoding="utf-8")


def toctree(names):
    return "```{toctree}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```"


def header_page(folder, header, readers):
    """The page of a header, which is named as a program includes it."""
    name = f"devrt/{header}"
    page = re.sub(r"[/.]", "_", header)
    write(folder / f"{page}.md", f"`{name}`",
          f"This page is the reference of `#include \"{name}\"`. It is for those who "
          f"write {readers}: with it they know what to pass, with its units, what comes "
          "back, and which errors and threads to expect.",
          f"```{{doxygenfile}} {name}\n:project: devrt\n```")
    return page


def is_in_c(header):
    """True for a header in C; all headers of the ABI are in the C reference."""
    return header.parent.name == "abi" or \
        header.read_text(encoding="utf-8").startswith("/*")


def chapters(include, folder, titles, in_c):
    """The pages of the public headers of each chapter, and the lists of them."""
    body = []
    for chapter, (title, readers) in titles.items():
        names = [header_page(folder, f"{chapter}/{path.name}", readers)
                 for path in sorted((include / chapter).glob("*.h"))
                 if reference_xml.is_public(path) and is_in_c(path) == in_c]
        body.append(f"## {title}\n\n{toctree(names)}")
    return "\n\n".join(body)


def write_headers(source):
    include = source / "include/devrt"
    out = source / "docs/reference/cpp"
    write(out / "index.md", "C++",
          "These pages are the reference of the C++ headers, one page for each. They are "
          "for those who write C++ programs with devrt, and find a name, its arguments "
          "and its errors here. `devrt/devrt.h` includes all of these headers but "
          "those of `devrt/collectives/` and `devrt/cts/cts.h`. Each page begins with "
          "what the header is, an example, "
          "threads and errors.", chapters(include, out, CHAPTERS, False))
    out = source / "docs/reference/c"
    write(out / "index.md", "C",
          "These pages are the reference of the C interfaces. They are for those who "
          "write a backend, a layer, or a library that uses devrt's memory and arrays, "
          "and find each struct and function here. The helpers for backends and layers in "
          "C++ are here too. [The contract](../plugin-contract.md) has the rules for "
          "backends that no declaration shows.", chapters(include, out, C_CHAPTERS, True))


def write_modules(source):
    out = source / "docs/reference/python-api"
    for module, about in MODULES.items():
        write(out / f"{module}.md", f"`{module}`",
              f"This page is the reference of the module `{module}`: "
              f"{about[0].lower() + about[1:]}. It is for those who write Python programs "
              f"with {'the names of PyTorch' if module in FACADES else 'devrt'}: with it "
              "they can call each name, and know its arguments, its result and its "
              "errors.",
              f"```{{eval-rst}}\n.. automodule:: {module}\n   :imported-members:\n"
              + ("   :no-index:\n" if module in FACADES else "") + "```")
    write(out / "index.md", "Python",
          "These pages are the reference of the Python package, made from its stubs and "
          "docstrings. They are for those who write Python programs with devrt, and find "
          "each class and function here. [The package](../python.md) says how its parts "
          "fit together.",
          toctree(MODULES))


def write_command(source, command):
    """What each command prints for --help."""
    def text(*arguments):
        return subprocess.run([command, *arguments, "--help"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.rstrip()
    top = text()
    names = re.findall(r"^  ([a-z-]+) {2,}", top.split("Commands:")[1].split("Flags:")[0],
                       re.M)
    parts = [f"```text\n{top}\n```"]
    parts += [f"## devrt {name}\n\n```text\n{text(name)}\n```" for name in names]
    write(source / "docs/reference/command-help.md", "`devrt --help`",
          "This page has what `devrt --help` and the help of each command print. It is "
          "for those who know the command and look up a flag: [the command](cli.md) "
          "explains the commands with examples.", "\n\n".join(parts))


def write_statements(source):
    """What docs/coming-from/ says of other libraries, and what the last run found."""
    folder = source / "docs/coming-from"
    run = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    tables = collections.defaultdict(list)
    for fact in run["facts"]:
        claim = re.sub(r"([\\`*_\[\]<>|])", r"\\\1", fact["claim"])
        outcome = fact["outcome"]
        if outcome == "documented":
            outcome = f"[{outcome}]({fact['observed']})"
        tables[fact["library"]].append(f"| {fact['id']} | {claim} | {outcome} |")
    versions = ", ".join(f"{name} {found}" for name, found in run["versions"].items())
    write(folder / "statements.md", "Statements about other libraries",
          "This page lists what the pages of this folder say of other libraries, with the "
          "outcome of the last measurement. It is for readers who met a name such as PT5: "
          f"the run was on {run['date']}, at commit {run['commit']}, on {run['machine']}, with "
          f"{versions}. "
          "`documented` leads to the text of the library that says so.",
          "\n\n".join(f"## {library}\n\n| Name | Statement | Outcome |\n|---|---|---|\n"
                      + "\n".join(rows) for library, rows in tables.items()))


def link_generated_pages(source):
    """Names the generated pages on the page of the reference, which is read on GitHub
    too, where they are not."""
    page = source / "docs/reference/index.md"
    before, mark, behind = page.read_text(encoding="utf-8").partition("```{toctree}")
    page.write_text(
        before + "Each name has its place in [C++](cpp/index.md), [C](c/index.md) or "
        "[Python](python-api/index.md), and each flag in "
        "[`devrt --help`](command-help.md).\n\n" + mark + behind, encoding="utf-8")


def write_all(source, doxygen, command):
    reference_xml.prepare(doxygen, source / "include")
    write_headers(source)
    write_modules(source)
    write_command(source, command)
    write_statements(source)
    link_generated_pages(source)
