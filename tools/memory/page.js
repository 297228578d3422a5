// SPDX-License-Identifier: Apache-2.0
// The page: chart, map, tooltip, chosen block and zoom.  model.js has the data,
// event_list.js the list of events.
if (typeof document !== "undefined") (function () {
  "use strict";
  var M = MemoryModel;
  var model = new M.Model(
    JSON.parse(document.getElementById("data").textContent));
  var data = model.data;
  function byId(id) { return document.getElementById(id); }
  function make(tag, text, name) {
    var node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (name) node.className = name;
    return node;
  }
  function draw(parent, tag, attributes, text) {
    var node = document.createElementNS(parent.namespaceURI, tag);
    for (var key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }
  function colour(life) {
    if (life.state === 2) return "pending";
    var series = model.seriesOf(life);
    return series + 1 < model.series ? "o" + series : "others";
  }

  // ---- The tooltip ----

  var tip = byId("tip");
  function show(event, text) {
    tip.textContent = text;
    tip.hidden = false;
    var x = event.clientX + 14, y = event.clientY + 14;
    if (y + tip.offsetHeight > innerHeight - 8) {
      y = event.clientY - tip.offsetHeight - 10;
    }
    tip.style.left =
      Math.max(8, Math.min(x, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(8, y) + "px";
  }
  function hide() { tip.hidden = true; }

  function textOf(segment, place) {
    var block = segment.blocks[place];
    if (!block.life) return model.blockText(block);
    var rows = model.describe(block.life).map(function (row) {
      return row[0] + ": " + row[1];
    });
    var beside = model.neighbours(segment, place);
    rows.push("before it: " + model.blockText(beside[0] || null).replace(
      "end of", "start of"));
    rows.push("behind it: " + model.blockText(beside[1] || null));
    return rows.concat(model.stack(block.life).slice(0, 8)).join("\n");
  }

  // ---- Zoom ----

  Array.prototype.forEach.call(
    document.querySelectorAll("[data-zoom]"), function (button) {
      button.addEventListener("click", function () {
        var view = button.closest("#segment") ? stripView : chartView;
        if (view) view.act(button.getAttribute("data-zoom"));
      });
    });

  // ---- The chosen block ----

  var chosen = null;  // {segment, place, life}; a freed block has life only
  function choose(segment, place, life) {
    chosen = { segment: segment, place: place, life: life };
    showBlock();
    if (segment) showSegment(segment, place);
    redraw();
  }
  function chooseLife(life) { choose(life.segment, life.place, life); }

  function button(text, name, act) {
    var node = make("button", text, name);
    node.addEventListener("click", act);
    return node;
  }
  function openPanel() {
    var panel = byId("block");
    panel.textContent = "";
    panel.classList.add("open");
    var close = button("\u00d7", "close", function () {
      panel.classList.remove("open");
      panel.textContent = "";
      chosen = null;
      if (only) only.checked = false;
      redraw();
    });
    close.setAttribute("aria-label", "close");
    panel.appendChild(close);
    return panel;
  }
  function showBlock() {
    var panel = openPanel(), life = chosen.life, segment = chosen.segment;
    var table = make("table");
    function row(what, value) {
      var line = table.insertRow();
      line.appendChild(make("th", what));
      var cell = make("td");
      cell.appendChild(typeof value === "string" ?
        document.createTextNode(value) : value);
      line.appendChild(cell);
    }
    var block = segment ? segment.blocks[chosen.place] : null;
    var heading = make("h3");
    if (life) heading.appendChild(make("i", "", "key " + colour(life)));
    heading.appendChild(document.createTextNode(
      life ? model.nameOf(life) + ", " + M.bytes(life.size) :
        model.blockText(block)));
    panel.appendChild(heading);
    if (life) {
      model.describe(life).slice(1).forEach(function (r) { row(r[0], r[1]); });
    }
    if (segment) {
      row("segment", M.bytes(segment.size) + " at 0x" + segment.address +
        ", offset " + M.bytes(block.offset));
      model.neighbours(segment, chosen.place).forEach(function (other, i) {
        row(i === 0 ? "before it" : "behind it", other ?
          button(model.blockText(other), "link", function () {
            choose(segment, other.place, other.life);
          }) : i === 0 ? "start of the segment" : "end of the segment");
      });
    } else {
      row("segment", "no block of the end; its address may be in use again");
    }
    var stack = life ? model.stack(life) : [];
    if (life) {
      var lines = make("ol", "", "stack");
      stack.forEach(function (line) { lines.appendChild(make("li", line)); });
      row("stack", stack.length ? lines : "not recorded");
    }
    panel.appendChild(table);
  }
  function mark() {
    Array.prototype.forEach.call(
      document.querySelectorAll("#map .chosen"), function (node) {
        node.classList.remove("chosen");
      });
    if (!chosen || !chosen.segment) return;
    var index = model.segments.indexOf(chosen.segment);
    var node = document.querySelector("#map g[data-g='" + index +
      "'] rect[data-p='" + chosen.place + "']");
    if (node) node.classList.add("chosen");
  }

  // ---- The map, and one segment of it ----

  var map = byId("map"), strip = byId("strip");
  var shownSegment = null, stripView = null;
  function atMap(event) {
    var group = event.target.parentNode;
    if (!group || !group.getAttribute || !group.hasAttribute("data-g")) {
      return null;
    }
    return { group: group, segment: model.segments[group.getAttribute("data-g")],
      place: event.target.getAttribute("data-p") };
  }
  if (map) {
    map.addEventListener("pointermove", function (event) {
      var found = atMap(event);
      if (!found) return hide();
      var text = found.place !== null ?
        textOf(found.segment, Number(found.place)) :
        event.target.getAttribute("data-b");
      show(event, (text ? text + "\n" : "") +
        found.group.getAttribute("data-s") + "\nclick to look into it");
    });
    map.addEventListener("pointerleave", hide);
    map.addEventListener("click", function (event) {
      var found = atMap(event);
      if (!found) return;
      hide();
      if (found.place !== null) {
        var block = found.segment.blocks[Number(found.place)];
        choose(found.segment, block.place, block.life);
      } else {
        showSegment(found.segment, -1);
      }
    });
  }
  function showSegment(segment, place) {
    byId("segment").hidden = false;
    document.querySelector("#segment h3").textContent = M.bytes(segment.size) +
      " segment at 0x" + segment.address + ", " +
      M.count(segment.blocks.length) +
      (segment.blocks.length === 1 ? " block" : " blocks");
    if (!stripView) {
      stripView = new Zoom(strip, segment.span, drawStrip);
      strip.addEventListener("pointermove", function (event) {
        show(event, textOf(shownSegment, placeAt(stripView.at(event))));
      });
      strip.addEventListener("pointerleave", hide);
      strip.addEventListener("click", function (event) {
        if (stripView.dragged) return;
        var at = placeAt(stripView.at(event));
        choose(shownSegment, at, shownSegment.blocks[at].life);
      });
    }
    stripView.whole = segment.span;
    stripView.least = 512;
    var block = segment.blocks[place];
    var known = shownSegment === segment && (!block ||
      (block.offset >= stripView.from &&
       block.offset + block.size <= stripView.to));
    shownSegment = segment;
    if (known) return drawStrip();
    // Zoom in until the block can be seen between its neighbours.
    if (block && block.size * 40 < segment.span) {
      stripView.set(block.offset - block.size * 10,
        block.offset + block.size * 11);
    } else {
      stripView.set(0, segment.span);
    }
  }
  function placeAt(offset) {
    var blocks = shownSegment.blocks, low = 0, high = blocks.length - 1;
    while (low < high) {
      var middle = (low + high + 1) >> 1;
      if (blocks[middle].offset <= offset) low = middle; else high = middle - 1;
    }
    return low;
  }
  function drawStrip() {
    var width = Math.max(320, strip.clientWidth);
    strip.setAttribute("viewBox", "0 0 " + width + " 62");
    strip.textContent = "";
    stripView.left = 0;
    stripView.right = width;
    var last = placeAt(stripView.to), drawn = -1;
    for (var i = placeAt(stripView.from); i <= last; i++) {
      var b = shownSegment.blocks[i];
      var x = Math.max(0, stripView.x(b.offset));
      var end = Math.min(width, stripView.x(b.offset + b.size));
      var is = chosen && chosen.segment === shownSegment && chosen.place === i;
      // The first of many blocks in one pixel stands for all.
      if (end < drawn + 0.5 && !is) continue;
      drawn = end;
      draw(strip, "rect", { x: x, y: is ? 2 : 5, height: is ? 34 : 28,
        width: Math.max(0.6, end - x - (end - x > 4 ? 0.7 : 0)),
        "class": (b.life ? colour(b.life) : b.hole ? "hole" : "free") +
          (is ? " chosen" : "") });
      var label = b.life ? M.bytes(b.size) : "free " + M.bytes(b.size);
      if (end - x > label.length * 7.2 + 6) {
        draw(strip, "text", { x: (x + end) / 2, y: 24, "text-anchor": "middle",
          "class": b.life ? "on-colour" : "axis" }, label);
      }
    }
    [stripView.from, stripView.to].forEach(function (offset, i) {
      draw(strip, "text", { x: i ? width : 0, y: 56, "class": "axis",
        "text-anchor": i ? "end" : "start" },
      (i ? "to " : "offset ") + M.bytes(Math.round(offset)));
    });
  }

  // ---- The chart ----

  var chart = byId("chart"), chartView = null, columns = [];
  var HEIGHT = 300, TOP = 16, BOTTOM = 262;
  function drawChart() {
    var width = Math.max(320, chart.clientWidth), left = 70;
    var most = 1, right = width - 12;
    chart.setAttribute("viewBox", "0 0 " + width + " " + HEIGHT);
    chart.textContent = "";
    chartView.left = left;
    chartView.right = right;
    // At least one column for each pixel of the screen.
    var n = Math.ceil((right - left) * Math.max(1, devicePixelRatio || 1));
    columns = model.columns(chartView.from, chartView.to, n);
    columns.forEach(function (c) { most = Math.max(most, c.top, c.reserved); });
    function x(column) { return left + column * (right - left) / n; }
    function y(value) { return BOTTOM - value / most * (BOTTOM - TOP); }
    var step = M.byteStep(most, 5);
    for (var value = 0; value <= most; value += step) {
      draw(chart, "line", { "class": "grid", x1: left, x2: right, y1: y(value),
        y2: y(value) });
      draw(chart, "text", { "class": "axis", x: left - 8, y: y(value) + 4,
        "text-anchor": "end" }, value ? M.bytes(value) : "0");
    }
    var span = chartView.to - chartView.from;
    var ticks = M.timeStep(span, Math.max(2, Math.floor(width / 110)));
    for (var t = Math.ceil(chartView.from / ticks) * ticks; t <= chartView.to;
      t += ticks) {
      draw(chart, "line", { "class": "tick", x1: chartView.x(t),
        x2: chartView.x(t), y1: BOTTOM, y2: BOTTOM + 5 });
      draw(chart, "text", { "class": "axis", x: chartView.x(t),
        y: BOTTOM + 19, "text-anchor": chartView.x(t) > right - 30 ? "end" :
          "middle" }, t ? M.time(t) : "0");
    }
    draw(chart, "text", { "class": "axis", x: right, y: BOTTOM + 34,
      "text-anchor": "end" }, "time since the first event");
    // A curve with one step for each column.
    function steps(of) {
      var path = "", last = null;
      columns.forEach(function (c, i) {
        var at = y(of(c)).toFixed(1);
        if (at === last) return;
        path += (i ? "H" + x(i).toFixed(2) + "V" : "M" + left + " ") + at;
        last = at;
      });
      return path + "H" + right;
    }
    function area(name, low, high) {
      if (columns.every(function (c) { return low(c) === high(c); })) return;
      var path = steps(high), back = "", last = null;
      for (var i = n; i-- > 0;) {
        var at = y(low(columns[i])).toFixed(1);
        if (at !== last) back += (i + 1 < n ? "H" + x(i + 1).toFixed(2) : "") +
          "V" + at;
        last = at;
      }
      draw(chart, "path", { "class": name, d: path + back + "H" + left + "Z" });
    }
    function below(c, series) {
      var sum = 0;
      for (var i = 0; i < series; i++) sum += c.in_use[i];
      return sum;
    }
    for (var s = 0; s < model.series; s++) (function (s) {
      area(s + 1 < model.series ? "o" + s : "others",
        function (c) { return below(c, s); },
        function (c) { return below(c, s + 1); });
    })(s);
    area("pending", function (c) { return c.total; },
      function (c) { return c.top; });
    draw(chart, "path", { "class": "reserved",
      d: steps(function (c) { return c.reserved; }) });
    if (data.peak[1] >= chartView.from && data.peak[1] <= chartView.to) {
      draw(chart, "circle", { "class": "peak", r: 4, cy: y(data.peak[0]),
        cx: chartView.x(data.peak[1]) });
    }
    data.events.forEach(function (e, i) {
      var when = model.times[i];
      if (e[1] !== 8 || when < chartView.from || when > chartView.to) return;
      var group = draw(chart, "g", { "class": "failure" });
      var at = chartView.x(when);
      draw(group, "line", { x1: at, x2: at, y1: TOP, y2: BOTTOM });
      draw(group, "path", { d: "M" + at + " " + TOP + "l-6 -10h12z" });
      draw(group, "title", {}, "out of memory: " + M.bytes(e[2]) +
        " asked for");
    });
    drawLife();
    cursor = draw(chart, "line", { "class": "cursor", y1: TOP, y2: BOTTOM,
      visibility: "hidden" });
  }
  // Dims the time outside of the chosen block's life.
  function drawLife() {
    if (!chosen || !chosen.life) return;
    var life = chosen.life;
    var from = life.born < 0 ? 0 : model.times[life.born];
    var to = life.freed < 0 ? model.duration : model.times[life.freed];
    if (to < chartView.from || from > chartView.to) return;
    var a = Math.max(chartView.left, chartView.x(from));
    var b = Math.min(chartView.right, chartView.x(to));
    [[chartView.left, a], [Math.max(a + 2, b), chartView.right]].forEach(
      function (other) {
        draw(chart, "rect", { "class": "other-time", x: other[0], y: TOP,
          width: Math.max(0, other[1] - other[0]), height: BOTTOM - TOP });
      });
    draw(chart, "rect", { "class": colour(life), x: a, y: BOTTOM - 5,
      width: Math.max(2, b - a), height: 5 });
  }
  var cursor = null;
  // The column under the pointer, and the series there.
  function atChart(event) {
    var part = (chartView.at(event) - chartView.from) /
      (chartView.to - chartView.from);
    var column = columns[Math.min(columns.length - 1,
      Math.floor(part * columns.length))];
    var most = 1, box = chart.getBoundingClientRect(), sum = 0;
    columns.forEach(function (c) { most = Math.max(most, c.top, c.reserved); });
    var y = (event.clientY - box.top) / box.height * HEIGHT;
    var value = (BOTTOM - y) / (BOTTOM - TOP) * most;
    for (var s = 0; s < model.series; s++) {
      sum += column.in_use[s];
      if (value >= 0 && value < sum) {
        return { column: column, series: s };
      }
    }
    return { column: column, series: -1 };
  }
  if (chart) {
    chartView = new Zoom(chart, model.duration, function () {
      drawChart();
      listEvents();
    });
    chart.addEventListener("pointermove", function (event) {
      var at = atChart(event), c = at.column;
      var x = chartView.x(chartView.at(event));
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      cursor.setAttribute("visibility", "visible");
      var owner = at.series < 0 ? "" : "\n" + (data.owners[at.series] ||
        "all others") + " " + M.bytes(c.in_use[at.series]) +
        "\nclick for its blocks";
      show(event, M.time(Math.round(c.time)) + "\nin use " +
        M.bytes(c.total) + (c.top > c.total ? "\nwith what waits " +
        M.bytes(c.top) : "") + "\nreserved " + M.bytes(c.reserved) + owner);
    });
    chart.addEventListener("pointerleave", function () {
      if (cursor) cursor.setAttribute("visibility", "hidden");
      hide();
    });
    chart.addEventListener("click", function (event) {
      if (chartView.dragged) return;
      var at = atChart(event);
      hide();
      listBlocks(at.column.time, at.series);
      if (events) events.scrollTo(at.column.time);
    });
  }

  // The list of blocks in use at a moment, from which the user chooses.
  function listBlocks(us, series) {
    var all = model.alive(us, series < 0 ? undefined : series);
    var panel = openPanel(), MOST = 40;
    panel.appendChild(make("h3", (series < 0 ? "All blocks" :
      "Blocks of " + (data.owners[series] || "all others")) + " at " +
      M.time(Math.round(us)) + ": " + M.count(all.length)));
    var list = make("div", "", "blocks");
    all.slice(0, MOST).forEach(function (life) {
      var since = life.born < 0 ? "before the history" :
        M.time(model.times[life.born]);
      var node = button(model.nameOf(life) + ": " + M.bytes(life.size) +
        ", since " + since, "link", function () { chooseLife(life); });
      node.insertBefore(make("i", "", "key " + colour(life)), node.firstChild);
      list.appendChild(node);
    });
    panel.appendChild(list);
    if (all.length > MOST) {
      panel.appendChild(make("p", "and " + M.count(all.length - MOST) +
        " smaller ones", "note"));
    }
    if (all.length === 1) chooseLife(all[0]);
  }

  // ---- The events ----

  var only = byId("only-block");
  var events = byId("events") && EventList(model, make, colour, chooseLife);
  function listEvents() {
    if (!events) return;
    var life = chosen ? chosen.life : null;
    events.list(chartView.from, chartView.to, life, only.checked);
  }
  if (events) only.addEventListener("change", listEvents);

  function redraw() {
    mark();
    if (only) only.disabled = !chosen || !chosen.life;
    if (chart) { drawChart(); listEvents(); }
    if (shownSegment) drawStrip();
  }
  window.addEventListener("resize", redraw);
  redraw();
})();
