// SPDX-License-Identifier: Apache-2.0
//
// Reports on a memory snapshot: a text, and an HTML page with its parts.

#ifndef DEVRT_TOOLS_MEMORY_REPORT_H_
#define DEVRT_TOOLS_MEMORY_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "devrt/memory/history.h"
#include "tools/memory/analysis.h"
#include "tools/memory/snapshot_reader.h"

namespace devrt::tools {

struct MemoryReport {
  const MemorySnapshot& snapshot;
  const SnapshotFigures& figures;
  const MemoryAnalysis& analysis;
  std::string title;  // the name of the file
};

// For a terminal, 80 columns.
std::string MemoryText(const MemoryReport& report, bool unicode);

// One HTML page that needs no network and no other file.
std::string MemoryPage(const MemoryReport& report);

// Parts of the page.
std::string MemoryChart(const MemoryReport& report);
std::string MemoryMap(const MemoryReport& report);
std::string MemoryTables(const MemoryReport& report);
std::string MemoryPageData(const MemoryReport& report);  // JSON
std::string ZoomButtons(std::string_view what);

// Text that several parts share.
// The figure `key` of the file; 0 if it is missing or negative.
uint64_t FigureOf(const MemoryReport& report, const char* key);
// "31.4 %"
std::string Share(uint64_t part, uint64_t whole);
// "12.3 ms"
std::string Duration(int64_t microseconds);
// The CSS class with the colour of an owner.
std::string OwnerClass(size_t owner);
// "1,234"
std::string WithCommas(uint64_t number);
// "1,234 blocks"
std::string CountedWithCommas(uint64_t count, std::string_view noun);

// The contents of page.css, model.js, zoom.js, event_list.js and page.js in
// this folder.
extern const char kMemoryPageStyle[];
extern const char kMemoryPageModel[];
extern const char kMemoryPageZoom[];
extern const char kMemoryPageEventList[];
extern const char kMemoryPageScript[];

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_MEMORY_REPORT_H_
