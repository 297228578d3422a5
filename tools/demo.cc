// SPDX-License-Identifier: Apache-2.0
//
// devrt demo: a pipeline over several devices and streams, and what ran when.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/status.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/child_process.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"
#include "tools/demo/pipeline.h"
#include "tools/demo/recorder.h"
#include "tools/demo/report.h"
#include "tools/timeline/timeline.h"

namespace devrt::tools {
namespace {

constexpr char kNone[] = "-";
constexpr int64_t kMostDevices = 64;
constexpr int64_t kMostMebibytes = 1 << 20;

constexpr Flag kDemoFlags[] = {
    {"--backend", "NAME", "Run on this backend's devices (default: mtia)."},
    {"--devices", "N",
     "Pass the data through this many devices (default: 2, or 1 where there "
     "is only one)."},
    {"--size", "MiB", "How much data (default: 16)."},
    {"--times", "SOURCE",
     "Where the times come from: simulator, its own record; events, timing "
     "events around every operation; host, which waits for every operation; "
     "auto, the first that the backend has (default: auto)."},
    {"--svg", "FILE",
     "Write the timeline as a picture (default: devrt-demo.svg in the current "
     "directory, none with --json). - writes none."},
    {"--trace", "FILE",
     "Write the timeline for chrome://tracing and ui.perfetto.dev (default: "
     "none). - writes none."},
    kJsonFlag,
    kHelpFlag,
};

struct Options {
  std::string backend;
  int64_t devices;  // 0: the default
  int64_t mebibytes;
  std::string times;
  std::string svg;    // empty: none
  std::string trace;  // empty: none
  bool json;
};

absl::StatusOr<Options> ReadOptions(const Arguments& arguments) {
  Options options;
  options.json = arguments.Has(kJsonFlag.name);
  options.backend = arguments.Get("--backend", "mtia");
  DEVRT_ASSIGN_OR_RETURN(options.devices,
                         arguments.GetNumber("--devices", 0, 1, kMostDevices));
  DEVRT_ASSIGN_OR_RETURN(options.mebibytes,
                         arguments.GetNumber("--size", 16, 1, kMostMebibytes));
  options.times = arguments.Get("--times", "auto");
  const std::vector<std::string> sources = {"auto", "simulator", "events",
                                            "host"};
  if (std::find(sources.begin(), sources.end(), options.times) ==
      sources.end()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--times is auto, simulator, events or host, not %s%s",
        Quoted(options.times), DidYouMean(options.times, sources)));
  }
  options.svg = arguments.Get("--svg", options.json ? kNone : "devrt-demo.svg");
  options.trace = arguments.Get("--trace", kNone);
  if (options.svg == kNone) options.svg.clear();
  if (options.trace == kNone) options.trace.clear();
  if (!options.svg.empty() && options.svg == options.trace) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--svg and --trace name the same file, %s", Quoted(options.svg)));
  }
  return options;
}

absl::StatusOr<std::vector<Device>> ChooseDevices(const Options& options,
                                                  Backend backend) {
  constexpr int64_t kDefault = 2;
  std::vector<Device> devices = backend.devices();
  const int64_t present = static_cast<int64_t>(devices.size());
  if (devices.empty()) {
    return absl::UnavailableError(
        absl::StrFormat("backend \"%s\" has no devices", backend.name()));
  }
  if (options.devices > present) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--devices=%d: backend \"%s\" has %d%s", options.devices,
        backend.name(), present,
        backend.name() == "mtia"
            ? absl::StrFormat("; DEVRT_MTIA=devices=%d simulates as many",
                              options.devices)
            : ""));
  }
  const int64_t wanted =
      options.devices == 0 ? std::min(kDefault, present) : options.devices;
  devices.erase(devices.begin() + wanted, devices.end());
  return devices;
}

absl::StatusOr<std::unique_ptr<Recorder>> ChooseRecorder(const Options& options,
                                                         Backend backend) {
  if (options.times == "host") return MakeHostRecorder();
  if (options.times == "events") return MakeEventRecorder(backend);
  auto recorder = MakeSimulatorRecorder(backend);
  const bool is_simulator = !absl::IsUnimplemented(recorder.status());
  if (options.times == "simulator" && !is_simulator) {
    return absl::UnimplementedError(
        absl::StrFormat("backend \"%s\" is no simulator, so it has no record "
                        "of its operations; "
                        "--times=events or --times=host measures them",
                        backend.name()));
  }
  if (options.times == "simulator") return recorder;
  if (!is_simulator) recorder = MakeEventRecorder(backend);
  if (absl::IsUnimplemented(recorder.status())) return MakeHostRecorder();
  return recorder;
}

// Writes one file; on failure says so and leaves `written` empty.
int Write(const std::string& path, const std::string& text,
          std::string* written) {
  if (path.empty()) return kSuccess;
  const absl::Status status = WriteFile(path, text);
  if (!status.ok()) return Failure(kDemoCommand, Explain(status));
  *written = AbsolutePath(path);
  return kSuccess;
}

std::string FilesText(const WrittenFiles& files) {
  std::string text;
  if (!files.svg.empty()) {
    text += "The timeline as a picture:  " + Printable(files.svg) + "\n";
  }
  if (!files.trace.empty()) {
    text += "For ui.perfetto.dev:        " + Printable(files.trace) + "\n";
  }
  return text;
}

// Writes the files, says where they are, and whether the result is right.
int Conclude(const Options& options, Backend backend,
             const Pipeline& pipeline) {
  Timeline timeline = pipeline.timeline();
  timeline.title = PipelineText(pipeline.devices(), pipeline.count());
  WrittenFiles files;
  int code = Write(options.svg, SvgTimeline(timeline), &files.svg);
  code |= Write(options.trace, TraceTimeline(timeline), &files.trace);
  Print(options.json ? DemoJson(backend, pipeline, files) : FilesText(files));
  if (const auto difference = pipeline.Verify()) {
    return Failure(kDemoCommand,
                   "wrong result: " + DifferenceText(*difference, pipeline));
  }
  return code;
}

absl::StatusOr<int> RunDemo(const Options& options) {
  const auto say = [&](const std::string& text) {
    if (!options.json) Print(text);
  };
  // A thread of the backend may end the process at any time.
  ContinueInChild(kNoLimit);
  DEVRT_RETURN_IF_ERROR(ChildFailure(options.backend));
  const BackendScope running(options.backend);
  DEVRT_ASSIGN_OR_RETURN(const Backend backend, GetBackend(options.backend));
  DEVRT_ASSIGN_OR_RETURN(std::vector<Device> devices,
                         ChooseDevices(options, backend));
  DEVRT_ASSIGN_OR_RETURN(std::unique_ptr<Recorder> recorder,
                         ChooseRecorder(options, backend));
  const size_t count =
      static_cast<size_t>(options.mebibytes) * (1 << 20) / sizeof(uint32_t);
  say(PipelineText(devices, count) + "\n\n");
  say(BackendText(backend));
  say(DeviceText(devices));
  DEVRT_ASSIGN_OR_RETURN(std::unique_ptr<Pipeline> pipeline,
                         Pipeline::Create(std::move(devices), count));
  say(PlanText(*pipeline));
  DEVRT_RETURN_IF_ERROR(pipeline->Run(recorder.get()));
  say(TimelineText(*pipeline, Terminal::Detect()));
  say(ResultText(*pipeline));
  return Conclude(options, backend, *pipeline);
}

int RunDemoCommand(const Arguments& arguments) {
  const absl::StatusOr<Options> options = ReadOptions(arguments);
  if (!options.ok()) {
    return UsageError(kDemoCommand, Explain(options.status()));
  }
  const absl::StatusOr<int> code = RunDemo(*options);
  return code.ok() ? *code : Failure(kDemoCommand, Explain(code.status()));
}

}  // namespace

const Command kDemoCommand = {
    "demo",
    nullptr,
    "Run a pipeline over several devices and show what ran when.",
    "Passes data in chunks through two devices: copy in, kernel, peer copy, "
    "kernel, copy out, a stream for each, ordered by events. Compares the "
    "result with what the host computes, shows the timeline in the terminal, "
    "and writes it as a picture.\n\n"
    "Runs on every backend: where one has no kernels for it, fills stand in; "
    "where it has no pinned memory, plain memory; host functions are left "
    "out.\n\n"
    "An existing file is overwritten. Fails when the result is wrong, when a "
    "file cannot be written, and when the machine lacks what is asked for.",
    kDemoFlags,
    &RunDemoCommand,
};

}  // namespace devrt::tools
