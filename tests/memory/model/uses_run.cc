// SPDX-License-Identifier: Apache-2.0

#include "tests/memory/model/uses_run.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/history.h"
#include "devrt/memory/settings.h"
#include "devrt/memory/statistics.h"
#include "devrt/streams/copy.h"
#include "devrt/streams/event.h"
#include "devrt/streams/probe.h"
#include "streams/objects/stream_record.h"
#include "tests/memory/model/model.h"

namespace devrt::testing {

namespace {

// By number of a native stream.
using Clock = std::map<size_t, uint64_t>;

bool has_waited = false;
int requests_refused = 0;

void Join(Clock* clock, const Clock& other) {
  for (const auto& [stream, count] : other) {
    (*clock)[stream] = std::max((*clock)[stream], count);
  }
}

class UsesRun {
 public:
  explicit UsesRun(std::vector<Stream>* streams)
      : streams_(*streams), device_(streams_[0].device()) {
    total_ = device_.Properties()->total_memory;
    for (size_t i = 0; i < streams_.size(); ++i) Begin(i);
    ResetPeakMemoryStatistics(device_);
    ResetAccumulatedMemoryStatistics(device_);
  }

  std::string Run(const Program& program) {
    for (const Step& step : program) {
      Do(step);
      if (wrong_.empty()) CheckFigures();
      if (!wrong_.empty()) break;
    }
    CleanUp();
    return wrong_;
  }

 private:
  // A Stream of the program's, alive or not.  One that is handed out again has
  // the native stream of another, whose work it is behind.
  struct Life {
    size_t place;
    size_t native;
    bool has_ended = false;
    Clock end;
    std::shared_ptr<Event> last;
  };
  struct Held {
    uint64_t size;
    uint64_t requested;
    size_t life;
    size_t last;                // the life that has used the bytes last
    std::vector<size_t> marks;  // lives, by RecordStream
  };
  // Work on `native` up to its count `count` may touch the bytes.
  struct Use {
    uint64_t begin, end;
    size_t native;
    uint64_t count;
    std::shared_ptr<Event> event;
  };

  // The Stream at `place` is a new one.
  void Begin(size_t place) {
    const internal::Timeline* const timeline =
        internal::TimelineOf(streams_[place]);
    const size_t native =
        natives_.emplace(timeline, natives_.size()).first->second;
    if (place == now_.size()) now_.push_back(0);
    now_[place] = lives_.size();
    lives_.push_back({place, native, false, {}, nullptr});
  }
  Clock& ClockOf(size_t place) { return clocks_[lives_[now_[place]].native]; }
  std::shared_ptr<Event> Record(size_t place) {
    absl::StatusOr<Event> event = Event::Create(device_);
    if (!event.ok()) {
      Check(event.status());
      return nullptr;
    }
    Check(event->Record(streams_[place]));
    return std::make_shared<Event>(*std::move(event));
  }

  void Replace(size_t place, uint64_t number) {
    Life& life = lives_[now_[place]];
    life.has_ended = true;
    life.end = ClockOf(place);
    life.last = Record(place);
    // Ends first, so that its native stream may be the next one's, or last.
    std::optional<Stream> spare;
    if (number % 4 != 0) spare = std::move(streams_[place]);
    if (number % 4 > 1) spare.reset();
    absl::StatusOr<Stream> made = Stream::Create(device_);
    if (!made.ok()) return Check(made.status());
    streams_[place] = *std::move(made);
    Begin(place);
  }

  // Orders the next work on the stream at `place` behind the life's work.
  void Order(size_t place, size_t behind) {
    const Life& life = lives_[behind];
    if (life.has_ended) {
      Join(&ClockOf(place), life.end);
      if (life.last != nullptr) Check(streams_[place].Wait(*life.last));
      return;
    }
    Join(&ClockOf(place), ClockOf(life.place));
    Check(streams_[place].Wait(streams_[life.place]));
  }

  void Set(uint64_t number) {
    static constexpr const char* kSettings[] = {
        "expandable_segments:True", "expandable_segments:False",
        "cross_stream_reuse:never", "cross_stream_reuse:ordered"};
    has_set_ = true;
    Check(SetAllocatorSettings(kSettings[number % 4]));
  }

  void Do(const Step& step) {
    const size_t s = step.stream;
    const size_t other = (s + 1 + step.number % 2) % streams_.size();
    switch (step.kind) {
      case Step::kAllocate:
        return Allocate(s, step.number);
      case Step::kFill:
        return Fill(s, step.number);
      case Step::kRecord:
        return Record(s, step.number);
      case Step::kFree:
        return Free(step.number, nullptr, s);
      case Step::kFreeOn:
        return Free(step.number, &streams_[s], s);
      case Step::kOrder:
        return Order(s, now_[other]);
      case Step::kSynchronize:
        Join(&host_, ClockOf(s));
        return Check(streams_[s].Synchronize());
      case Step::kReplace:
        return Replace(s, step.number);
      case Step::kSetting:
        return Set(step.number);
      case Step::kSpin:
        ++ClockOf(s)[lives_[now_[s]].native];
        return Check(Spin(streams_[s], 20'000 + step.number));
      case Step::kEmpty:
        return Check(EmptyCache(device_));
      case Step::kResetPeak:
        ResetPeakMemoryStatistics(device_);
        peaks_ = {};
        return;
      default:
        return ResetAccumulatedMemoryStatistics(device_);
    }
  }

  void Allocate(size_t stream, uint64_t bytes) {
    const absl::StatusOr<void*> got = AllocateMemory(streams_[stream], bytes);
    if (absl::IsResourceExhausted(got.status()) && MayBeFull(bytes)) {
      ++requests_refused;
      return;
    }
    if (!got.ok()) return Check(got.status());
    const uint64_t begin = reinterpret_cast<uint64_t>(*got);
    const uint64_t size = (bytes + 511) / 512 * 512;
    const auto next = held_.lower_bound(begin);
    if ((next != held_.end() && next->first < begin + size) ||
        (next != held_.begin() &&
         std::prev(next)->first + std::prev(next)->second.size > begin)) {
      wrong_ = absl::StrCat("0x", absl::Hex(begin), " overlaps a live block\n");
      (void)FreeMemory(*got);
      return;
    }
    for (const Use& use : uses_) {
      if (use.end > begin && use.begin < begin + size && !IsOver(use, stream)) {
        wrong_ =
            absl::StrCat("0x", absl::Hex(begin), " on stream ", stream,
                         " is still used on native stream ", use.native, "\n");
        (void)FreeMemory(*got);  // shrinking runs more programs
        return;
      }
    }
    held_[begin] = {size, bytes, now_[stream], now_[stream], {}};
  }

  bool MayBeFull(uint64_t bytes) const {
    uint64_t kept = bytes > kModelMiB ? 40 * kModelMiB : 4 * kModelMiB;
    for (const auto& [begin, held] : held_) {
      kept += held.size > kModelMiB ? 40 * kModelMiB : 4 * kModelMiB;
    }
    return kept > total_;
  }

  bool IsOver(const Use& use, size_t place) {
    const size_t native = lives_[now_[place]].native;
    if (use.native == native || use.count <= clocks_[native][use.native] ||
        use.count <= host_[use.native]) {
      return true;
    }
    // Time may have passed.
    return use.event == nullptr || use.event->Query().value_or(false);
  }

  void Note(uint64_t begin, uint64_t size, size_t which) {
    const Life& life = lives_[which];
    const uint64_t count = life.has_ended ? CountIn(life.end, life.native)
                                          : clocks_[life.native][life.native];
    uses_.push_back({begin, begin + size, life.native, count,
                     life.has_ended ? life.last : Record(life.place)});
  }
  static uint64_t CountIn(const Clock& clock, size_t native) {
    const auto found = clock.find(native);
    return found == clock.end() ? 0 : found->second;
  }

  std::map<uint64_t, Held>::iterator Pick(uint64_t number) {
    return std::next(held_.begin(),
                     static_cast<ptrdiff_t>(number % held_.size()));
  }

  // Each fill comes behind the one before, or behind the allocation: a program
  // that writes there has to order its streams, or has a race.
  void Fill(size_t stream, uint64_t number) {
    if (held_.empty()) return;
    auto& [begin, held] = *Pick(number);
    if (held.last != now_[stream]) Order(stream, held.last);
    held.last = now_[stream];
    ++ClockOf(stream)[lives_[now_[stream]].native];
    Check(FillAsync(streams_[stream], reinterpret_cast<void*>(begin), 1,
                    std::min<uint64_t>(held.requested, 4096)));
    Note(begin, std::min<uint64_t>(held.requested, 4096), now_[stream]);
  }

  void Record(size_t stream, uint64_t number) {
    if (held_.empty()) return;
    auto& [begin, held] = *Pick(number);
    Check(RecordStream(reinterpret_cast<char*>(begin) + number % held.requested,
                       streams_[stream]));
    held.marks.push_back(now_[stream]);
  }

  void Free(uint64_t number, const Stream* on, size_t stream) {
    if (held_.empty()) return;
    const auto which = Pick(number);
    const uint64_t begin = which->first;
    const Held held = which->second;
    held_.erase(which);
    // The uses that the marks cover end with the free, which has an order of
    // its own.
    for (const size_t mark : held.marks) Note(begin, held.size, mark);
    Note(begin, held.size, held.life);
    if (on != nullptr) Note(begin, held.size, now_[stream]);
    void* pointer = reinterpret_cast<void*>(begin);
    Check(on == nullptr ? FreeMemory(pointer) : FreeMemory(pointer, *on));
  }

  struct Sums {
    int64_t live = 0, live_bytes = 0, active = 0, active_bytes = 0;
    int64_t requested = 0, splits = 0, split_bytes = 0;
    int64_t segments = 0, reserved = 0;
  };

  Sums Walk(const MemorySnapshot& snapshot, bool large) {
    Sums sums;
    for (const SegmentSnapshot& s : snapshot.segments) {
      if (s.large != large) continue;
      sums.segments += s.expandable ? 0 : 1;
      uint64_t holes = 0;
      sums.reserved += static_cast<int64_t>(s.size);
      uint64_t end = s.address;
      for (const BlockSnapshot& b : s.blocks) {
        const int64_t size = static_cast<int64_t>(b.size);
        if (b.address != end) wrong_ = "blocks leave a gap\n";
        end += b.size;
        if (b.state == BlockState::kUnmapped) {
          holes += b.size;
          continue;
        }
        if (b.state == BlockState::kFree) {
          const bool is_part = s.blocks.size() > 1 && !s.expandable;
          sums.splits += is_part ? 1 : 0;
          sums.split_bytes += is_part ? size : 0;
          continue;
        }
        ++sums.active;
        sums.active_bytes += size;
        sums.requested += static_cast<int64_t>(b.requested);
        if (b.state != BlockState::kLive) continue;
        ++sums.live;
        sums.live_bytes += size;
        if (held_.count(b.address) == 0) wrong_ = "a block is nobody's\n";
      }
      if (end != s.address + s.size + holes)
        wrong_ = "blocks do not fill a segment\n";
    }
    return sums;
  }

  void Expect(const char* name, const Stat& stat, int64_t wanted) {
    if (stat.current != wanted) {
      absl::StrAppend(&wrong_, name, " is ", stat.current, ", expected ",
                      wanted, "\n");
    }
    if (stat.allocated - stat.freed != stat.current ||
        stat.peak < stat.current) {
      absl::StrAppend(&wrong_, name, ": peak or sums are wrong\n");
    }
  }

  void Compare(const MemoryStatistics& s, Stat PoolStat::*row,
               const Sums& sums) {
    Expect("allocation", s.allocation.*row, sums.live);
    Expect("allocated_bytes", s.allocated_bytes.*row, sums.live_bytes);
    Expect("active", s.active.*row, sums.active);
    Expect("active_bytes", s.active_bytes.*row, sums.active_bytes);
    Expect("requested_bytes", s.requested_bytes.*row, sums.requested);
    Expect("inactive_split", s.inactive_split.*row, sums.splits);
    Expect("inactive_split_bytes", s.inactive_split_bytes.*row,
           sums.split_bytes);
    Expect("segment", s.segment.*row, sums.segments);
    Expect("reserved_bytes", s.reserved_bytes.*row, sums.reserved);
  }

  void CheckFigures() {
    const absl::StatusOr<MemorySnapshot> now = TakeMemorySnapshot(device_);
    if (!now.ok()) return Check(now.status());
    const MemoryStatistics& s = now->statistics;
    Compare(s, &PoolStat::small_pool, Walk(*now, false));
    Compare(s, &PoolStat::large_pool, Walk(*now, true));
    if (s.active.all.current > s.allocation.all.current) has_waited = true;
    if (s.allocation.all.current != static_cast<int64_t>(held_.size())) {
      wrong_ += "another number of blocks is alive\n";
    }
    // These change once a call, so that no higher value was in between.
    const std::pair<const Stat*, int64_t*> peaks[] = {
        {&s.allocation.all, &peaks_[0]},
        {&s.allocated_bytes.all, &peaks_[1]},
        {&s.active.all, &peaks_[2]},
        {&s.active_bytes.all, &peaks_[3]},
        {&s.reserved_bytes.all, &peaks_[4]}};
    for (const auto& [stat, peak] : peaks) {
      *peak = std::max(*peak, stat->current);
      if (stat->peak != *peak) {
        absl::StrAppend(&wrong_, "a peak is ", stat->peak, ", expected ", *peak,
                        "\n");
      }
    }
  }

  void CleanUp() {
    for (const auto& [begin, held] : held_) {
      Check(FreeMemory(reinterpret_cast<void*>(begin)));
    }
    if (has_set_) {
      Check(SetAllocatorSettings(
          "expandable_segments:False,cross_stream_reuse:ordered"));
    }
    Check(device_.Synchronize());
    Check(EmptyCache(device_));
    const MemoryStatistics s = GetMemoryStatistics(device_);
    if (wrong_.empty() &&
        (s.reserved_bytes.all.current != 0 || s.active.all.current != 0)) {
      wrong_ =
          absl::StrCat(s.reserved_bytes.all.current, " bytes and ",
                       s.active.all.current, " blocks are left at the end\n");
    }
  }

  void Check(const absl::Status& status) {
    if (!status.ok()) wrong_ += status.ToString() + "\n";
  }

  std::vector<Stream>& streams_;
  const Device device_;
  uint64_t total_ = 0;
  std::map<const internal::Timeline*, size_t> natives_;
  std::vector<Life> lives_;
  std::vector<size_t> now_;  // lives, by place
  std::map<uint64_t, Held> held_;
  std::vector<Use> uses_;
  std::map<size_t, Clock> clocks_;  // by native stream
  Clock host_;
  std::array<int64_t, 5> peaks_ = {};
  bool has_set_ = false;
  std::string wrong_;
};

}  // namespace

bool WasAnyBlockPending() { return has_waited; }

int CountRefused() { return requests_refused; }

std::string RunWithUses(std::vector<Stream>* streams, const Program& program) {
  return UsesRun(streams).Run(program);
}

}  // namespace devrt::testing
