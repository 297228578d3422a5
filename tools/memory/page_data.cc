// SPDX-License-Identifier: Apache-2.0
//
// Data for the page's script: blocks that lived in the history or live at its
// end, segments, and events.  model.js documents the form.

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/memory/report.h"

namespace devrt::tools {

namespace {

// A block from its allocation to its end.
struct Life {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t requested = 0;
  uint64_t stream = 0;
  uint32_t site = kNoMemorySite;
  BlockState state = BlockState::kFree;  // at the end
  bool in_segment = false;               // the address follows from the segment
  const BlockSnapshot* block = nullptr;
};

std::string Hex(uint64_t value) { return absl::StrFormat("%x", value); }

class PageData {
 public:
  explicit PageData(const MemoryReport& report)
      : snapshot_(report.snapshot), a_(report.analysis) {
    life_of_event_.assign(snapshot_.events.size(), -1);
    for (size_t i = 0; i < snapshot_.events.size(); ++i) Follow(i);
    for (const SegmentSnapshot& s : snapshot_.segments) {
      for (const BlockSnapshot& b : s.blocks) End(b);
    }
  }

  std::string Text() {
    json_.BeginObject();
    Beginning();
    Sites();
    Lives();
    Segments();
    Events();
    json_.End();
    // "</script>" in a name must not end the script element.
    return absl::StrReplaceAll(json_.TakeLine(), {{"<", "\\u003c"}});
  }

 private:
  // The index of the life that the event's address stands for.  Begins a life
  // if the events before it were dropped.
  size_t Current(const MemoryEvent& e) {
    const auto [found, is_new] = current_.try_emplace(e.address, lives_.size());
    if (is_new) lives_.push_back({e.address, e.bytes, 0, e.stream});
    return found->second;
  }

  void Follow(size_t index) {
    const MemoryEvent& e = snapshot_.events[index];
    switch (e.action) {
      case MemoryAction::kAlloc:
        current_[e.address] = lives_.size();
        lives_.push_back({e.address, e.bytes, 0, e.stream, e.site});
        life_of_event_[index] = static_cast<int64_t>(lives_.size()) - 1;
        ended_.erase(e.address);
        break;
      case MemoryAction::kFreeRequested:
        if (ended_.count(e.address) != 0) current_.erase(e.address);
        life_of_event_[index] = static_cast<int64_t>(Current(e));
        ended_[e.address] = false;
        break;
      case MemoryAction::kFreeCompleted:
        life_of_event_[index] = static_cast<int64_t>(Current(e));
        ended_[e.address] = true;
        break;
      default:
        break;
    }
  }

  void End(const BlockSnapshot& b) {
    if (b.state != BlockState::kLive && b.state != BlockState::kPending) return;
    const auto ended = ended_.find(b.address);
    const auto found = current_.find(b.address);
    const bool pending = b.state == BlockState::kPending;
    // True if the history ends with this block in this state.
    const bool fits = found != current_.end() &&
                      lives_[found->second].block == nullptr &&
                      (ended != ended_.end()) == pending &&
                      (ended == ended_.end() || !ended->second);
    const size_t index = fits ? found->second : lives_.size();
    if (!fits) lives_.push_back({});
    Life& life = lives_[index];
    life.address = b.address;
    life.size = b.size;
    life.requested = b.requested;
    life.stream = b.stream;
    if (b.site != kNoMemorySite) life.site = b.site;
    life.state = b.state;
    life.in_segment = true;
    life.block = &b;
    life_of_block_[&b] = index;
  }

  void Beginning() {
    const MemoryMoment& first = a_.timeline.front();
    json_.Key("base").BeginObject().Key("in_use").BeginArray();
    for (const uint64_t bytes : first.in_use) json_.Unsigned(bytes);
    json_.End().Key("pending").Unsigned(first.pending);
    json_.Key("reserved").Unsigned(first.reserved).End();
    json_.Key("unknown").Unsigned(a_.unknown_owner);
    json_.Key("peak").BeginArray().Unsigned(a_.peak).Number(a_.peak_time_us);
    json_.End().Key("owners").BeginArray();
    for (size_t i = 0; i + 1 < first.in_use.size(); ++i) {
      json_.String(Printable(a_.owners[i].name));
    }
    json_.End();
  }

  // [owner, name, file, line, frames]
  void Sites() {
    json_.Key("sites").BeginArray();
    for (size_t i = 0; i < snapshot_.sites.size(); ++i) {
      const MemorySite& s = snapshot_.sites[i];
      const auto site = static_cast<uint32_t>(i);
      json_.BeginArray().Unsigned(a_.owner(site));
      json_.String(Printable(SiteName(snapshot_, site)));
      json_.String(Printable(s.file)).Number(s.line);
      if (!s.frames.empty()) {
        json_.BeginArray();
        for (const uint64_t frame : s.frames) json_.String("0x" + Hex(frame));
        json_.End();
      }
      json_.End();
    }
    json_.End();
  }

  void Lives() {
    json_.Key("lives").BeginArray();
    for (const Life& life : lives_) {
      json_.BeginArray();
      life.in_segment ? json_.Number(0) : json_.String(Hex(life.address));
      json_.Unsigned(life.size).Unsigned(life.requested);
      json_.Unsigned(life.stream);
      json_.Number(life.site < snapshot_.sites.size() ? int64_t{life.site}
                                                      : -1);
      json_.Unsigned(static_cast<uint32_t>(life.state)).End();
    }
    json_.End().Key("waits").BeginObject();
    for (size_t i = 0; i < lives_.size(); ++i) {
      const BlockSnapshot* const b = lives_[i].block;
      if (b == nullptr || b->waiting_streams.empty()) continue;
      json_.Key(std::to_string(i)).BeginArray();
      for (const uint64_t stream : b->waiting_streams) json_.Unsigned(stream);
      json_.End();
    }
    json_.End();
  }

  void Segments() {
    json_.Key("segments").BeginArray();
    for (const SegmentSnapshot& s : snapshot_.segments) {
      json_.BeginArray().String(Hex(s.address)).Unsigned(s.size);
      json_.Unsigned(s.stream).Number(s.large).Number(s.expandable);
      json_.BeginArray();
      for (const BlockSnapshot& b : s.blocks) {
        const auto life = life_of_block_.find(&b);
        if (life != life_of_block_.end()) {
          json_.Unsigned(life->second);
          continue;
        }
        json_.BeginArray().Unsigned(b.size);
        if (b.state == BlockState::kUnmapped) json_.Number(1);
        json_.End();
      }
      json_.End().End();
    }
    json_.End();
  }

  void Events() {
    json_.Key("actions").BeginArray();
    for (uint32_t i = 0; i <= static_cast<uint32_t>(MemoryAction::kOutOfMemory);
         ++i) {
      json_.String(ToString(static_cast<MemoryAction>(i)));
    }
    json_.End().Key("events").BeginArray();
    int64_t now = 0;  // the host's clock may have been set back
    for (size_t i = 0; i < snapshot_.events.size(); ++i) {
      const MemoryEvent& e = snapshot_.events[i];
      const int64_t at = std::max(now, e.time_us - snapshot_.events[0].time_us);
      json_.BeginArray().Number(at - now);
      now = at;
      json_.Unsigned(static_cast<uint32_t>(e.action)).Unsigned(e.bytes);
      if (life_of_event_[i] >= 0) {
        json_.Number(life_of_event_[i]);
      } else if (e.address != 0) {
        json_.String(Hex(e.address));
      }
      json_.End();
    }
    json_.End();
  }

  const MemorySnapshot& snapshot_;
  const MemoryAnalysis& a_;
  JsonWriter json_;
  std::vector<Life> lives_;
  std::vector<int64_t> life_of_event_;            // -1: none
  std::unordered_map<uint64_t, size_t> current_;  // by address
  // Addresses of freed blocks; true if the free is complete.
  std::unordered_map<uint64_t, bool> ended_;
  std::unordered_map<const BlockSnapshot*, size_t> life_of_block_;
};

}  // namespace

std::string MemoryPageData(const MemoryReport& report) {
  return PageData(report).Text();
}

}  // namespace devrt::tools
