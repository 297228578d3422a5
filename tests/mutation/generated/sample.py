# SPDX-License-Identifier: Apache-2.0
"""Which mutants there are: one a line of the product, in the order of a seed.

The rules are universalmutator's for C++ and those of product.rules. The order is
that of a hash of the seed, the file and the text of the line, so that a change of
other lines leaves the sample as it is.
"""

import contextlib
import dataclasses
import hashlib
import io
import pathlib
import pickle
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]

# A room: its folder, and what of it is sampled. Templates of kernels in headers
# are compiled for the host by tests only.
ROOMS = ["runtime", "guards", "streams", "memory", "arrays", "backends/gpu",
         "layers", "python/src", "sim"]
LEFT_OUT = {
    "arrays/exchange/dlpack_abi.h",  # what others wrote
}

# Text between quotes and what follows // is no code.
TEXT = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//.*')
# Lines that declare and do nothing.
DECLARES = re.compile(
    r"\s*(#|namespace\b|using\b|template\b|friend\b|static_assert\b|case\b|"
    r"default:|public:|private:|class\b|struct\b|enum\b|extern\b|"
    r"[A-Z_]+_EXPORT\b|[})\];]*$)")
# Statements that make a text for people; whole ones may be deleted.
MESSAGE = re.compile(
    r"\b(StrCat|StrAppend|StrFormat|StrJoin|printf|\w*Error|Describe\w*|"
    r"\w*Text|\w*Message|PyErr_\w+|append)\(")
# Of these nothing but speed or the log changes.
LOG = re.compile(r"\b(DEVRT_LOG|Log|abort|terminate|reserve)\(")
# `Type name;`, `Type name = ...;`, `Type Name(...);`: nothing works without it.
DECLARATION = re.compile(
    r"(?!return\b|delete\b|else\b|if\b)[\w:<>,*&\s\[\]]*[\w>*&]\s[*&]*"
    r"\w+(\[\w*\])?\s*(=|;|\(|\{)")
OPERATOR = re.compile(r"<=|>=|==|!=|&&|\|\||->|\+\+|--|[-+*/%&|]=|[-+*/%&|<>]")
WORDS = {"true", "false", "min", "max", "begin", "end", "while", "else",
         "any_of", "all_of", "none_of", "min_element", "max_element"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    room: str
    file: str
    line: int  # from 1
    old: str
    new: str

    @property
    def key(self):
        """Returns an identifier that stays when lines move."""
        return digest(self.file, self.old.strip(), self.new.strip())[:12]

    @property
    def text(self):
        return f"{self.old.strip()} ==> {self.new.strip()}"


def digest(*parts):
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def code_of(line):
    """The line with its texts and comments made blank."""
    return TEXT.sub(lambda match: " " * len(match.group()), line).rstrip()


def balance(code):
    return [code.count(a) - code.count(b) for a, b in ("()", "[]", "{}")]


def is_deletion_worth_it(code, statement, following):
    if not re.match(r"[^{}]*;$", code) or statement != code:
        return False  # not a statement of one line
    if code.startswith("return ") and following.startswith(("}", "  }\n\n")):
        return False  # the end of a function without a result
    return not DECLARATION.match(code) and not code.endswith("= delete;")


def is_worth_it(old, new, statement, following):
    """False for what cannot compile, changes only what people read, or is no
    change: `i != n` for `i < n` in a loop that counts."""
    code, changed = code_of(old).strip(), code_of(new).strip()
    if new.count("\n") != old.count("\n") or code == changed:
        return False
    if LOG.search(statement):
        return False
    if new.strip().startswith("/*"):
        return is_deletion_worth_it(code, statement, following)
    if balance(code) != balance(changed) or "(," in changed or ",)" in changed:
        return False
    first = re.match(r"[\w}!(]+", code)
    if first and not changed.startswith(first.group()[:2]):
        return False  # the rule took the beginning of the line with it
    if MESSAGE.search(statement) and not re.search(r"\b(if|while) \(", code):
        return False
    begin = next((i for i, (a, b) in enumerate(zip(code, changed)) if a != b),
                 min(len(code), len(changed)))
    word = next((m for m in re.finditer(r"\w+", code)
                 if m.start() <= begin < m.end()), None)
    if word:
        return (word.group() in WORDS or
                word.group().isdigit() and code[word.end():word.end() + 1] != "'")
    match = next((m for m in OPERATOR.finditer(code)
                  if m.start() <= begin <= m.end()), None)
    if match and abs(len(code) - len(changed)) <= 2:
        if match.group() in ("->", "++", "--"):
            return changed[match.start():match.end()] in ("++", "--")
        if (code[match.start() - 1:match.start()] != " " or
                code[match.end():match.end() + 1] not in ("", " ")):
            return False  # of a type
        became = OPERATOR.match(changed, match.start())
        became = became.group() if became else ""
        if changed[match.start() + len(became):].startswith("="):
            return False  # `<==`
        if code[match.end():].startswith(" nullptr"):
            return became in ("==", "!=")
        if code.startswith("for (") and {match.group(), became} == {"<", "!="}:
            return False
    return True


def statements(lines):
    """For each line the statement that it belongs to, as far as it got."""
    found, open_ = [], ""
    for line in lines:
        code = code_of(line).strip()
        open_ = f"{open_} {code}".strip()
        found.append(open_)
        if code.endswith((";", "{", "}", ":")) or code.startswith("#"):
            open_ = ""
    return found


def mutants_of(room, file, seed):
    """The mutant of each line of a file that has any, with its place in the order."""
    from universalmutator import mutator
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines(keepends=True)
    with contextlib.redirect_stdout(io.StringIO()):
        made = mutator.mutants_regexp(
            lines, ["universal.rules", "c_like.rules", "cpp.rules",
                    str(HERE / "product.rules")], ignorePatterns=[])
    by_line = {}
    for number, new, _, (pattern, _) in made:
        # Texts; arguments that change places, which have other types mostly.
        if not pattern.pattern.startswith(('".+"', "([,")):
            by_line.setdefault(number, set()).add(new)
    whole = statements(lines)
    for number, choice in by_line.items():
        old = lines[number - 1]
        if DECLARES.match(code_of(old)):
            continue
        following = "".join(lines[number:number + 2])
        worth = sorted(
            new for new in choice
            if is_worth_it(old, new, whole[number - 1], following))
        if worth:
            new = min(worth, key=lambda each: digest(seed, file, old, each))
            yield (digest(seed, file, old.strip()),
                   Mutant(room, file, number, old.rstrip("\n"), new.rstrip("\n")))


def files_of(room):
    listed = subprocess.run(["git", "ls-files", room], cwd=ROOT, text=True,
                            check=True, stdout=subprocess.PIPE).stdout.split()
    return [name for name in listed
            if name.endswith((".cc", ".h")) and name not in LEFT_OUT]


def sample(seed, folder):
    """All mutants by room, in the order in which they are tried. Making them takes
    a quarter of a minute: they are kept in the folder for these sources."""
    files = [(room, file) for room in ROOMS for file in files_of(room)]
    texts = [(ROOT / file).read_text(encoding="utf-8") for _, file in files]
    texts += [path.read_text() for path in (HERE / "sample.py",
                                            HERE / "product.rules")]
    kept = folder / f"sample-{digest(seed, *texts)[:12]}.pickle"
    if kept.exists():
        return pickle.loads(kept.read_bytes())
    rooms = {room: {} for room in ROOMS}
    for room, file in files:
        for place, mutant in mutants_of(room, file, seed):
            rooms[room].setdefault(place, mutant)  # one of equal lines
    rooms = {room: [found[place] for place in sorted(found)]
             for room, found in rooms.items()}
    kept.write_bytes(pickle.dumps(rooms))
    return rooms
