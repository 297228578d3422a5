// SPDX-License-Identifier: Apache-2.0

#include "tests/memory/model/exact_run.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/history.h"
#include "devrt/memory/statistics.h"
#include "tests/memory/model/model.h"

namespace devrt::testing {

namespace {

class ExactRun {
 public:
  explicit ExactRun(const std::vector<Stream>& streams)
      : streams_(streams), device_(streams[0].device()) {
    total_ = device_.Properties()->total_memory;
    limit_ = total_;
    ResetPeakMemoryStatistics(device_);
    ResetAccumulatedMemoryStatistics(device_);
  }

  std::string Run(const Program& program) {
    for (const Step& step : program) {
      Do(step);
      if (wrong_.empty()) {
        wrong_ = Difference(GetMemoryStatistics(device_), model_.statistics());
      }
      if (!wrong_.empty()) break;
    }
    if (!wrong_.empty()) wrong_ += model_.Describe();
    CleanUp();
    return wrong_;
  }

 private:
  struct Held {
    void* pointer;
    size_t stream;
  };

  void Do(const Step& step) {
    switch (step.kind) {
      case Step::kAllocate:
        return Allocate(step.stream, step.number);
      case Step::kFree:
        return Free(step.number);
      case Step::kEmpty:
        model_.EmptyCache();
        return Check(EmptyCache(device_));
      case Step::kResetPeak:
        model_.ResetPeak();
        return ResetPeakMemoryStatistics(device_);
      case Step::kResetAccumulated:
        model_.ResetAccumulated();
        return ResetAccumulatedMemoryStatistics(device_);
      case Step::kFraction:
        return SetLimit(step.number);
      default:
        return Allocate(step.stream, limit_ + step.number);
    }
  }

  // Near to what is reserved, so that it matters.
  void SetLimit(uint64_t number) {
    const uint64_t room = (number % 64) << 20;
    const double fraction =
        std::min(1.0, static_cast<double>(model_.reserved() + room) /
                          static_cast<double>(total_));
    limit_ = static_cast<uint64_t>(fraction * static_cast<double>(total_));
    Check(SetMemoryFraction(device_, fraction));
    if (GetMemoryFraction(device_) != fraction) wrong_ = "fraction changed\n";
  }

  void Allocate(size_t stream, uint64_t bytes) {
    const std::optional<uint64_t> place = model_.Place(stream, bytes);
    const uint64_t segment = ModelAllocator::SegmentFor(bytes);
    const absl::StatusOr<void*> got = AllocateMemory(streams_[stream], bytes);
    if (!place.has_value() && model_.reserved() + segment > limit_) {
      const bool hopeless = (bytes + 511) / 512 * 512 > limit_;
      const bool fits =
          !hopeless && model_.reserved() - model_.cached() + segment <= limit_;
      if (!hopeless) model_.CountRetry();
      if (got.ok() != fits) {
        wrong_ = absl::StrCat("asked for ", bytes, " with a limit of ", limit_,
                              ": ", got.status().ToString(), "\n");
        return;
      }
      if (!fits) {
        if (!hopeless) model_.EmptyCache();
        model_.CountFailure();
        return;
      }
      // Which of those that are wholly free went is not said.
      KeepWhatIsThere(reinterpret_cast<uint64_t>(*got));
    }
    if (!got.ok()) return Check(got.status());
    const uint64_t address = reinterpret_cast<uint64_t>(*got);
    if (place.has_value() && *place != address) {
      wrong_ = absl::StrCat("got 0x", absl::Hex(address), ", expected 0x",
                            absl::Hex(*place), "\n");
    }
    for (const ModelSegment& s : model_.segments()) {
      if (!place.has_value() && address < s.base + s.size &&
          s.base < address + segment) {
        wrong_ = absl::StrCat("a segment at 0x", absl::Hex(address),
                              " overlaps another\n");
      }
    }
    model_.Allocate(stream, bytes, address);
    held_.push_back({*got, stream});
  }

  void KeepWhatIsThere(uint64_t fresh) {
    const absl::StatusOr<MemorySnapshot> now = TakeMemorySnapshot(device_);
    if (!now.ok()) return Check(now.status());
    std::set<uint64_t> there;
    for (const SegmentSnapshot& s : now->segments) there.insert(s.address);
    there.erase(fresh);  // it is new, whatever was there before
    if (!model_.Keep(there)) wrong_ = "a segment that was in use is gone\n";
  }

  void Free(uint64_t number) {
    if (held_.empty()) return;
    const size_t which = number % held_.size();
    const Held held = held_[which];
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(which));
    model_.Free(reinterpret_cast<uint64_t>(held.pointer));
    Check(FreeMemory(held.pointer));
  }

  void CleanUp() {
    for (const Held& held : held_) (void)FreeMemory(held.pointer);
    Check(SetMemoryFraction(device_, 1.0));
    Check(EmptyCache(device_));
    const int64_t left =
        GetMemoryStatistics(device_).reserved_bytes.all.current;
    if (left != 0 && wrong_.empty()) {
      wrong_ = absl::StrCat(left, " bytes are left at the end\n");
    }
  }

  void Check(const absl::Status& status) {
    if (!status.ok()) wrong_ += status.ToString() + "\n";
  }

  const std::vector<Stream>& streams_;
  const Device device_;
  uint64_t total_ = 0;
  uint64_t limit_ = 0;
  ModelAllocator model_;
  std::vector<Held> held_;
  std::string wrong_;
};

}  // namespace

std::string RunExactly(const std::vector<Stream>& streams,
                       const Program& program) {
  return ExactRun(streams).Run(program);
}

}  // namespace devrt::testing
