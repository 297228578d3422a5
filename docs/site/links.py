# SPDX-License-Identifier: Apache-2.0
"""Finds the links of a built site that lead to no file or to no place in the file."""

import html.parser
import os
import pathlib
import urllib.parse


class Page(html.parser.HTMLParser):
    """The targets and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def broken(site):
    """One line for each link of the site that leads nowhere; links to other sites and
    to files beside the site's folder are not followed."""
    site = pathlib.Path(site).resolve()
    pages = {path: Page(path) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                target = pathlib.Path(os.path.normpath(
                    path.parent / urllib.parse.unquote(parts.path)))
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.is_relative_to(site):
                continue
            if not target.is_file():
                found.append(f"{path.relative_to(site)}: {link} leads to no file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                found.append(f"{path.relative_to(site)}: {link} leads to no place")
    return sorted(set(found))
