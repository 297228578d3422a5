// SPDX-License-Identifier: Apache-2.0
//
// What the demo says about itself: in words, and for programs.

#ifndef DEVRT_TOOLS_DEMO_REPORT_H_
#define DEVRT_TOOLS_DEMO_REPORT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "devrt/runtime/backend.h"
#include "tools/demo/pipeline.h"
#include "tools/terminal.h"

namespace devrt::tools {

// "16 MiB in 6 chunks through mtia:0 and mtia:1".
std::string Subject(const std::vector<Device>& devices, size_t count);

// Numbered steps, each ready to print when it is done.
std::string BackendText(Backend backend);
std::string DeviceText(const std::vector<Device>& devices);
std::string PlanText(const Pipeline& pipeline);
std::string TimelineText(const Pipeline& pipeline, const Terminal& terminal);
std::string ResultText(const Pipeline& pipeline);

// "value 17 of 4194304, in chunk 1, came out as 5 and not as 53".
std::string DifferenceText(const Difference& difference,
                           const Pipeline& pipeline);

// Where a file went; empty: nowhere.
struct WrittenFiles {
  std::string svg;
  std::string trace;
};
std::string DemoJson(Backend backend, const Pipeline& pipeline,
                     const WrittenFiles& files);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DEMO_REPORT_H_
