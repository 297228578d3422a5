// SPDX-License-Identifier: Apache-2.0
// The menu of versions in the sidebar. versions.js beside the sites names them; without
// that file there is no menu.
document.addEventListener("DOMContentLoaded", () => {
  const versions = window.devrtVersions || [];
  const place = document.querySelector(".devrt-versions");
  if (versions.length < 2 || !place) return;
  const label = document.createElement("label");
  label.textContent = "Version ";
  const menu = document.createElement("select");
  const root = new URL("../", new URL(document.documentElement.dataset.content_root,
                                      window.location.href));
  for (const version of versions) {
    const option = new Option(version, new URL(`${version}/docs/index.html`, root).href);
    option.selected = place.dataset.version === version;
    menu.add(option);
  }
  menu.addEventListener("change", () => { window.location.href = menu.value; });
  label.append(menu);
  place.append(label);
});
