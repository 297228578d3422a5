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


def test_found_backends_and_usable_backends(run_program, package):
    """A backend that is installed where there is no device of it."""
    assert devrt.is_available() is True and devrt.is_available("mtia") is True
    assert devrt.is_available("nothing") is False
    for wrong in (b"mtia", 1, devrt.device("mtia:0")):
        with pytest.raises(TypeError, match="backend must be a str or None"):
            devrt.is_available(wrong)
    env = package("path", "def path(): raise OSError('no driver')", name="acme")
    env.update(DEVRT_PLUGINS="", DEVRT_BACKENDS="mtia,acme")
    done = run_program("""
        import devrt
        print(devrt.backends(), [b for b in devrt.backends() if devrt.is_available(b)],
              devrt.is_available())
    """, env=env)
    assert done.stdout.split("\n")[0] == "['mtia', 'acme'] ['mtia'] True", (
        done.stdout + done.stderr)
    done = run_program("""
        import devrt
        print(devrt.backends(), devrt.is_available(), devrt.is_available("mtia"))
    """, env={"DEVRT_MTIA": "devices=no"})
    assert done.stdout.split("\n")[0] == "['mtia'] False False", (
        done.stdout + done.stderr)


def test_peer_access_is_enabled_once(two):
    assert devrt.can_access_peer(two[0], two[1]) is True
    assert devrt.can_access_peer(two[0], two[0]) is False
    devrt.enable_peer_access(two[0], two[1])
    with pytest.raises(devrt.Error) as info:
        devrt.enable_peer_access(two[0], two[1])
    assert info.value.code == "ALREADY_EXISTS"
    devrt.disable_peer_access(two[0], two[1])
    with pytest.raises(devrt.Error):
        devrt.disable_peer_access(two[0], two[1])


def test_loading_a_plugin_again_names_its_backend(two):
    path = devrt.backend_info("mtia")["path"]
    assert devrt.load_backend(path) == "mtia"
    assert devrt.load_backend(pathlib.Path(path)) == "mtia"
    for wrong in (3, None, b"/x.so"):
        with pytest.raises(TypeError):
            devrt.load_backend(wrong)


@pytest.fixture
def package(tmp_path):
    """Makes a package with an entry point; returns the environment for it."""

    def make(target, body, name="mtia"):
        (tmp_path / "offers.py").write_text(body)
        info = tmp_path / "offers-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offers\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[devrt.backends]\n{name} = offers:{target}\n")
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


# The module of the entry point; class, code and text of the error.
@pytest.mark.parametrize("body, error, code, text", [
    ("path = 'relative.so'", "InvalidArgumentError", "INVALID_ARGUMENT",
     '"relative.so" is not an absolute path'),
    ("path = '/nothing/there.so'", "Error", "NOT_FOUND", "/nothing/there.so"),
    ("path = 3", "Error", "UNAVAILABLE", "absolute path of its plugin.*got int"),
    ("path = None", "Error", "UNAVAILABLE", "got NoneType"),
    ("path = b'/x.so'", "Error", "UNAVAILABLE", "got bytes"),
    ("def path(): raise KeyError('from the package')", "Error", "UNAVAILABLE",
     "KeyError: 'from the package'"),
    ("def path(): raise SystemExit(4)", "Error", "UNAVAILABLE", "SystemExit: 4"),
    ("raise ImportError('broken package')", "Error", "UNAVAILABLE",
     "ImportError: broken package"),
    ("", "Error", "UNAVAILABLE", "AttributeError: .*'path'"),
])
def test_entry_points_that_are_wrong(run_program, package, body, error, code, text):
    done = run_program(
        f"""
        import re
        import devrt
        for call in (lambda: devrt.device("mtia:0"), lambda: devrt.devices("mtia"),
                     lambda: devrt.current_device("mtia"),
                     lambda: devrt.backend_info("mtia")):
            try:
                call()
            except devrt.Error as error:
                assert type(error).__name__ == {error!r}, repr(error)
                assert error.code == {code!r}, error.code
                message = str(error)
                assert message.startswith(
                    "backend 'mtia', of entry point 'offers:path' in group "
                    "devrt.backends: "), message
                assert re.search({text!r}, message), message
            else:
                assert False, "no error"
        assert devrt.mtia.is_available() is False
        assert devrt.mtia.device_count() == 0
        line = devrt.load_report()[-1]
        assert line["backend"] == "mtia" and line["path"] == "offers:path", line
        assert line["result"] == "refused" and line["reason"] == message, line
        """, env=package("path", body))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_entry_point_that_leads_to_another_backend(run_program, package):
    path = devrt.backend_info("mtia")["path"]
    done = run_program(
        """
        import devrt
        names = [line["result"] for line in devrt.load_report()
                 if line["source"].startswith("entry point")]
        assert names == ["found"], names
        try:
            devrt.device("acme:0")
        except devrt.Error as error:
            print(error)
        # Nothing was loaded, and nothing took another's place.
        assert not any(line["result"] == "loaded" for line in devrt.load_report())
        assert devrt.load_report()[-1]["result"] == "refused"
        """, env=package("path", f"path = {path!r}", name="acme"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == (
        "backend 'acme', of entry point 'offers:path' in group devrt.backends: "
        f"the plugin {path} is of backend 'mtia'\n")


def test_entry_points_of_paths_that_come_later(run_program, package, tmp_path):
    """And of two of one name the first on the path."""
    env = package("path", "path = 1", name="acme")
    other = tmp_path / "other" / "more-1.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: more\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text(
        "[devrt.backends]\nacme = second:path\nbeta = second:path\n")
    done = run_program(
        """
        import sys
        import devrt
        print(devrt.backends(), end=" ")
        sys.path.append(sys.argv[1])
        print(devrt.backends(), end=" ")
        print([line["path"] for line in devrt.load_report()[-2:]])
        """, str(tmp_path / "other"), env=env)
    assert done.stdout == (
        "['acme'] ['acme', 'beta'] ['offers:path', 'second:path']\n"), (
        done.stdout + done.stderr)


@pytest.mark.parametrize("before, results", [
    ("", "found loaded"), ("devrt.load_backend(PATH)", "shadowed shadowed")])
def test_entry_points_in_the_report(run_program, package, before, results):
    path = devrt.backend_info("mtia")["path"]
    done = run_program(
        f"""
        import devrt
        PATH = {path!r}
        {before}
        print(devrt.load_report()[-1]["result"], end=" ")
        devrt.device("mtia:0")
        print(devrt.load_report()[-1]["result"])
        """, env=package("path", f"path = {path!r}"))
    assert done.stdout == results + "\n", done.stdout + done.stderr


def test_an_entry_point_that_is_excluded(run_program, package):
    """Not listed, and its package not imported."""
    for selection in ("mtia", "!acme", " cuda , hip"):
        env = package("path", "print('imported')", name="acme")
        env["DEVRT_BACKENDS"] = selection
        done = run_program(
            """
            import devrt
            assert "acme" not in devrt.backends()
            for _ in range(2):
                try:
                    devrt.device("acme:0")
                except devrt.Error as error:
                    print(error.code, error)
            line = devrt.load_report()[-1]
            print(line["backend"], line["result"])
            """, env=env)
        assert done.stdout == (
            "FAILED_PRECONDITION backend 'acme', of entry point 'offers:path' in "
            "group devrt.backends: it is excluded by "
            f"DEVRT_BACKENDS='{selection}'\n" * 2 + "acme excluded\n"), (
                done.stdout + done.stderr)


def test_a_failure_of_an_entry_point_is_kept(run_program, package):
    """The package is asked once, and the report does not grow."""
    done = run_program(
        """
        import devrt
        said, lengths = set(), set()
        for _ in range(5):
            for name in ("acme:0", "nobody"):
                try:
                    devrt.device(name)
                except devrt.Error as error:
                    said.add((type(error).__name__, error.code, str(error)))
            lengths.add(len(devrt.load_report()))
        print(len(said), lengths == {len(devrt.load_report())})
        """, env=package(
            "function", "def function(): print('asked'); return '/no/such.so'",
            name="acme"))
    assert done.stdout == "asked\n2 True\n", done.stdout + done.stderr
