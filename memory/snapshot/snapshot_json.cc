// SPDX-License-Identifier: Apache-2.0
//
// ToJson of devrt/memory/history.h (docs/reference/memory-snapshot.md).

#include <cinttypes>
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "backends/text/utf8.h"
#include "devrt/memory/history.h"

namespace devrt {

namespace {

using internal::Utf8Size;

void AppendText(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const size_t size = Utf8Size(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    if (size == 0) {
      out->append("\xef\xbf\xbd");  // U+FFFD
    } else if (c < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      out->append(escaped);
    } else {
      if (c == '"' || c == '\\') out->push_back('\\');
      out->append(text.data(), size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  out->push_back('"');
}

std::string Address(uint64_t address) {
  return absl::StrCat("\"0x", absl::Hex(address), "\"");
}

// Appends `before`, then the numbers in brackets.
template <typename Format>
void AppendList(std::string_view before, const std::vector<uint64_t>& numbers,
                Format format, std::string* out) {
  out->append(before);
  const char* comma = "[";
  for (const uint64_t n : numbers) {
    absl::StrAppend(out, comma, format(n));
    comma = ", ";
  }
  out->append(numbers.empty() ? "[]" : "]");
}

std::string Plain(uint64_t number) { return std::to_string(number); }

void AppendSite(uint32_t site, std::string* out) {
  if (site != kNoMemorySite) absl::StrAppend(out, ", \"site\": ", site);
}

void AppendStatistics(const MemoryStatistics& statistics, std::string* out) {
  out->append("  \"statistics\": {");
  const char* comma = "\n";
  for (const auto& [key, value] : ToKeys(statistics)) {
    absl::StrAppend(out, comma, "    \"", key, "\": ", value);
    comma = ",\n";
  }
  out->append("},\n");
}

void AppendSites(const std::vector<MemorySite>& sites, std::string* out) {
  out->append("  \"sites\": [");
  const char* comma = "\n";
  for (const MemorySite& site : sites) {
    absl::StrAppend(out, comma, "    {\"file\": ");
    AppendText(site.file, out);
    absl::StrAppend(out, ", \"line\": ", site.line);
    if (!site.frames.empty()) {
      AppendList(", \"frames\": ", site.frames, Address, out);
    }
    out->push_back('}');
    comma = ",\n";
  }
  out->append("],\n");
}

void AppendBlock(const SegmentSnapshot& segment, const BlockSnapshot& block,
                 std::string* out) {
  absl::StrAppend(out, "{\"offset\": ", block.address - segment.address,
                  ", \"size\": ", block.size);
  if (block.requested != 0) {
    absl::StrAppend(out, ", \"requested\": ", block.requested);
  }
  absl::StrAppend(out, ", \"state\": \"", ToString(block.state),
                  "\", \"stream\": ", block.stream);
  if (!block.waiting_streams.empty()) {
    AppendList(", \"waiting_streams\": ", block.waiting_streams, Plain, out);
  }
  AppendSite(block.site, out);
  out->push_back('}');
}

void AppendSegments(const std::vector<SegmentSnapshot>& segments,
                    std::string* out) {
  out->append("  \"segments\": [");
  const char* comma = "\n";
  for (const SegmentSnapshot& s : segments) {
    absl::StrAppend(out, comma, "    {\"address\": ", Address(s.address),
                    ", \"size\": ", s.size, ", \"stream\": ", s.stream,
                    ", \"pool\": \"", s.large ? "large" : "small",
                    "\", \"expandable\": ", s.expandable ? "true" : "false",
                    ",\n     \"blocks\": [");
    const char* block_comma = "\n       ";
    for (const BlockSnapshot& block : s.blocks) {
      out->append(block_comma);
      AppendBlock(s, block, out);
      block_comma = ",\n       ";
    }
    out->append("]}");
    comma = ",\n";
  }
  out->append("],\n");
}

void AppendEvents(const std::vector<MemoryEvent>& events, std::string* out) {
  out->append("  \"events\": [");
  const char* comma = "\n";
  for (const MemoryEvent& e : events) {
    absl::StrAppend(out, comma, "    {\"number\": ", e.number,
                    ", \"action\": \"", ToString(e.action),
                    "\", \"address\": ", Address(e.address));
    absl::StrAppend(out, ", \"size\": ", e.bytes, ", \"stream\": ", e.stream,
                    ", \"time_us\": ", e.time_us);
    AppendSite(e.site, out);
    out->push_back('}');
    comma = ",\n";
  }
  out->append("]\n");
}

}  // namespace

std::string ToJson(const MemorySnapshot& snapshot) {
  std::string out = "{\n  \"schema\": \"devrt.memory/1\",\n  \"device\": ";
  AppendText(snapshot.device, &out);
  absl::StrAppend(&out, ",\n  \"total_memory\": ", snapshot.total_memory,
                  ",\n");
  AppendStatistics(snapshot.statistics, &out);
  AppendSites(snapshot.sites, &out);
  AppendSegments(snapshot.segments, &out);
  AppendEvents(snapshot.events, &out);
  out.append("}\n");
  return out;
}

}  // namespace devrt
