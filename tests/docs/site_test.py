# SPDX-License-Identifier: Apache-2.0
"""The built site in a browser: pages without errors, search, dark mode, phone width.

    build-docs/python/bin/python3 tests/docs/site_test.py   # after scripts/docs

DEVRT_BUILD names a build folder other than build/. The browser reads the site from the
file system, as a user does offline.
"""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

import links_test

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITES = ROOT / "build-docs/site"
BUILD = pathlib.Path(os.environ.get("DEVRT_BUILD", ROOT / "build"))
DESKTOP, PHONE = (1280, 900), (390, 844)
# Pages of each kind, the longest tables and the longest signatures among them.
PAGES = """
docs/index docs/tutorials/1-first-steps docs/tutorials/6-finish-a-backend
docs/concepts/architecture docs/reference/semantics docs/reference/python-api/devrt
docs/reference/cpp/arrays_array_h docs/reference/c/backends_abi_devrt_plugin_h
docs/reference/command-help docs/evidence/interop docs/decisions/README
README CHANGELOG genindex docs/coming-from/pytorch docs/evidence/hardware
docs/evidence/benchmarks
""".split()


def site():
    found = [path.parent for path in SITES.glob("*/docs")]
    if not found:
        sys.exit("site_test: there is no site; please run scripts/docs first")
    return max(found, key=lambda path: path.stat().st_mtime)


def browser(size):
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu",
                 "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.add_experimental_option("mobileEmulation", {
        "deviceMetrics": {"width": size[0], "height": size[1], "pixelRatio": 1.0,
                          "mobile": size == PHONE, "touch": size == PHONE}})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = shutil.which("chromium")
    return webdriver.Chrome(
        options, webdriver.ChromeService(shutil.which("chromedriver")))


class Site:
    size = DESKTOP

    @classmethod
    def setUpClass(cls):
        cls.site = site()
        cls.browser = browser(cls.size)
        cls.addClassCleanup(cls.browser.quit)

    def open(self, page, query=""):
        self.browser.get((self.site / f"{page}.html").as_uri() + query)

    def errors(self):
        return [entry["message"] for entry in self.browser.get_log("browser")
                if entry["level"] in ("SEVERE", "WARNING")]

    def wait_for(self, condition):
        return WebDriverWait(self.browser, 30).until(condition)

    def test_pages_have_no_errors_and_no_sideways_scrolling(self):
        for page in PAGES:
            with self.subTest(page):
                self.open(page)
                self.assertTrue(self.browser.find_element(By.TAG_NAME, "h1").text)
                self.assertEqual(self.errors(), [])
                width, shown = self.browser.execute_script(
                    "const e = document.documentElement;"
                    "return [e.scrollWidth, e.clientWidth];")
                self.assertLessEqual(width, shown)


class OnAPhone(Site, unittest.TestCase):
    size = PHONE

    def test_the_menu_opens(self):
        self.open("docs/index")
        drawer = self.browser.find_element(By.CLASS_NAME, "sidebar-drawer")
        self.assertLess(drawer.rect["x"], 0)
        self.browser.find_element(By.CSS_SELECTOR, ".nav-overlay-icon").click()
        self.wait_for(lambda _: drawer.rect["x"] >= 0)


class OnADesktop(Site, unittest.TestCase):

    def test_the_start_page_leads_to_the_site(self):
        self.browser.get((self.site.parent / "index.html").as_uri())
        self.wait_for(lambda b: b.current_url.endswith("docs/index.html"))

    def test_search_finds_pages(self):
        self.open("search", "?q=MultiStreamGuard")
        links = self.wait_for(
            lambda b: b.find_elements(By.CSS_SELECTOR, "#search-results li a"))
        self.assertTrue(links)
        self.wait_for(lambda b: "Search finished" in b.find_element(
            By.ID, "search-results").text)
        self.assertEqual(self.errors(), [])

    def test_dark_mode_changes_the_colours(self):
        self.open("docs/index")
        colours = set()
        for _ in range(3):  # light, dark, and what the system prefers
            self.browser.find_element(By.CSS_SELECTOR,
                                      ".content-icon-container .theme-toggle").click()
            colours.add(self.browser.find_element(
                By.TAG_NAME, "body").value_of_css_property("background-color"))
        self.assertEqual(len(colours), 2)

    def menu(self):
        """Returns the menu's versions, each with True if it is the selected one."""
        return [(option.text, option.is_selected()) for option in
                self.browser.find_elements(By.CSS_SELECTOR, ".devrt-versions option")]

    def test_the_menu_leads_to_another_version_and_back(self):
        docs = links_test.script()
        other = self.site.parent / "0.0.0-test"
        self.addCleanup(docs.write_versions, self.site.parent)
        self.addCleanup(shutil.rmtree, other)
        with tempfile.TemporaryDirectory() as source:
            page = pathlib.Path(source) / "docs/index.md"
            page.parent.mkdir()
            page.write_text("# The other version\n", encoding="utf-8")
            package, _ = docs.package_of(BUILD)
            docs.write_pages(sys.executable, source, other, other.name, package)
        self.open("docs/concepts/architecture")
        versions = dict(self.menu())
        self.assertEqual(versions, {other.name: False, self.site.name: True})
        menu = self.browser.find_element(By.CSS_SELECTOR, ".devrt-versions select")
        Select(menu).select_by_visible_text(other.name)
        self.wait_for(lambda b: b.current_url == (other / "docs/index.html").as_uri())
        self.assertEqual(dict(self.menu()), {other.name: True, self.site.name: False})


if __name__ == "__main__":
    unittest.main()
