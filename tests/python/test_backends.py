# SPDX-License-Identifier: Apache-2.0
"""Backends: found, loaded, and offered by other packages."""

import os
import pathlib

import pytest

import devrt


def test_names_and_devices(two):
    assert devrt.backends() == ["mtia"]
    assert devrt.devices() == two and devrt.devices("mtia") == two
    info = devrt.backend_info("mtia")
    assert info["name"] == "mtia" and info["simulator"] is True
    assert pathlib.Path(info["path"]).name == "libdevrt_mtia.so"
    assert any(line["result"] == "loaded" for line in devrt.load_report())


def test_peers(two):
    assert devrt.can_access_peer(two[0], two[1]) is True
    assert devrt.can_access_peer(two[0], two[0]) is False
    devrt.enable_peer_access(two[0], two[1])
    with pytest.raises(devrt.Error) as info:
        devrt.enable_peer_access(two[0], two[1])
    assert info.value.code == "ALREADY_EXISTS"
    devrt.disable_peer_access(two[0], two[1])
    with pytest.raises(devrt.Error):
        devrt.disable_peer_access(two[0], two[1])


def test_loading(two):
    path = devrt.backend_info("mtia")["path"]
    assert devrt.load_backend(path) == "mtia"
    assert devrt.load_backend(pathlib.Path(path)) == "mtia"
    for wrong in (3, None, b"/x.so"):
        with pytest.raises(TypeError):
            devrt.load_backend(wrong)


@pytest.fixture
def package(tmp_path):
    """Makes a package with an entry point; returns the environment for it."""

    def make(target, body):
        (tmp_path / "offers.py").write_text(body)
        info = tmp_path / "offers-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offers\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[devrt.backends]\nmtia = offers:{target}\n")
        return {
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])),
            "DEVRT_PLUGINS": str(tmp_path / "none.so"),
            "DEVRT_BACKENDS": "",
        }

    return make


@pytest.mark.parametrize("target", ["path", "function"])
def test_entry_points(run_program, package, target):
    path = devrt.backend_info("mtia")["path"]
    env = package(target, f"print('loaded')\npath = {path!r}\n"
                          f"def function(): return path\n")
    done = run_program(
        """
        import devrt
        print(devrt.backends())
        print(devrt.device("mtia:1"), devrt.devices("mtia"))
        """, env=env)
    assert done.stdout.splitlines()[0] == "['mtia']", done.stdout + done.stderr
    assert "loaded" in done.stdout
    assert "[devrt.Device('mtia:0'), devrt.Device('mtia:1')]" in done.stdout


@pytest.mark.parametrize("body, error", [
    ("path = 'relative.so'", "InvalidArgumentError"),
    ("path = 3", "TypeError"),
    ("def path(): raise KeyError('from the package')", "KeyError"),
    ("raise ImportError('broken package')", "ImportError"),
])
def test_entry_points_that_are_wrong(run_program, package, body, error):
    done = run_program(
        """
        import devrt
        try:
            devrt.device("mtia:0")
        except Exception as error:
            print(type(error).__name__)
        """, env=package("path", body))
    assert done.stdout == error + "\n", done.stdout + done.stderr
