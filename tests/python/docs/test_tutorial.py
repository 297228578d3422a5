# SPDX-License-Identifier: Apache-2.0
"""Every Python block of the documents, as a reader would run it: those of README.md
and of all pages under docs/. On the pages under docs/ the shell's blocks are run too.

Files that a page assumes and does not show are in stand_ins.py."""

import code
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

pytest.importorskip("numpy")

import stand_ins  # noqa: E402
from pages import FILE, blocks, equal, pages_that_run  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
RUNNER = pathlib.Path(__file__).with_name("pages.py")


PAGES = pages_that_run(ROOT)
TUTORIAL = [page for page in PAGES if page.parent.name == "tutorials"]


def options(page):
    """README.md's commands set up the checkout: they are not run."""
    return ("--no-shell",) if page == ROOT / "README.md" else ()


def results(page):
    """{line: (result, said)} of a page that was followed in a new process."""
    return followed(page)[0]


def uses_gpu(page):
    return "```python gpu" in page.read_text(encoding="utf-8")


def programs(folder):
    """A folder for PATH with the command devrt, if the build has it."""
    tool = os.environ.get("DEVRT_TOOL")
    if tool:
        (folder / "devrt").symlink_to(tool)
    return folder


@functools.lru_cache(maxsize=None)
def followed(page):
    """The results, and {name: text} of the pictures that it left."""
    environment = {
        **os.environ,
        # An installation has it by its entry point.
        "PYTEST_PLUGINS": "devrt.testing.plugin",
    }
    for name in ("DEVRT_MTIA", "DEVRT_SIM_SEED", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    if not uses_gpu(page):
        environment["DEVRT_BACKENDS"] = "mtia"  # as page 1 says
    with tempfile.TemporaryDirectory() as folder, \
            tempfile.TemporaryDirectory() as commands:
        environment["PATH"] = ":".join([
            str(programs(pathlib.Path(commands))),
            str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        environment.update(stand_ins.prepare(page, pathlib.Path(folder)))
        done = subprocess.run([sys.executable, str(RUNNER), str(page), folder,
                               *options(page)],
                              env=environment, capture_output=True, text=True,
                              timeout=300)
        pictures = {picture.name: picture.read_text(encoding="utf-8")
                    for picture in pathlib.Path(folder).glob("*.svg")}
    assert done.returncode == 0, done.stdout + done.stderr
    return {line: (result, said)
            for line, result, said in json.loads(done.stdout.splitlines()[-1])
            }, pictures


def blocks_of(page):
    return blocks(page.read_text(encoding="utf-8"), shell=not options(page))


def cases():
    for page in PAGES:
        for line, language, _ in blocks_of(page):
            yield pytest.param(page, line, id=f"{page.stem}:{line}:{language}")


@pytest.mark.parametrize("page,line", list(cases()))
def test_blocks_print_the_output_on_the_page(page, line):
    if line not in results(page):
        pytest.skip("an earlier block of the page failed")
    result, said = results(page)[line]
    if result == "skipped":
        pytest.skip(said)
    assert result == "ok", f"{page.name}:{line}: {said}"


def test_there_are_four_pages_with_outputs():
    assert [page.stem[0] for page in TUTORIAL] == ["1", "2", "3", "4"]
    for page in TUTORIAL:
        languages = [language for _, language, _ in blocks_of(page)]
        assert languages.count("text") >= 5, page.name


def test_readme_has_two_good_blocks():
    found = results(ROOT / "README.md")
    assert [result for result, _ in found.values()] == ["ok"] * 2, found


def boxes(picture):
    """The operations of a timeline's picture and their lines, without times."""
    return re.findall(r"<g><title>(.*?): .*; (.*)</title>", picture)


def test_pictures_equal_those_drawn_by_the_pages():
    drawn = {}
    for page in TUTORIAL:
        drawn.update(followed(page)[1])
    kept = {picture.name: picture.read_text(encoding="utf-8")
            for picture in (ROOT / "docs/tutorials").glob("*.svg")}
    assert kept and kept.keys() == drawn.keys()
    for name, picture in kept.items():
        assert boxes(picture), name
        assert boxes(picture) == boxes(drawn[name]), (
            f"docs/tutorials/{name} shows a former page; the new picture is left in "
            f"FOLDER by {RUNNER.relative_to(ROOT)} docs/tutorials/PAGE.md FOLDER")


def test_pictures_of_the_front_page_equal_those_of_the_demo(tmp_path):
    if "DEVRT_TOOL" not in os.environ:
        pytest.skip("needs the command devrt")
    environment = {k: v for k, v in os.environ.items() if k != "DEVRT_MTIA"}
    subprocess.run([os.environ["DEVRT_TOOL"], "demo", f"--svg={tmp_path}/demo.svg"],
                   env=environment, check=True, capture_output=True, timeout=60)
    kept = (ROOT / "docs/pictures/demo.svg").read_text(encoding="utf-8")
    assert kept == (tmp_path / "demo.svg").read_text(encoding="utf-8"), (
        "build/tools/devrt demo --svg=docs/pictures/demo.svg draws the new picture")
    small = subprocess.run(
        [sys.executable, ROOT / "scripts/front_picture.py", os.environ["DEVRT_TOOL"]],
        env=environment, check=True, capture_output=True, text=True, timeout=60).stdout
    assert (ROOT / "docs/pictures/front.svg").read_text(encoding="utf-8") == small, (
        "scripts/front_picture.py build/tools/devrt > docs/pictures/front.svg draws it")


def typed(source):
    """Returns the errors of a prompt into which a user pastes a block."""
    console, said = code.InteractiveInterpreter(), []
    # Not its text: where there is another excepthook, as of pytest's exceptiongroup
    # before Python 3.11, that one gets it.
    console.showsyntaxerror = lambda *_, **__: said.append(repr(sys.exc_info()[1]))
    console.runcode = lambda compiled: None
    lines = []
    for line in [*source.splitlines(), ""]:
        lines.append(line)
        if not console.runsource("\n".join(lines)):
            lines = []
    return "".join(said)


@pytest.mark.parametrize("page", [*TUTORIAL, ROOT / "README.md"], ids=lambda p: p.stem)
def test_blocks_can_be_typed(page):
    for line, language, source in blocks_of(page):
        if language.startswith("python") and not FILE.match(source):
            assert typed(source) == "", f"{page.name}:{line}"


def test_what_cannot_be_typed_is_found():
    assert "SyntaxError" in typed("if x:\n    y = 1\nprint(y)\n")
    assert typed("if x:\n    y = 1\n\nprint(y)\n") == ""


@pytest.mark.parametrize("wanted,got,same", [
    ("a\n", "a\n", True), ("a\n", "b\n", False), ("a ...\n", "a 1.5\n", True),
    ("a\n", "a\nb\n", False), ("...\nb\n", "a\nb\n", True), ("a\n", "", False),
])
def test_comparison_of_outputs_knows_dots(wanted, got, same):
    assert equal(wanted, got) is same


@pytest.mark.parametrize("block,result", [
    ("sh\nfalse\ntrue\n", "failed"), ("sh\nfalse || true\n", "ok"),
    ("sh exit 3\ntrue\n", "failed"), ("sh exit 3\nexit 3\n", "ok"),
    ("sh\necho $no_such_name\n", "failed"),
    ("sh no.such.module\nfalse\n", "skipped"),
    ("python no.such.module\ndevrt.ones(1)\n", "skipped"),
    ("python no.such.module\ndevrt.no_such_name(1)\n", "failed"),
    ("python fragment\nfoo(devrt.ones)\n", "ok"),
    ("python fragment\nfoo(devrt.no_such_name)\n", "failed"),
    ("python fragment\nfrom devrt import no_such_name\n", "failed"),
])
def test_what_fails_a_block(tmp_path, block, result):
    page = tmp_path / "page.md"
    page.write_text(f"```{block}```\n")
    assert [found for found, _ in results(page).values()] == [result]


def test_a_wrong_page_fails(tmp_path):
    page = tmp_path / "wrong.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n\n"
                    "```python\nraise SystemError\n```\n")
    assert {line: r for line, (r, _) in results(page).items()} == {
        2: "ok", 6: "failed"}
