// SPDX-License-Identifier: Apache-2.0
//
// The output of the demo: text for people, JSON for programs.

#ifndef DEVRT_TOOLS_DEMO_REPORT_H_
#define DEVRT_TOOLS_DEMO_REPORT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "devrt/runtime/backend.h"
#include "tools/common/terminal.h"
#include "tools/demo/pipeline.h"

namespace devrt::tools {

// "16 MiB in 6 chunks through mtia:0 and mtia:1".
std::string PipelineText(const std::vector<Device>& devices, size_t count);

// The numbered steps of the output.  The demo prints each text when the step is
// done.
std::string BackendText(Backend backend);
std::string DeviceText(const std::vector<Device>& devices);
std::string PlanText(const Pipeline& pipeline);
std::string TimelineText(const Pipeline& pipeline, const Terminal& terminal);
std::string ResultText(const Pipeline& pipeline);

// "value 17 of 4194304, in chunk 1, came out as 5 and not as 53".
std::string DifferenceText(const Difference& difference,
                           const Pipeline& pipeline);

// The paths of the files that the demo wrote.  Empty if a file was not asked
// for.
struct WrittenFiles {
  std::string svg;
  std::string trace;
};
std::string DemoJson(Backend backend, const Pipeline& pipeline,
                     const WrittenFiles& files);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DEMO_REPORT_H_
