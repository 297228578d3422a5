# SPDX-License-Identifier: Apache-2.0
"""The pages that a tool writes: one a header, one a module, one command, and one of the
statements about other libraries."""

import collections
import json
import re
import subprocess
import xml.etree.ElementTree

# The order of the C++ chapters. Each has the headers of one folder.
CHAPTERS = {
    "runtime": "Devices, backends, errors and the simulator",
    "guards": "Current devices and streams",
    "streams": "Streams, events, copies and launches",
    "memory": "Memory",
    "arrays": "Arrays and exchange",
    "cts": "The conformance suite",
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
# What the layer's helper makes of the lists of slots. Doxygen does not read those lists.
MADE_OF_LISTS = ("DEVRT_SLOT", "DEVRT_EXTENSION", "DEVRT_EXTENSION_SLOT", "kCallNames")
# These have classes of devrt under their own names; an index would list each twice.
FACADES = ("devrt.accelerator", "devrt.cuda", "devrt.hip", "devrt.mtia")


def write(path, title, intro, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# {title}\n\n{intro}\n\n{body}\n", encoding="utf-8")


def toctree(names):
    return "```{toctree}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```"


def header_page(folder, header):
    """The page of a header, which is named as a program includes it."""
    name = f"devrt/{header}"
    page = re.sub(r"[/.]", "_", header)
    write(folder / f"{page}.md", f"`{name}`",
          f"This page is the reference of `#include \"{name}\"`.",
          f"```{{doxygenfile}} {name}\n:project: devrt\n```")
    return page


def prepare(doxygen):
    """Makes Doxygen's output what Breathe shows.

    In the index each header has its path, since two headers have the name copy.h."""
    path = doxygen / "index.xml"
    index = xml.etree.ElementTree.parse(path)
    for compound in index.iterfind("compound[@kind='file']"):
        described = xml.etree.ElementTree.parse(doxygen / f"{compound.get('refid')}.xml")
        compound.find("name").text = described.find("compounddef/location").get("file")
    index.write(path, encoding="utf-8")
    for path in doxygen.glob("class*.xml"):  # what is private is no reference
        described = xml.etree.ElementTree.parse(path)
        for compound in described.iterfind("compounddef"):
            for section in compound.findall("sectiondef"):
                if section.get("kind").startswith("private"):
                    compound.remove(section)
        described.write(path, encoding="utf-8")
    for path in (*doxygen.glob("*__helper_8h.xml"), *doxygen.glob("namespace*.xml")):
        described = xml.etree.ElementTree.parse(path)
        for parent in described.iter():
            for child in list(parent):
                if child.tag in ("memberdef", "enumvalue") and \
                        child.findtext("name") in MADE_OF_LISTS:
                    parent.remove(child)
        described.write(path, encoding="utf-8")
    # A comment before a namespace is of one header, and each page would show it.
    for path in doxygen.glob("namespace*.xml"):
        described = xml.etree.ElementTree.parse(path)
        for text in ("briefdescription", "detaileddescription"):
            described.find(f"compounddef/{text}").clear()
        described.write(path, encoding="utf-8")


def write_headers(source):
    include = source / "include/devrt"
    out = source / "docs/reference/cpp"
    body = []
    for chapter, title in CHAPTERS.items():
        names = [header_page(out, f"{chapter}/{path.name}")
                 for path in sorted((include / chapter).glob("*.h"))]
        body.append(f"## {title}\n\n{toctree(names)}")
    write(out / "index.md", "C++",
          "These pages are the reference of the C++ headers. `devrt/devrt.h` includes "
          "all of them but `devrt/cts/cts.h`. Each page begins with what the header is, "
          "an example, threads and errors.", "\n\n".join(body))
    out = source / "docs/reference/c"
    names = [header_page(out, f"backends/abi/{path.name}")
             for path in sorted((include / "backends/abi").glob("*.h"))
             if path.name != "devrt_plugin_internal.h"]
    write(out / "index.md", "C: the interface of plugins",
          "These pages are the reference of the C headers that a backend or a layer is "
          "written against. [The contract](../plugin-contract.md) has the rules that no "
          "declaration shows.", toctree(names))


def write_modules(source):
    out = source / "docs/reference/python-api"
    for module, about in MODULES.items():
        write(out / f"{module}.md", f"`{module}`",
              f"This page is the reference of the module `{module}`: "
              f"{about[0].lower() + about[1:]}.",
              f"```{{eval-rst}}\n.. automodule:: {module}\n   :imported-members:\n"
              + ("   :no-index:\n" if module in FACADES else "") + "```")
    write(out / "index.md", "Python",
          "These pages are the reference of the Python package, made from its stubs and "
          "docstrings. [The package](../python.md) says how its parts fit together.",
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
          "This page has what `devrt --help` and the help of each command print. [The "
          "command](cli.md) explains the commands with examples.", "\n\n".join(parts))


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
          f"the run was on {run['date']}, on {run['machine']}, with {versions}. "
          "`documented` leads to the text of the library that says so.",
          "\n\n".join(f"## {library}\n\n| Name | Statement | Outcome |\n|---|---|---|\n"
                      + "\n".join(rows) for library, rows in tables.items()))


def write_all(source, doxygen, command):
    prepare(doxygen)
    write_headers(source)
    write_modules(source)
    write_command(source, command)
    write_statements(source)
