// SPDX-License-Identifier: Apache-2.0
//
// devrt bench memory: times and sizes of the allocators on a device of this
// machine, beside the bars that they have to meet.

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/status.h"
#include "tools/bench/memory_figures.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

constexpr char kSubject[] = "memory";

// A backend's name, "cuda", stands for its first device.
absl::StatusOr<Device> ChooseDevice(const Arguments& arguments) {
  const std::string backend = arguments.Get("--backend", "mtia");
  DEVRT_ASSIGN_OR_RETURN(const int64_t ordinal,
                         arguments.GetNumber("--device", 0, 0, 63));
  // A million blocks, and the traces, need more memory than the simulator has
  // by default; and in virtual mode threads take turns.
  setenv("DEVRT_MTIA", "memory=4GiB,mode=threaded", 0);
  return GetDevice(backend, static_cast<int>(ordinal));
}

int Run(const Arguments& arguments) {
  if (arguments.words().size() != 1 || arguments.words()[0] != kSubject) {
    return UsageError(
        kBenchCommand,
        arguments.words().empty()
            ? "what is to be measured? There is: memory"
            : absl::StrFormat("there is only \"memory\" to be measured, not %s",
                              Quoted(arguments.words().back())));
  }
  const absl::StatusOr<Device> device = ChooseDevice(arguments);
  if (!device.ok()) {
    return absl::IsInvalidArgument(device.status()) && arguments.Has("--device")
               ? UsageError(kBenchCommand, Explain(device.status()))
               : Failure(kBenchCommand, Explain(device.status()));
  }
  Effort effort;
  if (arguments.Has("--quick")) effort = {3, 1e6};
  const absl::StatusOr<MemoryFigures> figures = MeasureMemory(*device, effort);
  if (!figures.ok()) return Failure(kBenchCommand, Explain(figures.status()));
  Print(arguments.Has(kJsonFlag.name) ? MemoryFiguresJson(*figures)
                                      : MemoryFiguresText(*figures));
  return kSuccess;
}

constexpr Flag kFlags[] = {
    {"--backend", "NAME",
     "Measure on a device of this backend (default: mtia)."},
    {"--device", "N", "Its ordinal (default: 0)."},
    {"--quick", nullptr,
     "A twentieth of the time, for a first look; figures move more."},
    kJsonFlag,
    kHelpFlag,
};

}  // namespace

const Command kBenchCommand = {
    "bench",
    "memory",
    "What the allocators take on a device, beside their bars.",
    "Measures a cached allocation and its free, alone, among mixed sizes and "
    "beside a million live blocks, pinned memory, 16 threads, the driver's own "
    "ways, blocks that pass between streams, and how much memory three traces "
    "of programs reserve. Times are medians, of the processor's clock but for "
    "threads and held streams. The bars are those of bench/README.md, for a "
    "machine with nothing else to do; one that is missed is no failure.\n\n"
    "The simulator has 4 GiB per device here and runs in threaded mode, unless "
    "DEVRT_MTIA is set. What "
    "the device has no room for is left out, with the reason.\n\n"
    "Example:\n  devrt bench memory --backend=cuda",
    kFlags,
    &Run,
};

}  // namespace devrt::tools
