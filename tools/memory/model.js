// SPDX-License-Identifier: Apache-2.0
// The data of the snapshot, which page_data.cc writes, and questions about it.
// Does not use the page, so that tests/tools/memory_model_test.py can run it.
var MemoryModel = (function () {
  "use strict";

  function scaled(n, step, units) {
    var i = 0;
    while (n >= step && i + 1 < units.length) { n /= step; i++; }
    return (i ? Number(n.toPrecision(n >= 1000 ? 4 : 3)) : n) + " " + units[i];
  }
  function bytes(n) {
    return scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  }
  function time(us) { return scaled(us, 1000, ["us", "ms", "s"]); }
  function count(n) { return String(n).replace(/\B(?=(\d{3})+$)/g, ","); }

  // data.lives: [address, size, requested, stream, site, state]; address 0: it
  // follows from the blocks of the segment.  data.segments: [address, size,
  // stream, large, expandable, blocks]; a block is the index of a life, [size]
  // if it is free, [size, 1] if it is unmapped.  data.events: [microseconds
  // since the event before, action, bytes, life or address].
  function Model(data) {
    var self = this;
    this.data = data;
    this.series = data.base.in_use.length;  // the last one: all others
    this.lives = data.lives.map(function (l, i) {
      return { index: i, address: l[0], size: l[1], requested: l[2],
        stream: l[3], site: l[4], state: l[5], segment: null, place: -1,
        born: -1, freed: -1, gone: -1 };
    });
    this.segments = data.segments.map(function (s) {
      var segment = { address: s[0], size: s[1], stream: s[2], large: s[3] === 1,
        expandable: s[4] === 1, span: 0, blocks: [] };
      s[5].forEach(function (b, place) {
        var life = typeof b === "number" ? self.lives[b] : null;
        var block = { offset: segment.span, size: life ? life.size : b[0],
          life: life, hole: !life && b.length > 1, place: place };
        if (life) {
          life.segment = segment;
          life.place = place;
          life.address = address(s[0], segment.span);
        }
        segment.span += block.size;
        segment.blocks.push(block);
      });
      return segment;
    });
    this.times = new Float64Array(data.events.length);
    var now = 0;
    data.events.forEach(function (e, i) {
      now += e[0];
      self.times[i] = now;
      var life = typeof e[3] === "number" ? self.lives[e[3]] : null;
      if (!life) return;
      if (e[1] === 0) life.born = i;
      if (e[1] === 1) life.freed = i;
      if (e[1] === 2) life.gone = i;
    });
    this.duration = Math.max(1, now);
  }

  // Addresses have up to 64 bits; numbers are exact up to 53 bits.
  function address(base, offset) {
    return (BigInt("0x" + base) + BigInt(offset)).toString(16);
  }

  // The index of the first event that is later than `us`.
  Model.prototype.after = function (us) {
    var low = 0, high = this.times.length;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (this.times[middle] <= us) low = middle + 1; else high = middle;
    }
    return low;
  };

  Model.prototype.seriesOf = function (life) {
    var site = life.site < 0 ? null : this.data.sites[life.site];
    var owner = site ? site[0] : this.data.unknown;
    return Math.min(owner, this.series - 1);
  };
  Model.prototype.nameOf = function (life) {
    return life.site < 0 ? "(place unknown)" : this.data.sites[life.site][1];
  };

  function State(base) {
    this.in_use = base.in_use.slice();
    this.total = base.in_use.reduce(function (a, b) { return a + b; }, 0);
    this.pending = base.pending;
    this.reserved = base.reserved;
  }
  State.prototype.apply = function (model, event) {
    var n = event[2], life = model.lives[event[3]], owner;
    switch (event[1]) {
      case 0:
        owner = model.seriesOf(life);
        this.in_use[owner] += n;
        this.total += n;
        break;
      case 1:
        owner = model.seriesOf(life);
        n = Math.min(this.in_use[owner], life.born < 0 ? n : life.size);
        this.in_use[owner] -= n;
        this.total -= n;
        this.pending += n;
        break;
      case 2: this.pending -= Math.min(this.pending, n); break;
      case 3: case 5: this.reserved += n; break;
      case 4: case 6: this.reserved -= Math.min(this.reserved, n);
    }
  };

  // The time from `from` to `to` in `n` columns.  A column has its moment with
  // the most memory in use, the most memory in use or pending, and the most
  // reserved memory, so that it shows peaks that are shorter than a column.
  Model.prototype.columns = function (from, to, n) {
    var state = new State(this.data.base), events = this.data.events;
    var width = (to - from) / n, result = [], i = 0;
    while (i < events.length && this.times[i] < from) {
      state.apply(this, events[i++]);
    }
    for (var c = 0; c < n; c++) {
      var column = { in_use: state.in_use.slice(), total: state.total,
        top: state.total + state.pending, reserved: state.reserved,
        time: from + c * width };
      var end = c + 1 === n ? to : from + (c + 1) * width;
      while (i < events.length &&
             (this.times[i] < end || (c + 1 === n && this.times[i] <= to))) {
        state.apply(this, events[i]);
        if (state.total > column.total) {
          column.in_use = state.in_use.slice();
          column.total = state.total;
          column.time = this.times[i];
        }
        column.top = Math.max(column.top, state.total + state.pending);
        column.reserved = Math.max(column.reserved, state.reserved);
        i++;
      }
      result.push(column);
    }
    return result;
  };

  // Blocks that were in use at a moment, the largest first: of the owners with
  // one colour, or of all.
  Model.prototype.alive = function (us, series) {
    var last = this.after(us), model = this;
    return this.lives.filter(function (l) {
      return l.born < last && (l.freed < 0 || l.freed >= last) &&
        (l.freed >= 0 || l.born >= 0 || l.state === 1) &&
        (series === undefined || model.seriesOf(l) === series);
    }).sort(function (a, b) { return b.size - a.size; });
  };

  // Indices of the events from `from` to `to`, of one block or of all.
  Model.prototype.eventsBetween = function (from, to, life) {
    var found = [], end = this.after(to);
    for (var i = 0; i < end; i++) {
      if (this.times[i] < from) continue;
      if (life && this.data.events[i][3] !== life.index) continue;
      found.push(i);
    }
    return found;
  };

  // Details of a block in use, or of a freed one, as pairs [name, value].
  Model.prototype.describe = function (life) {
    var model = this;
    function at(event) { return time(model.times[event]); }
    var rows = [["allocated at", this.nameOf(life)]];
    var rest = life.requested ? life.size - life.requested : 0;
    rows.push(["size", bytes(life.size) + (rest > 0 ?
      ", " + bytes(rest) + " of it rounding" : "")]);
    var from = "from " + (life.born < 0 ? "before the history" :
      at(life.born)) + " to ";
    if (!this.times.length) {
      rows.push(["life", "in use; there is no history"]);
    } else if (life.freed < 0) {
      rows.push(["life", from + "the end"]);
    } else {
      rows.push(["life", from + at(life.freed) + (life.born < 0 ? "" : ": " +
        time(this.times[life.freed] - this.times[life.born]))]);
    }
    if (life.gone >= 0 && life.freed >= 0 &&
        this.times[life.gone] > this.times[life.freed]) {
      rows.push(["waited", "for streams to " + at(life.gone) + ": " +
        time(this.times[life.gone] - this.times[life.freed])]);
    }
    if (life.state === 2) {
      var waits = this.data.waits[life.index];
      rows.push(["waits", waits ? "for stream " + waits.join(", ") :
        "for a stream"]);
    }
    rows.push(["stream", life.stream === 0 ? "default stream" :
      "stream " + life.stream]);
    rows.push(["address", "0x" + life.address]);
    return rows;
  };

  // File and line, then the addresses of the stack, innermost first.
  Model.prototype.stack = function (life) {
    var site = life.site < 0 ? null : this.data.sites[life.site];
    if (!site) return [];
    var lines = site[2] ? [site[2] + ":" + site[3]] : [];
    return lines.concat(site[4] || []);
  };

  Model.prototype.blockText = function (block) {
    if (!block) return "end of the segment";
    if (block.life) {
      return this.nameOf(block.life) + ": " + bytes(block.size) +
        (block.life.state === 2 ? ", freed, waits" : "");
    }
    return (block.hole ? "nothing behind it: " : "free: ") + bytes(block.size);
  };
  // The neighbours of a block in its segment; undefined at the ends.
  Model.prototype.neighbours = function (segment, place) {
    return [segment.blocks[place - 1], segment.blocks[place + 1]];
  };

  // The step of round numbers for an axis with at most `most` of them.
  function timeStep(span, most) {
    for (var step = 1; ; step *= 10) {
      for (var k = 0; k < 3; k++) {
        if (span / (step * [1, 2, 5][k]) <= most) return step * [1, 2, 5][k];
      }
    }
  }
  function byteStep(top, most) {
    var step = 512;
    while (top / step > most) step *= 2;
    return step;
  }

  return { Model: Model, bytes: bytes, time: time, count: count,
    timeStep: timeStep, byteStep: byteStep };
})();
if (typeof module !== "undefined") module.exports = MemoryModel;
