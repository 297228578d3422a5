// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_format.h"
#include "tools/bench/memory_figures.h"
#include "tools/common/json.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

std::string Number(double value, const std::string& unit) {
  const int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, value, unit);
}

std::string Rows(const std::vector<MemoryFigure>& rows) {
  Table table({"", "MEASURED", "BAR", ""});
  for (const MemoryFigure& row : rows) {
    const bool has_bar = row.bar.has_value();
    table.Add({row.text, row.value ? Number(*row.value, row.unit) : "-",
               has_bar ? absl::StrFormat("%s %s", row.at_least ? ">=" : "<=",
                                         Number(*row.bar, row.unit))
                       : "",
               row.has_verdict() ? row.met() ? "met" : "missed" : ""},
              row.note);
  }
  return table.Text(2);
}

std::string Traces(const std::vector<TraceFigure>& traces) {
  Table table(
      {"TRACE", "CALLS", "A CALL", "IN USE", "RESERVED", "SEGMENTS", "UNUSED"});
  for (const TraceFigure& trace : traces) {
    const std::string calls = absl::StrFormat("%d", trace.calls);
    if (!trace.ns) {
      table.Add({trace.name, calls, "-", "-", "-", "-", "-"}, trace.note);
      continue;
    }
    table.Add({trace.name, calls, Number(*trace.ns, "ns"),
               FormatBytes(trace.allocated), FormatBytes(trace.reserved),
               absl::StrFormat("%d", trace.segments),
               absl::StrFormat("%.1f %%", 100 * trace.fragmentation())});
  }
  return table.Text(2);
}

void Optional(std::optional<double> value, JsonWriter* json) {
  if (value) {
    json->Decimal(*value);
  } else {
    json->Null();
  }
}

}  // namespace

std::string MemoryFiguresText(const MemoryFigures& figures) {
  return absl::StrFormat(
      "devrt's allocators on %s (%s), %s\n\n%s\n"
      "Traces, the peaks of their first pass\n%s",
      figures.device, Printable(figures.device_name),
      Counted(figures.processors, "processor"), Rows(figures.rows),
      Traces(figures.traces));
}

std::string MemoryFiguresJson(const MemoryFigures& figures) {
  JsonWriter json;
  json.BeginObject().Key("device").String(figures.device);
  json.Key("name").String(figures.device_name);
  json.Key("processors").Unsigned(figures.processors);
  json.Key("rows").BeginArray();
  for (const MemoryFigure& row : figures.rows) {
    json.BeginObject().Key("name").String(row.name);
    json.Key("unit").String(row.unit).Key("value");
    Optional(row.value, &json);
    json.Key("bar");
    Optional(row.bar, &json);
    json.Key("met");
    if (row.has_verdict()) {
      json.Bool(row.met());
    } else {
      json.Null();
    }
    json.Key("note").String(row.note).End();
  }
  json.End().Key("traces").BeginArray();
  for (const TraceFigure& trace : figures.traces) {
    json.BeginObject().Key("name").String(trace.name);
    json.Key("calls").Unsigned(trace.calls).Key("call_ns");
    Optional(trace.ns, &json);
    json.Key("allocated_bytes").Unsigned(trace.allocated);
    json.Key("reserved_bytes").Unsigned(trace.reserved);
    json.Key("segments").Unsigned(trace.segments);
    json.Key("fragmentation").Decimal(trace.fragmentation());
    json.Key("note").String(trace.note).End();
  }
  json.End().End();
  return std::move(json).Finish();
}

}  // namespace devrt::tools
