// SPDX-License-Identifier: Apache-2.0
//
// devrt bench memory: times and sizes of the allocators on a device of this
// machine, beside the bars that they have to meet.
// devrt bench calls: times of calls of the Python package, beside those of
// other libraries.

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/status.h"
#include "tools/bench/calls.h"
#include "tools/bench/memory_figures.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

constexpr char kMemory[] = "memory";
constexpr char kCalls[] = "calls";

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

int RunMemory(const Arguments& arguments) {
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

int RunCalls(const Arguments& arguments) {
  CallsOptions options;
  options.python = arguments.Get("--python", "python3");
  options.backend = arguments.Get("--backend", "mtia");
  options.picture = arguments.Get("--picture", "");
  if (!options.picture.empty() && options.backend == "mtia") {
    return UsageError(kBenchCommand,
                      "--picture shows calls beside those of other libraries, "
                      "which are not measured on mtia: name a GPU's backend "
                      "with --backend");
  }
  options.json = arguments.Has(kJsonFlag.name);
  if (arguments.Has("--quick")) options.rounds = 2;
  const absl::StatusOr<int> code = MeasureCalls(options);
  return code.ok() ? *code : Failure(kBenchCommand, Explain(code.status()));
}

// The flags of the other subject, which mean nothing here.
absl::Status CheckFlags(const Arguments& arguments, std::string_view subject,
                        std::initializer_list<const char*> others) {
  for (const char* const flag : others) {
    if (!arguments.Has(flag)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("devrt bench %s does not take %s", subject, flag));
  }
  return absl::OkStatus();
}

int RunBenchCommand(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words();
  const bool is_calls = words.size() == 1 && words[0] == kCalls;
  if (!is_calls && (words.size() != 1 || words[0] != kMemory)) {
    return UsageError(
        kBenchCommand,
        words.empty()
            ? "what is to be measured? There are: memory, calls"
            : absl::StrFormat("there are only \"memory\" and \"calls\" to be "
                              "measured, not %s",
                              Quoted(words.back())));
  }
  const absl::Status flags =
      is_calls ? CheckFlags(arguments, kCalls, {"--device"})
               : CheckFlags(arguments, kMemory, {"--picture", "--python"});
  if (!flags.ok()) return UsageError(kBenchCommand, Explain(flags));
  return is_calls ? RunCalls(arguments) : RunMemory(arguments);
}

constexpr Flag kBenchFlags[] = {
    {"--backend", "NAME",
     "Measure on a device of this backend (default: mtia)."},
    {"--device", "N", "Of memory: the ordinal of the device (default: 0)."},
    {"--quick", nullptr,
     "A twentieth of the time, for a first look; figures move more."},
    {"--python", "PROGRAM",
     "Of calls: the Python that has the package devrt (default: python3)."},
    {"--picture", "FILE",
     "Of calls on a GPU: draw devrt beside the best of the other libraries, as "
     "SVG."},
    kJsonFlag,
    kHelpFlag,
};

}  // namespace

const Command kBenchCommand = {
    "bench",
    "memory|calls",
    "What allocators and calls take, beside bars and other libraries.",
    "memory measures a cached allocation and its free, alone, among mixed "
    "sizes and beside a million live blocks, pinned memory, 16 threads, the "
    "driver's own ways, blocks that pass between streams, and how much memory "
    "three traces of programs reserve. Times are medians, of the processor's "
    "clock but for threads and held streams. The bars are those of "
    "bench/README.md, for a machine with nothing else to do; one that is "
    "missed is no failure. The simulator has 4 GiB per device here and runs in "
    "threaded mode, unless DEVRT_MTIA is set. What the device has no room for "
    "is left out, with the reason.\n\n"
    "calls measures calls of the Python package. On a GPU those of PyTorch, "
    "CuPy and Numba stand beside them, where that Python has these libraries. "
    "Rows of all libraries take turns.\n\n"
    "Examples:\n  devrt bench memory --backend=cuda\n"
    "  devrt bench calls --backend=cuda --picture=calls.svg",
    kBenchFlags,
    &RunBenchCommand,
};

}  // namespace devrt::tools
