# SPDX-License-Identifier: Apache-2.0
"""`python -m devrt`: the command in the place of the Python process."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from devrt import __main__ as command

TOOL = os.environ.get("DEVRT_TOOL")
needs_tool = pytest.mark.skipif(TOOL is None, reason="no devrt command")


def run(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "devrt", *arguments],
                          capture_output=True, text=True, timeout=60, **options)


@needs_tool
def test_it_is_the_command():
    assert command._find() == pathlib.Path(TOOL).resolve()
    for arguments in (["--version"], ["--help"], ["list"], ["no-such-command"],
                      ["inspect", "/nothing"], []):
        done = run(*arguments)
        there = subprocess.run([TOOL, *arguments], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (
            there.returncode, there.stdout, there.stderr)


@needs_tool
def test_signals_are_the_commands_own():
    """Python ignores SIGPIPE; the command is to end by it as any other."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "devrt", "--help"], stdout=writing,
                          stderr=subprocess.PIPE, timeout=60)
    there = subprocess.run([TOOL, "--help"], stdout=writing, stderr=subprocess.PIPE,
                           restore_signals=True, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (there.returncode, there.stderr)
    assert done.returncode == -signal.SIGPIPE


@needs_tool
def test_bench_calls_measures_this_package():
    done = subprocess.run(
        [TOOL, "bench", "calls", "--quick", "--json", f"--python={sys.executable}"],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["backend"] == "mtia"
    assert list(figures["ns"]) == ["devrt/mtia"]
    assert figures["ns"]["devrt/mtia"]["array x + y"] > 0
    # The time of an interpreter's start is no part of it, and 50 us are no import.
    assert 50e3 < figures["ns"]["devrt/mtia"]["import devrt"] < 2e9
    assert figures["bars"]["import devrt"] == 15e6


@needs_tool
@pytest.mark.parametrize("backend", ["acme", "cpu"])
def test_bench_calls_names_a_wrong_backend(backend):
    done = subprocess.run(
        [TOOL, "bench", "calls", f"--backend={backend}", f"--python={sys.executable}"],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert backend in done.stderr and "Traceback" not in done.stderr


@needs_tool
def test_bench_calls_names_a_python_without_the_package():
    done = subprocess.run(
        [TOOL, "bench", "calls", f"--python={sys.executable}"], capture_output=True,
        text=True, timeout=60, env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 1
    assert "cannot import devrt" in done.stderr and "Traceback" not in done.stderr


def test_the_picture_of_calls_has_the_rows_of_others(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(
        str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
    import python_bench

    own = {"event record": 100.0, "array x + y": 800.0, "with stream": 90.0}
    path = tmp_path / "calls.svg"
    python_bench.draw({"devrt/cuda": own, "torch": {"event record": 250.0},
                       "cupy": {"event record": 400.0, "array x + y": 400.0}}, path)
    drawn = path.read_text(encoding="utf-8")
    assert ">event record<" in drawn and ">2.5<" in drawn
    assert ">array x + y<" in drawn and ">0.5<" in drawn
    assert "with stream" not in drawn
    python_bench.draw({"devrt/cuda": own}, tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()
    assert "no picture" in capsys.readouterr().err


def test_the_bars_of_calls_that_stand_beside_others(monkeypatch):
    monkeypatch.syspath_prepend(
        str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
    from gpu_check.python import bench_rows

    own = {"event record": 240, "array x + y": 131, "array x + y, in C++": 100}
    made = bench_rows("calls", {
        "ns": {"devrt/cuda": own, "cupy": {"event record": 400, "array x + y": 50}},
        "bars": {"event record": 200, "array x + y": None, "array x + y, in C++": None},
    }, judged=True)
    assert [row.get("bars") for row in made] == [
        {"200 ns": False, "0.6 of CuPy's": True}, {"1.3 of the C++ call's": False}, None]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Makes the package a part of another tree."""

    def make(package, program, content):
        (tmp_path / package).mkdir(parents=True)
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755)
        monkeypatch.setattr(command, "_PACKAGE", tmp_path / package)
        return path

    return make


@pytest.mark.parametrize("package, program", [
    ("site-packages/devrt", "site-packages/devrt/bin/devrt"),
    ("build/python/devrt", "build/tools/devrt"),
    ("lib/python3/dist-packages/devrt", "bin/devrt"),
    ("lib/python3.11/site-packages/devrt", "bin/devrt")])
def test_the_command_is_found_beside_the_package(tree, package, program):
    path = tree(package, program, b"\x7fELF ...")
    assert command._find() == path
    path.chmod(0o644)
    assert command._find() is None


def test_a_script_is_not_the_command(tree, monkeypatch):
    """Such as the one that pip makes, which would call itself for ever."""
    tree("lib/python3.11/site-packages/devrt", "bin/devrt", b"#!/usr/bin/python3\n")
    assert command._find() is None
    with pytest.raises(SystemExit, match="libmd.*libmd-dev"):
        command.main()
