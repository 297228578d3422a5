# SPDX-License-Identifier: Apache-2.0
"""Claims of docs/coming-from/ about other libraries, as functions that measure them.

A module of claims makes one Library and decorates its functions:

    torch = claims.Library("torch", ["torch"])

    @torch.claim("PT3", "the default stream has the handle 0")
    def default_stream():
        handle = ...
        claims.expect(handle == 0, f"the handle is {handle}")
        return f"handle {handle}"            # what was observed

A function raises Differs if the library behaves otherwise, and Skip if the claim
cannot be measured here. A claim that may spoil the process is `alone`.
"""

import dataclasses
import hashlib
import inspect
import typing


class Differs(Exception):
    """The library does not do what the claim says."""


class Skip(Exception):
    """The claim cannot be measured here."""


@dataclasses.dataclass
class Claim:
    id: str
    library: str
    says: str
    measure: typing.Optional[typing.Callable] = None
    alone: bool = False
    devices: int = 1  # that the measurement needs
    source: str = ""  # of a claim that is read in a document, not measured

    @property
    def code(self):
        """A name for what the measurement does: another one must be measured again."""
        text = inspect.getsource(self.measure) if self.measure else self.source
        return hashlib.sha256(text.encode()).hexdigest()[:8]


class Library:
    """The claims about one library, and the modules that they import.

    `documents` is the page of the library for claims that were not measured yet.
    """

    def __init__(self, name, modules=(), distributions=(), documents=""):
        self.documents = documents
        self.name = name
        self.modules = modules
        self.distributions = distributions
        self.claims = {}

    def add(self, claim):
        assert claim.id not in self.claims, claim.id
        self.claims[claim.id] = claim

    def claim(self, id, says, alone=False, devices=1):
        def decorate(function):
            self.add(Claim(id, self.name, says, function, alone, devices))
            return function
        return decorate

    def documented(self, id, says, source):
        self.add(Claim(id, self.name, says, source=source))


def expect(condition, otherwise):
    if not condition:
        raise Differs(otherwise)


def error_of(function, *arguments, **keywords):
    """The exception that a call raises; Differs if it raises none."""
    try:
        result = function(*arguments, **keywords)
    except Exception as error:
        return error
    raise Differs(f"no exception, but {result!r}")


def named(error):
    """The exception's type and the first line of its text."""
    lines = (str(error) or "").strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"


def expect_names(root, names):
    """Dotted names that must exist below an object."""
    missing = []
    for name in names:
        place = root
        for part in name.split("."):
            place = getattr(place, part, None)
            if place is None:
                missing.append(name)
                break
    expect(not missing, "missing: " + ", ".join(missing))
    return f"{len(names)} names"


def expect_absent(owner, names):
    there = [name for name in names if hasattr(owner, name)]
    expect(not there, "has: " + ", ".join(there))
    return "has none of " + ", ".join(names)
