// SPDX-License-Identifier: Apache-2.0
// The list of events.  It has elements for visible rows only.
//   make(tag, text, className)  returns an element
//   colour(life)                returns the class of a block
//   choose(life)                is called for a click on an event of a block
function EventList(model, make, colour, choose) {
  "use strict";
  var M = MemoryModel, data = model.data, ROW = 24;
  var box = document.getElementById("events"), listed = [], chosen = null;
  function row(i) {
    var index = listed[i], e = data.events[index];
    var life = typeof e[3] === "number" ? model.lives[e[3]] : null;
    var node = make("div", "", "event" + (life && chosen === life ?
      " chosen" : ""));
    node.style.top = i * ROW + "px";
    node.appendChild(make("span", M.time(model.times[index]), "n"));
    node.appendChild(make("span", data.actions[e[1]].replace(/_/g, " ")));
    node.appendChild(make("span", e[2] ? M.bytes(e[2]) : "", "n"));
    var name = make("span", life ? model.nameOf(life) : "");
    if (life) name.insertBefore(make("i", "", "key " + colour(life)),
      name.firstChild);
    node.appendChild(name);
    node.appendChild(make("span", life ? "0x" + life.address :
      e[3] ? "0x" + e[3] : "", "where"));
    if (life) {
      node.setAttribute("role", "button");
      node.addEventListener("click", function () { choose(life); });
    }
    return node;
  }
  function draw() {
    var first = Math.max(0, Math.floor(box.scrollTop / ROW) - 4);
    var last = Math.min(listed.length,
      first + Math.ceil((box.clientHeight || 300) / ROW) + 8);
    box.textContent = "";
    var all = make("div", "", "rows");
    all.style.height = listed.length * ROW + "px";
    for (var i = first; i < last; i++) all.appendChild(row(i));
    box.appendChild(all);
  }
  box.addEventListener("scroll", draw);
  return {
    // Shows the events of a time, or only those of `life`, which is marked.
    list: function (from, to, life, only) {
      chosen = life;
      listed = model.eventsBetween(from, to, only ? life : null);
      document.getElementById("event-count").textContent =
        M.count(listed.length) + " of " + M.count(data.events.length) +
        ", in the time that the chart shows";
      box.scrollTop = Math.min(box.scrollTop, listed.length * ROW);
      draw();
    },
    scrollTo: function (us) {
      var at = listed.indexOf(model.after(us) - 1);
      if (at >= 0) box.scrollTop = Math.max(0, at * ROW - 4 * ROW);
      draw();
    }
  };
}
