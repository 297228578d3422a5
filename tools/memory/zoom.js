// SPDX-License-Identifier: Apache-2.0
// Zoom by buttons, keys and dragging: `svg` shows the part [from, to] of
// [0, whole] between x = left and x = right.
function Zoom(svg, whole, redraw) {
  "use strict";
  var view = { from: 0, to: whole, whole: whole, left: 0, right: 1 };
  function set(from, to) {
    var width = Math.min(view.whole, Math.max(to - from, view.least || 1));
    from = Math.max(0, Math.min(from, view.whole - width));
    view.from = from;
    view.to = from + width;
    redraw();
  }
  view.set = set;
  view.act = function (what) {
    var width = view.to - view.from, middle = view.from + width / 2;
    if (what === "in") set(middle - width / 4, middle + width / 4);
    if (what === "out") set(middle - width, middle + width);
    if (what === "back") set(view.from - width / 2, view.to - width / 2);
    if (what === "on") set(view.from + width / 2, view.to + width / 2);
    if (what === "all") set(0, view.whole);
  };
  view.at = function (event) {
    var box = svg.getBoundingClientRect();
    var x = (event.clientX - box.left) / box.width *
      svg.viewBox.baseVal.width;
    var part = (x - view.left) / (view.right - view.left);
    return view.from + Math.max(0, Math.min(1, part)) * (view.to - view.from);
  };
  view.x = function (value) {
    return view.left + (value - view.from) / (view.to - view.from) *
      (view.right - view.left);
  };
  var start = null, band = null;
  svg.addEventListener("pointerdown", function (event) {
    if (event.button === 0) start = { x: event.clientX, at: view.at(event) };
    view.dragged = false;
  });
  svg.addEventListener("pointermove", function (event) {
    if (!start || event.pointerType === "touch") return;
    if (Math.abs(event.clientX - start.x) < 5 && !view.dragged) return;
    view.dragged = true;
    var a = view.x(start.at), b = view.x(view.at(event));
    if (!band || !band.parentNode) {
      band = document.createElementNS(svg.namespaceURI, "rect");
      band.setAttribute("class", "band");
      svg.appendChild(band);
    }
    band.setAttribute("x", Math.min(a, b));
    band.setAttribute("width", Math.abs(a - b));
    band.setAttribute("y", 0);
    band.setAttribute("height", svg.viewBox.baseVal.height);
  });
  window.addEventListener("pointerup", function (event) {
    if (start && view.dragged) {
      var end = view.at(event);
      set(Math.min(start.at, end), Math.max(start.at, end));
    }
    start = null;
  });
  svg.addEventListener("dblclick", function () { view.act("all"); });
  svg.addEventListener("keydown", function (event) {
    var what = { "+": "in", "-": "out", ArrowLeft: "back", ArrowRight: "on",
      "0": "all" }[event.key];
    if (!what) return;
    event.preventDefault();
    view.act(what);
  });
  return view;
}
