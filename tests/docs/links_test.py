# SPDX-License-Identifier: Apache-2.0
"""docs/site/links.py and scripts/docs: links of a site, and the list of its versions."""

import contextlib
import functools
import http.server
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import threading
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))
import links  # noqa: E402


def script():
    """Returns scripts/docs as a module."""
    loader = importlib.machinery.SourceFileLoader("docs_script", str(ROOT / "scripts/docs"))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Quiet(http.server.SimpleHTTPRequestHandler):

    def log_message(self, *_):
        pass


class Links(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def test_links_inside_the_site(self):
        self.write("a.html", '<h1 id="x"></h1><a href="b.html#y"></a><a href="#x"></a>'
                             '<a href="c.html"></a><a href="b.html#z"></a>'
                             '<a href="https://nowhere.invalid/"></a>')
        self.write("b.html", '<p id="y"></p>')
        self.assertEqual(links.broken(self.folder),
                         ["a.html: b.html#z leads to no place",
                          "a.html: c.html leads to no file"])

    def test_links_to_other_sites(self):
        self.write("served/there.html", "")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(
            Quiet, directory=self.folder / "served"))
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        self.write("site/a.html", f'<a href="{url}/there.html#part"></a>'
                                  f'<a href="{url}/gone.html"></a><a href="b.html"></a>')
        found = links.external(self.folder / "site")
        self.assertEqual(found, {f"{url}/there.html": "a.html",
                                 f"{url}/gone.html": "a.html"})
        with mock.patch.dict(os.environ, {"no_proxy": "127.0.0.1"}):
            self.assertEqual(links.unreachable(found), {f"{url}/gone.html": "404"})
        self.assertIn("404", links.GONE)

    def test_without_a_network_no_link_is_called_wrong(self):
        docs = script()
        self.write("a.html", '<a href="https://nowhere.invalid/"></a>')
        with mock.patch.object(docs.links, "answer", lambda url: "no such host"), \
                contextlib.redirect_stdout(io.StringIO()), \
                self.assertRaisesRegex(docs.Failed, "takes a network"):
            list(docs.follow(self.folder))

    def test_the_start_page_leads_to_the_newest_version(self):
        for version in ["0.9.0", "0.10.0", "0.2.0"]:
            self.write(f"{version}/docs/index.html", "")
        self.write("notes/index.html", "")
        script().write_versions(self.folder)
        self.assertIn('["0.2.0", "0.9.0", "0.10.0"]',
                      (self.folder / "versions.js").read_text(encoding="utf-8"))
        self.assertIn("url=0.10.0/docs/index.html",
                      (self.folder / "index.html").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
