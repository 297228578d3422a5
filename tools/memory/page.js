// SPDX-License-Identifier: Apache-2.0
// What is under the pointer.  Without this the page lacks nothing but that.
(function () {
  "use strict";
  var tip = document.getElementById("tip");
  function show(event, text) {
    tip.textContent = text;
    tip.hidden = false;
    var x = event.clientX + 14, y = event.clientY + 14;
    tip.style.left = Math.min(x, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(y, innerHeight - tip.offsetHeight - 8) + "px";
  }
  function hide() { tip.hidden = true; }
  function bytes(n) {
    var units = ["B", "KiB", "MiB", "GiB", "TiB"], i = 0;
    while (n >= 1024 && i < 4) { n /= 1024; i++; }
    return (i ? n.toFixed(2) : n) + " " + units[i];
  }
  function time(us) {
    return us < 1000 ? us + " us" : us < 1e6 ? (us / 1e3).toFixed(2) + " ms" :
      (us / 1e6).toFixed(3) + " s";
  }
  var map = document.getElementById("map");
  if (map) {
    map.addEventListener("mousemove", function (event) {
      var block = event.target.getAttribute("data-b");
      var segment = event.target.parentNode.getAttribute("data-s");
      if (segment) show(event, (block ? block + "\n" : "") + segment);
      else hide();
    });
    map.addEventListener("mouseleave", hide);
  }
  var chart = document.getElementById("chart");
  if (!chart) return;
  var moments = JSON.parse(document.getElementById("moments").textContent);
  var cursor = document.getElementById("cursor");
  chart.addEventListener("mousemove", function (event) {
    var box = chart.getBoundingClientRect();
    var x = (event.clientX - box.left) / box.width *
      chart.viewBox.baseVal.width;
    var low = 0, high = moments.length - 1;
    while (low < high) {
      var middle = (low + high + 1) >> 1;
      if (moments[middle][0] <= x) low = middle; else high = middle - 1;
    }
    var m = moments[low];
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    show(event, time(m[1]) + "\nin use " + bytes(m[2]) +
      (m[3] ? "\nwaiting " + bytes(m[3]) : "") + "\nreserved " + bytes(m[4]));
  });
  chart.addEventListener("mouseleave", function () {
    cursor.setAttribute("visibility", "hidden");
    hide();
  });
})();
