# SPDX-License-Identifier: Apache-2.0
"""Finds the links of a built site that lead nowhere: inside the site, or to others."""

import concurrent.futures
import html.parser
import os
import pathlib
import urllib.error
import urllib.parse
import urllib.request

GONE = ("404", "410", "no such host")
SECONDS = 20  # for an answer
AT_ONCE = 8


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


def external(site):
    """Returns {address without its fragment: a page that links to it}."""
    site = pathlib.Path(site).resolve()
    found = {}
    for path in sorted(site.rglob("*.html")):
        for link in Page(path).links:
            if urllib.parse.urlsplit(link).scheme in ("http", "https"):
                found.setdefault(urllib.parse.urldefrag(link).url,
                                 str(path.relative_to(site)))
    return found


def answer(url):
    """Returns why an address gives no page, or "" if it gives one."""
    request = urllib.request.Request(url, headers={"User-Agent": "Mozilla/5.0 (devrt)"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):
            return ""
    except urllib.error.HTTPError as error:
        return str(error.code)
    except urllib.error.URLError as error:
        return "no such host" if "Name or service" in str(error) else str(error.reason)
    except OSError as error:
        return str(error)


def unreachable(urls):
    """Returns {address: why} of those that give no page. GONE has the reasons that say
    that there is none; a server may refuse a program for other reasons."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(urls, pool.map(answer, urls)))
    return {url: why for url, why in found.items() if why}
