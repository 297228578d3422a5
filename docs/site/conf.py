# SPDX-License-Identifier: Apache-2.0
"""The site's settings for Sphinx. scripts/docs builds the site, and sets DEVRT_SITE_*.

The source folder is a copy of the tree's documents, so that a link between documents
works on the site as it does in the tree. A link to another file of the tree becomes a
download.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import python_reference  # noqa: E402

project = "devrt"
copyright = "the devrt authors"
version = release = os.environ["DEVRT_SITE_VERSION"]

extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = ["docs/**", "*.md", "**/README.md", "tests/mutation/generated/results.md"]
exclude_patterns = ["docs/site/**"]
language = "en"
smartquotes = False  # they turn the two dashes of a flag into one long dash
# Each header's page declares the namespace, and C's typedefs repeat their structs.
suppress_warnings = ["duplicate_declaration.cpp"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "html_image"]
myst_heading_anchors = 4

breathe_projects = {"devrt": os.environ["DEVRT_SITE_DOXYGEN"]}
breathe_default_project = "devrt"
breathe_domain_by_extension = {"h": "cpp"}
breathe_show_include = True
breathe_show_define_initializer = True
breathe_show_enumvalue_initializer = True
cpp_id_attributes = ["DEVRT_EXPORT"]

autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "groupwise"

toc_object_entries = False

html_theme = "furo"
html_title = f"devrt {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# The versions are a script beside the folders of the versions: a browser reads a script
# from a file too, which it refuses for JSON.
html_js_files = ["../../versions.js", "versions_menu.js", "search_offline.js"]
html_sidebars = {"**": ["sidebar/brand.html", "sidebar/search.html",
                        "sidebar/versions.html", "sidebar/scroll-start.html",
                        "sidebar/navigation.html", "sidebar/scroll-end.html"]}
templates_path = ["_templates"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True


def setup(app):
    python_reference.setup(app)
