// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "devrt/devrt.h"
#include "tools/bench/memory_figures.h"
#include "tools/bench/sources.h"
#include "tools/bench/traces.h"
#include "tools/bench/workloads.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int kThreads = 16;

class Measurement {
 public:
  Measurement(Device device, const Effort& effort)
      : device_(device), effort_(effort) {}

  absl::StatusOr<MemoryFigures> Run() {
    DEVRT_ASSIGN_OR_RETURN(const DeviceProperties properties,
                           device_.Properties());
    figures_.device = device_.name();
    figures_.device_name = properties.name;
    figures_.processors = std::thread::hardware_concurrency();
    DEVRT_RETURN_IF_ERROR(EmptyCache(device_));
    for (const auto step :
         {&Measurement::Pairs, &Measurement::Live, &Measurement::Driver,
          &Measurement::Pinned, &Measurement::Threads, &Measurement::Streams,
          &Measurement::Traces}) {
      DEVRT_RETURN_IF_ERROR((this->*step)());
      DEVRT_RETURN_IF_ERROR(device_.Synchronize());
      DEVRT_RETURN_IF_ERROR(EmptyCache(device_));
    }
    return std::move(figures_);
  }

 private:
  MemoryFigure* Add(const char* name, std::string text, const char* unit,
                    std::optional<double> bar = std::nullopt) {
    figures_.rows.push_back({name, std::move(text), unit, {}, bar, false, ""});
    return &figures_.rows.back();
  }
  template <typename Body>
  double Time(Body* body) const {
    return TimeOf([body] { body->RunOnce(); }, effort_);
  }
  // Why the device cannot give so much memory, or "".
  absl::StatusOr<std::string> NoRoomFor(uint64_t bytes) const {
    DEVRT_ASSIGN_OR_RETURN(const MemoryInfo memory, device_.GetMemoryInfo());
    if (memory.free_bytes >= bytes) return std::string();
    return absl::StrFormat("takes %s, %s is free", FormatBytes(bytes),
                           FormatBytes(memory.free_bytes));
  }

  absl::Status Pairs() {
    DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device_));
    bench::CachedMemory memory(stream);
    {
      bench::AllocateFree small(&memory, 512);
      Add("pair_512", "512 B, allocate and free", "ns", 60)->value =
          Time(&small);
      bench::AllocateFree large(&memory, kMiB);
      Add("pair_1mib", "1 MiB, allocate and free", "ns")->value = Time(&large);
      bench::MixedSizes mixed(&memory);
      Add("mixed_64", "mixed sizes, 64 live, free and allocate", "ns", 150)
          ->value = Time(&mixed);
    }
    return memory.error();
  }

  // One call beside few live blocks, and beside many.
  absl::Status Live() {
    constexpr size_t kFew = 1'000, kMany = 1'000'000;
    constexpr uint64_t kRoom = kMany * 512 + 64 * kMiB;
    DEVRT_ASSIGN_OR_RETURN(const std::string no_room, NoRoomFor(kRoom));
    for (const bool any : {false, true}) {
      double few = 0;
      for (const size_t count : {kFew, kMany}) {
        const bool is_many = count == kMany;
        MemoryFigure* const row =
            Add(any       ? is_many ? "random_of_1m" : "random_of_1k"
                : is_many ? "beside_1m"
                          : "beside_1k",
                absl::StrFormat("%s %s live blocks",
                                any ? "a random one of" : "512 B beside",
                                is_many ? "1,000,000" : "1,000"),
                "ns");
        if (is_many && !no_room.empty()) {
          row->note = no_room;
          continue;
        }
        DEVRT_ASSIGN_OR_RETURN(row->value, TimeBeside(count, any));
        if (!is_many) few = *row->value;
        if (is_many && !any) row->bar = 2 * few;
      }
    }
    return absl::OkStatus();
  }
  absl::StatusOr<double> TimeBeside(size_t count, bool any) {
    DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device_));
    bench::CachedMemory memory(stream);
    double ns = 0;
    {
      bench::BesideLiveBlocks beside(&memory, count, any);
      if (memory.error().ok()) ns = Time(&beside);
    }
    DEVRT_RETURN_IF_ERROR(memory.error());
    return ns;
  }

  // The driver's own calls, which the cache saves.
  absl::Status Driver() {
    DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device_));
    MemoryFigure* const ordered =
        Add("driver_pair_512", "the same by the driver, in stream order", "ns");
    const auto resource = DriverResource(device_);
    if (resource.ok()) {
      DEVRT_ASSIGN_OR_RETURN(ordered->value, TimeOfPair(*resource, stream));
    } else if (absl::IsUnimplemented(resource.status())) {
      ordered->note = "the backend has no ASYNC_ALLOC";
    } else {
      return resource.status();
    }
    MemoryFigure* const raw =
        Add("raw_pair_512", "the same by the driver, each free a wait", "ns");
    DEVRT_ASSIGN_OR_RETURN(raw->value,
                           TimeOfPair(RawResource(device_), stream));
    return absl::OkStatus();
  }
  absl::StatusOr<double> TimeOfPair(std::shared_ptr<MemoryResource> resource,
                                    StreamRef stream) const {
    bench::ResourceMemory memory(std::move(resource), stream);
    double ns = 0;
    {
      bench::AllocateFree pair(&memory, 512);
      if (memory.error().ok()) ns = Time(&pair);
    }
    DEVRT_RETURN_IF_ERROR(memory.error());
    return ns;
  }

  absl::Status Pinned() {
    MemoryFigure* const small =
        Add("pinned_512", "512 B pinned, allocate and free", "ns", 60);
    if (!device_.backend().Has(DEVRT_CAP_PINNED_HOST)) {
      small->note = "the backend has no PINNED_HOST";
      return absl::OkStatus();
    }
    bench::PinnedMemory memory(device_);
    {
      bench::AllocateFree pair(&memory, 512);
      small->value = Time(&pair);
      bench::MixedSizes mixed(&memory);
      Add("pinned_mixed_64", "mixed pinned sizes, 64 live", "ns")->value =
          Time(&mixed);
    }
    DEVRT_RETURN_IF_ERROR(memory.error());
    return EmptyPinnedCache(device_.backend());
  }

  // Threads with a stream each, beside one thread alone.
  absl::Status Threads() {
    DEVRT_RETURN_IF_ERROR(RunThreads<bench::AllocateFree<bench::CachedMemory>>(
        "threads_16", "16 threads beside one, 512 B", 512));
    return RunThreads<bench::MixedSizes<bench::CachedMemory>>(
        "threads_16_mixed", "16 threads beside one, mixed sizes");
  }
  template <typename Body, typename... Arguments>
  absl::Status RunThreads(const char* name, const char* text,
                          Arguments... arguments) {
    DEVRT_ASSIGN_OR_RETURN(const std::vector<Stream> streams,
                           CreateStreams(kThreads));
    std::vector<bench::CachedMemory> memories(streams.begin(), streams.end());
    MemoryFigure* const row = Add(name, text, "x", 8);
    row->at_least = true;
    {
      std::vector<std::unique_ptr<Body>> owners;
      std::vector<Body*> bodies;
      for (bench::CachedMemory& memory : memories) {
        owners.push_back(std::make_unique<Body>(&memory, arguments...));
        bodies.push_back(owners.back().get());
      }
      const double one = RateOf<Body>({bodies[0]}, effort_);
      row->value = RateOf(bodies, effort_) / one;
    }
    if (figures_.processors < kThreads) {
      row->judged = false;
      row->note = absl::StrFormat("not judged: %s here",
                                  Counted(figures_.processors, "processor"));
    }
    const absl::Status error = ErrorOf(memories);
    if (!absl::IsResourceExhausted(error)) return error;
    row->value.reset();
    DEVRT_ASSIGN_OR_RETURN(row->note, NotEnoughMemory());
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Stream>> CreateStreams(size_t count) const {
    std::vector<Stream> streams;
    for (size_t i = 0; i < count; ++i) {
      DEVRT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(device_));
      streams.push_back(std::move(stream));
    }
    return streams;
  }
  static absl::Status ErrorOf(
      const std::vector<bench::CachedMemory>& memories) {
    for (const bench::CachedMemory& memory : memories) {
      DEVRT_RETURN_IF_ERROR(memory.error());
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> NotEnoughMemory() const {
    DEVRT_ASSIGN_OR_RETURN(const MemoryInfo memory, device_.GetMemoryInfo());
    return absl::StrFormat("not enough memory: the device has %s",
                           FormatBytes(memory.total_bytes));
  }

  absl::Status Streams() {
    DEVRT_ASSIGN_OR_RETURN(const Stream a, Stream::Create(device_));
    DEVRT_ASSIGN_OR_RETURN(const Stream b, Stream::Create(device_));
    bench::PassedBetweenStreams passed(a, b);
    MemoryFigure* const row =
        Add("between_streams", "a block to another stream and back", "ns");
    row->value = Time(&passed);
    DEVRT_RETURN_IF_ERROR(passed.error());
    if (passed.others() > 0) {
      row->note = absl::StrFormat("another block %d times", passed.others());
    }
    return WhileHeld(a, b);
  }
  // A kernel holds the giving stream meanwhile: a wait for it on the host would
  // never end.
  absl::Status WhileHeld(const Stream& a, const Stream& b) {
    MemoryFigure* const row =
        Add("between_streams_held", "the same while the giving stream is held",
            "ns");
    const absl::StatusOr<devrt::Flag> held = devrt::Flag::Create(device_);
    if (absl::IsUnimplemented(held.status())) {
      row->note = "the backend has no probe to hold it";
      return absl::OkStatus();
    }
    DEVRT_RETURN_IF_ERROR(held.status());
    constexpr uint64_t kTimeout = 2'000'000'000;
    constexpr int kPasses = 100;
    bench::PassedBetweenStreams passed(a, b);
    DEVRT_RETURN_IF_ERROR(held->WaitOn(a, kTimeout));
    const double begin = NanosecondsOf(CLOCK_MONOTONIC);
    for (int i = 0; i < kPasses; ++i) passed.RunOnce();
    const double ns = NanosecondsOf(CLOCK_MONOTONIC) - begin;
    const absl::StatusOr<bool> is_over = b.Query();
    DEVRT_RETURN_IF_ERROR(held->Set());
    DEVRT_RETURN_IF_ERROR(a.Synchronize());
    DEVRT_RETURN_IF_ERROR(b.Synchronize());
    DEVRT_RETURN_IF_ERROR(is_over.status());
    DEVRT_RETURN_IF_ERROR(passed.error());
    if (*is_over) {
      row->note = "the host waited";
      return absl::OkStatus();
    }
    row->value = ns / kPasses;
    row->note = passed.others() == 0
                    ? "the same block each time, no wait"
                    : absl::StrFormat("another block %d times of %d",
                                      passed.others(), kPasses);
    return absl::OkStatus();
  }

  absl::Status Traces() {
    for (const MemoryTrace& trace : MemoryTraces()) {
      DEVRT_RETURN_IF_ERROR(Play(trace));
    }
    return absl::OkStatus();
  }
  absl::Status Play(const MemoryTrace& trace) {
    TraceFigure figure;
    figure.name = trace.name;
    figure.calls = trace.count;
    DEVRT_ASSIGN_OR_RETURN(const std::vector<Stream> streams,
                           CreateStreams(trace.streams));
    std::vector<bench::CachedMemory> memories(streams.begin(), streams.end());
    bench::TracePlayer player(&memories, trace.calls, trace.count,
                              trace.blocks);
    DEVRT_RETURN_IF_ERROR(EmptyCache(device_));
    ResetPeakMemoryStatistics(device_);
    player.RunOnce();  // fills the cache
    const MemoryStatistics cold = GetMemoryStatistics(device_);
    if (absl::IsResourceExhausted(ErrorOf(memories))) {
      DEVRT_ASSIGN_OR_RETURN(figure.note, NotEnoughMemory());
    } else {
      figure.ns = Time(&player) / static_cast<double>(trace.count);
      DEVRT_RETURN_IF_ERROR(ErrorOf(memories));
      figure.reserved = static_cast<uint64_t>(cold.reserved_bytes.all.peak);
      figure.allocated = static_cast<uint64_t>(cold.allocated_bytes.all.peak);
      figure.segments = static_cast<uint64_t>(cold.segment.all.peak);
    }
    figures_.traces.push_back(figure);
    DEVRT_RETURN_IF_ERROR(device_.Synchronize());
    return EmptyCache(device_);
  }

  Device device_;
  Effort effort_;
  MemoryFigures figures_;
};

}  // namespace

absl::StatusOr<MemoryFigures> MeasureMemory(Device device,
                                            const Effort& effort) {
  return Measurement(device, effort).Run();
}

}  // namespace devrt::tools
