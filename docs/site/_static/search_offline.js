// SPDX-License-Identifier: Apache-2.0
// A browser lets no page from the file system fetch another one. The search would fetch
// the pages that it finds, to show excerpts of them, and leave an error for each.
if (window.location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
