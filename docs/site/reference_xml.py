# SPDX-License-Identifier: Apache-2.0
"""Makes Doxygen's XML what the reference shows, and finds entries without a text.

Headers that say "Not for programs" are of devrt's own code, and get no page. What a
public header has for devrt's own code leaves the reference too: private members,
friends, macros whose names end in an underscore, and the members under a comment that
begins with "For devrt's own code".

Doxygen gives a comment to the declaration behind it. Here others get it too, up to an
empty line or the next comment: macros, further overloads of one function, and all
declarations behind a comment that ends in a colon.
"""

import copy
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

from doxygen_filter import BEHIND_CODE

INTERNAL = "Not for programs"
OWN_CODE = "For devrt's own code"
TEXTS = ("briefdescription", "detaileddescription")
# What the layer's helper makes of the lists of slots. Doxygen does not read those lists.
MADE_OF_LISTS = ("DEVRT_SLOT", "DEVRT_EXTENSION", "DEVRT_EXTENSION_SLOT", "kCallNames")


def is_public(header):
    return INTERNAL not in header.read_text(encoding="utf-8")


def text_of(entry):
    """The words that describe an entry, its example and its lists among them."""
    return " ".join(" ".join("".join(entry.find(tag).itertext()).split())
                    for tag in TEXTS if entry.find(tag) is not None).strip()


def is_own_code(member):
    name = member.findtext("name")
    return (member.get("kind") == "friend" and "operator" not in name
            or member.get("kind") == "define" and name.endswith("_")
            or name in MADE_OF_LISTS
            or text_of(member).startswith(OWN_CODE))


def is_usual(member):
    """True for what each class has: constructors that copy or move, deleted functions,
    destructors, assignments and comparisons for equality."""
    name = member.findtext("name")
    arguments = member.findtext("argsstring") or ""
    owner = (member.findtext("qualifiedname") or "").split("::")[-2:-1]
    return (name.startswith("~") or arguments.endswith(("=delete", "=default"))
            or re.search(r"operator *(==|!=|=)$", name) is not None
            or [name] == owner and re.match(rf"\((const )?{name} &", arguments)
            is not None)


def is_temporary(member, lines):
    """True for a macro that its own header ends."""
    return (member.get("kind") == "define"
            and f"#undef {member.findtext('name')}" in lines)


def place_of(member):
    location = member.find("location")
    return location.get("file"), int(location.get("line"))


def last_line_of_comment(lines, number):
    """The last line of the comment that describes the declaration in line `number` and
    others before it; None if it has no such comment."""
    def indent(line):
        return len(line) - len(line.lstrip())
    column = indent(lines[number - 1])
    for above in range(number - 1, 0, -1):
        line = lines[above - 1]
        bare = line.strip()
        if not bare or bare.startswith("#") and column:
            return None
        if bare.startswith("//") and indent(line) == column:
            return above
        if bare.endswith("*/") and bare.startswith(("/*", "*")) and \
                indent(line) - bare.startswith("*") == column:
            return above
        if indent(line) < column:
            return None
    return None


def without_comment_behind_code(text):
    """A copy of a description as far as it stands before the code."""
    text = copy.deepcopy(text)
    for parent in text.iter():
        for number, child in enumerate(parent):
            if BEHIND_CODE in (child.tail or ""):
                child.tail = child.tail.split(BEHIND_CODE)[0]
                del parent[number + 1:]
                break
        if BEHIND_CODE in (parent.text or ""):
            parent.text = parent.text.split(BEHIND_CODE)[0]
            del parent[:]
    return text


def attach_comments(members, lines):
    """Gives the comment before several declarations to each of them."""
    members = sorted(members, key=lambda member: place_of(member)[1])
    for member in members:
        comment = last_line_of_comment(lines, place_of(member)[1])
        if comment is None:
            continue
        first = next(one for one in members if place_of(one)[1] > comment)
        of_all = lines[comment - 1].rstrip(" */").endswith(":")
        same = first.get("kind") == member.get("kind") and (
            of_all or member.get("kind") == "define"
            or first.findtext("name") == member.findtext("name"))
        if first is member or text_of(member) or not same or is_usual(member):
            continue
        for tag in TEXTS:
            member.find(tag).extend(without_comment_behind_code(first.find(tag)))


def end_with_full_stop(member):
    """Ends the text of a comment for several declarations as a sentence."""
    for tag in TEXTS:
        for parent in member.find(tag).iter("para"):
            *_, last = [None, *parent]
            text = parent.text if last is None else last.tail
            if text and text.rstrip().endswith(":"):
                text = text.rstrip()[:-1] + "."
                if last is None:
                    parent.text = text
                else:
                    last.tail = text


def compounds(xml):
    """(path, tree) of each file of Doxygen's that describes entries."""
    for path in sorted(xml.glob("*.xml")):
        if path.name not in ("index.xml", "Doxyfile.xml"):
            yield path, ElementTree.parse(path)


def prepare(xml, include):
    """Makes Doxygen's output in the folder `xml` what Breathe shows.

    In the index each header has its path, since two headers have the name copy.h."""
    path = xml / "index.xml"
    index = ElementTree.parse(path)
    for compound in index.iterfind("compound[@kind='file']"):
        described = ElementTree.parse(xml / f"{compound.get('refid')}.xml")
        compound.find("name").text = described.find("compounddef/location").get("file")
    index.write(path, encoding="utf-8")
    for path, tree in compounds(xml):
        by_file, lines = {}, {}
        for member in tree.iter("memberdef"):
            by_file.setdefault(place_of(member)[0], []).append(member)
        for header, members in by_file.items():
            lines[header] = (include / header).read_text(encoding="utf-8").split("\n")
            attach_comments(members, lines[header])
        for member in tree.iter("memberdef"):
            end_with_full_stop(member)
        for compound in tree.iterfind("compounddef"):
            for include_line in compound.findall("includes"):
                include_line.text = compound.find("location").get("file")
            for section in compound.findall("sectiondef"):
                if section.get("kind").startswith("private"):
                    compound.remove(section)
                    continue
                for member in section.findall("memberdef"):
                    for value in member.findall("enumvalue"):
                        if value.findtext("name") in MADE_OF_LISTS:
                            member.remove(value)
                    if is_own_code(member) or \
                            is_temporary(member, lines[place_of(member)[0]]):
                        section.remove(member)
                if section.find("memberdef") is None:
                    compound.remove(section)
            # A comment before a namespace is of one header, and each page would show it.
            if compound.get("kind") == "namespace":
                for tag in TEXTS:
                    compound.find(tag).clear()
        path.write_text(ElementTree.tostring(tree.getroot(), encoding="unicode")
                        .replace(BEHIND_CODE, ""), encoding="utf-8")


def needs_no_text(member):
    """True for an entry whose name says all: what each class has, the fields of a struct
    and the values of an enumeration. The struct and the enumeration have a text."""
    return (member.tag == "enumvalue" or member.get("kind") == "variable"
            or is_usual(member))


def entries(xml):
    """(header, line, kind, name, member) of each entry of the public headers."""
    for _, tree in compounds(xml):
        for compound in tree.iterfind("compounddef"):
            if compound.get("kind") in ("class", "struct", "union"):
                location = compound.find("location")
                yield (location.get("file"), int(location.get("line")),
                       compound.get("kind"), compound.findtext("compoundname"), compound)
            for member in compound.iterfind("sectiondef/memberdef"):
                name = member.findtext("qualifiedname") or member.findtext("name")
                yield (*place_of(member), member.get("kind"), name, member)
                for value in member.findall("enumvalue"):
                    yield (*place_of(member), "enumvalue",
                           f"{name}::{value.findtext('name')}", value)


def without_text(xml, include):
    """{kind: number} of the entries, and the lines about those without a text."""
    numbers, found = {}, {}
    public = {}
    for header, line, kind, name, entry in entries(xml):
        if header not in public:
            public[header] = is_public(include / header)
        if not public[header]:
            continue
        numbers[kind] = numbers.get(kind, 0) + 1
        if text_of(entry) or entry.tag != "compounddef" and needs_no_text(entry):
            continue
        found[f"{header}:{line}: {kind} {name} has no text"] = None
    return numbers, sorted(found)


def main():
    xml, include = map(pathlib.Path, sys.argv[1:])
    numbers, found = without_text(xml, include)
    print(*found, sep="\n")
    print(f"{len(found)} of {sum(numbers.values())}", numbers)


if __name__ == "__main__":
    main()
