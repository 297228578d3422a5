// SPDX-License-Identifier: Apache-2.0
//
// The two forms of a report on a memory snapshot, and the parts of the page.

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
  const MemoryFigures& figures;
  const MemoryAnalysis& analysis;
  std::string title;  // the file's name
};

// For a terminal, 80 columns.
std::string MemoryText(const MemoryReport& report, bool unicode);

// One page that needs nothing else: no network, no other file.
std::string MemoryPage(const MemoryReport& report);

// Parts of it.
std::string MemoryChart(const MemoryReport& report);
std::string MemoryMap(const MemoryReport& report);
std::string MemoryTables(const MemoryReport& report);
std::string MemoryPageData(const MemoryReport& report);  // JSON
std::string ZoomButtons(std::string_view what);

// What several of them write.
// The figure `key` of the file; 0 if it is missing or negative.
uint64_t FigureOf(const MemoryReport& report, const char* key);
// "31.4 %"
std::string Share(uint64_t part, uint64_t whole);
// "12.3 ms"
std::string Duration(int64_t microseconds);
// The class of an owner's colour.
std::string OwnerClass(size_t owner);
// "1,234"
std::string Grouped(uint64_t number);
// "1,234 blocks"
std::string Many(uint64_t count, std::string_view noun);

// From page.css, model.js, zoom.js and page.js beside this, embedded.
extern const char kMemoryPageStyle[];
extern const char kMemoryPageModel[];
extern const char kMemoryPageZoom[];
extern const char kMemoryPageScript[];

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_MEMORY_REPORT_H_
