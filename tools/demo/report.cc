// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/report.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "devrt/runtime/device.h"
#include "tools/common/describe.h"
#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/timeline/timeline.h"

namespace devrt::tools {
namespace {

constexpr size_t kIndent = 3;

std::string Step(int number, std::string_view title) {
  return absl::StrFormat("%d. %s\n", number, title);
}

std::string Paragraph(std::string_view text) {
  return std::string(kIndent, ' ') + Wrap(text, kTextWidth, kIndent) + "\n";
}

std::string Names(const std::vector<Device>& devices) {
  std::vector<std::string> names;
  for (Device device : devices) names.push_back(device.name());
  if (names.size() == 1) return names[0];
  const std::string last = std::move(names.back());
  names.pop_back();
  return absl::StrJoin(names, ", ") + " and " + last;
}

// Says which devices have peer access to the next device.
std::string Connections(const Pipeline& pipeline) {
  const std::vector<Device>& devices = pipeline.devices();
  std::string exceptions;
  for (size_t d = 0; d + 1 < devices.size(); ++d) {
    if (pipeline.direct(d)) continue;
    exceptions += absl::StrFormat(
        "%s cannot directly reach the memory of %s; copies work all the same. ",
        devices[d].name(), devices[d + 1].name());
  }
  if (!exceptions.empty() || devices.size() == 1) return exceptions;
  return devices.size() == 2
             ? absl::StrFormat("%s directly reaches the memory of %s.",
                               devices[0].name(), devices[1].name())
             : "Each device directly reaches the memory of the next.";
}

// Adds a row for each stream of device `d`: its work on chunk n, and the work
// that it waits for.  The name of another device's stream has the device before
// it.
void AddLanes(const Pipeline& pipeline, size_t d, Table* table) {
  const std::vector<Device>& devices = pipeline.devices();
  const bool first = d == 0;
  const bool last = d + 1 == devices.size();
  const std::string here = devices[d].name();
  if (first) {
    table->Add({here, "copy in", "host to device",
                last ? "copy out n-2" : "send n-2"});
  }
  table->Add({here, "compute", pipeline.WorkText(d),
              first ? "copy in n" : devices[d - 1].name() + " send n"});
  if (last) {
    table->Add({here, "copy out", "device to host", "compute n"});
    if (pipeline.abilities().host_functions) {
      table->Add({"", "", "host function", "(same stream)"});
    }
    return;
  }
  const std::string next = devices[d + 1].name();
  const bool next_is_last = d + 2 == devices.size();
  table->Add({here, "send", "peer copy to " + next,
              absl::StrFormat("compute n, %s %s n-2", next,
                              next_is_last ? "copy out" : "send")});
}

// The features that the backend lacks, and what the demo does without them.
std::string LacksText(Backend backend, const Abilities& abilities) {
  std::string text;
  if (!abilities.kernels) {
    text += "It runs no kernels that are host code: fills stand in for them. ";
  }
  if (!abilities.pinned_memory) {
    text += "It has no pinned host memory: copies may wait. ";
  }
  if (!abilities.host_functions) {
    text += "It has no host functions: none runs when a chunk is back. ";
  }
  if (text.empty()) return "";
  return Paragraph(
      absl::StrFormat("Backend %s has not all that the demo uses. "
                      "%s",
                      backend.name(), text));
}

void WriteOperation(const Timeline& timeline, const TimelineOp& op,
                    JsonWriter* json) {
  const TimelineRow& row = timeline.rows[op.row];
  json->BeginObject().Key("name").String(op.name);
  json->Key("kind").String(StyleOf(op.kind).name);
  json->Key("chunk").Number(op.chunk).Key("device").String(row.group);
  json->Key("stream").String(row.name).Key("bytes").Unsigned(op.bytes);
  json->Key("begin_ns").Unsigned(op.begin_ns);
  json->Key("end_ns").Unsigned(op.end_ns);
  json->Key("waits_for").BeginArray();
  for (size_t wait : op.waits) json->Unsigned(wait);
  json->End().End();
}

void WriteResult(const Pipeline& pipeline, JsonWriter* json) {
  const std::optional<Difference> difference = pipeline.Verify();
  json->Key("verified").Bool(!difference);
  if (!difference) return;
  json->Key("first_difference").BeginObject();
  json->Key("index").Unsigned(difference->index);
  json->Key("found").Unsigned(difference->found);
  json->Key("expected").Unsigned(difference->expected).End();
}

void WritePath(const char* key, const std::string& path, JsonWriter* json) {
  json->Key(key);
  if (path.empty()) {
    json->Null();
  } else {
    json->String(path);
  }
}

}  // namespace

std::string PipelineText(const std::vector<Device>& devices, size_t count) {
  return absl::StrFormat("devrt demo: %s in %d chunks through %s",
                         FormatBytes(count * sizeof(uint32_t)), kChunks,
                         Names(devices));
}

std::string BackendText(Backend backend) {
  std::string source = "linked in";
  for (const LoadAttempt& attempt : LoadReport()) {
    if (attempt.result == LoadAttempt::Result::kLoaded &&
        attempt.backend == backend.name()) {
      source = attempt.source;
    }
  }
  return Step(1, "The backend") +
         Paragraph(absl::StrFormat("%s %s by %s. Found through: %s. Loaded:",
                                   backend.name(), Printable(backend.version()),
                                   Printable(backend.vendor()), source)) +
         std::string(kIndent, ' ') + Printable(PathOrLinkedIn(backend.path())) +
         "\n\n";
}

std::string DeviceText(const std::vector<Device>& devices) {
  std::string text = Step(2, "The devices");
  for (Device device : devices) {
    const absl::StatusOr<DeviceProperties> p = device.Properties();
    text += std::string(kIndent, ' ') + device.name();
    if (p.ok()) {
      text += absl::StrFormat("  %s, %s, %s", Printable(p->name),
                              FormatBytes(p->total_memory),
                              Counted(p->copy_engines, "copy engine"));
    }
    text += "\n";
  }
  return text + "\n";
}

std::string PlanText(const Pipeline& pipeline) {
  const std::vector<Device>& devices = pipeline.devices();
  Table table({"DEVICE", "STREAM", "DOES WITH CHUNK n", "WAITS FOR"});
  for (size_t d = 0; d < devices.size(); ++d) AddLanes(pipeline, d, &table);
  return Step(3, "The plan") +
         Paragraph(absl::StrFormat(
             "%d numbers (%s) in %s host memory go through %s, in %d "
             "chunks, and come back. Each device has %d buffers of %s, so that "
             "one chunk is copied while another is worked on. %s",
             pipeline.count(), FormatBytes(pipeline.count() * sizeof(uint32_t)),
             pipeline.abilities().pinned_memory ? "pinned" : "plain",
             Names(devices), kChunks, kBuffers,
             FormatBytes(pipeline.chunk_bytes()), Connections(pipeline))) +
         LacksText(devices.front().backend(), pipeline.abilities()) +
         Paragraph(
             "Each stream does one kind of work. Events order the streams, and "
             "nothing else does; n-2 had the same buffer before:") +
         "\n" + table.Text(kIndent) + "\n";
}

std::string TimelineText(const Pipeline& pipeline, const Terminal& terminal) {
  const Timeline& timeline = pipeline.timeline();
  return Step(4, "What ran when") +
         Paragraph(absl::StrFormat(
             "All %d operations were submitted %s, each under a StreamGuard; "
             "the thread's current device and streams are as they were before. "
             "Times are those of %s.",
             timeline.ops.size(),
             pipeline.waited() ? "one after another, each once the one before "
                                 "it was complete"
                               : "without waiting for any",
             timeline.clock)) +
         "\n" + TerminalTimeline(timeline, terminal) + "\n";
}

std::string ResultText(const Pipeline& pipeline) {
  const Timeline& timeline = pipeline.timeline();
  const std::optional<Difference> difference = pipeline.Verify();
  std::string text = Step(5, "The result");
  if (difference) {
    text += Paragraph("WRONG: " + DifferenceText(*difference, pipeline));
  } else {
    text += Paragraph(absl::StrFormat(
        "Verified: all %d numbers equal what the host computed serially%s.",
        pipeline.count(),
        pipeline.abilities().host_functions
            ? absl::StrFormat(", and %d of %d host functions ran",
                              pipeline.host_functions_run(), kChunks)
            : ""));
  }
  return text +
         Paragraph(absl::StrFormat(
             "It took %s. One after another the operations would have taken "
             "%s: on average %.2f ran at a time.",
             FormatTime(timeline.elapsed_ns()), FormatTime(timeline.busy_ns()),
             timeline.overlap())) +
         "\n";
}

std::string DifferenceText(const Difference& difference,
                           const Pipeline& pipeline) {
  const size_t chunk_values = pipeline.chunk_bytes() / sizeof(uint32_t);
  return absl::StrFormat(
      "number %d of %d, in chunk %d, came out as %d and not as %d",
      difference.index, pipeline.count(), difference.index / chunk_values + 1,
      difference.found, difference.expected);
}

std::string DemoJson(Backend backend, const Pipeline& pipeline,
                     const WrittenFiles& files) {
  const Timeline& timeline = pipeline.timeline();
  JsonWriter json;
  json.BeginObject().Key("devrt").String(DEVRT_VERSION);
  json.Key("backend").BeginObject().Key("name").String(backend.name());
  WriteBackend(backend, &json);
  json.End();
  json.Key("devices").BeginArray();
  for (Device device : pipeline.devices()) json.String(device.name());
  json.End();
  json.Key("bytes").Unsigned(pipeline.count() * sizeof(uint32_t));
  json.Key("chunks").Number(kChunks);
  WriteResult(pipeline, &json);
  json.Key("host_functions_run").Number(pipeline.host_functions_run());
  json.Key("lacks").BeginArray();
  const Abilities& abilities = pipeline.abilities();
  if (!abilities.kernels) json.String("kernels");
  if (!abilities.pinned_memory) json.String("pinned_memory");
  if (!abilities.host_functions) json.String("host_functions");
  json.End();
  json.Key("clock").String(timeline.clock);
  json.Key("elapsed_ns").Unsigned(timeline.elapsed_ns());
  json.Key("busy_ns").Unsigned(timeline.busy_ns());
  json.Key("overlap").Decimal(timeline.overlap());
  json.Key("operations").BeginArray();
  for (const TimelineOp& op : timeline.ops) {
    WriteOperation(timeline, op, &json);
  }
  json.End();
  WritePath("svg", files.svg, &json);
  WritePath("trace", files.trace, &json);
  json.End();
  return std::move(json).Finish();
}

}  // namespace devrt::tools
