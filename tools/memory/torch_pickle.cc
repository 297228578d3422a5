// SPDX-License-Identifier: Apache-2.0
//
// A snapshot in the dictionaries that PyTorch's documentation describes,
// written with the opcodes that Python's own pickler uses for such data.

#include "tools/memory/torch_pickle.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace devrt::tools {

namespace {

class Pickle {
 public:
  Pickle() : out_("\x80\x04", 2) {}

  void BeginDict() { Begin('}'); }
  void EndDict() { End('u'); }
  void BeginList() { Begin(']'); }
  void EndList() { End('e'); }
  void Bool(bool value) { out_ += value ? '\x88' : '\x89'; }
  // Writes each text once, and then refers to it.
  void Text(std::string_view text) {
    const auto [found, is_new] = texts_.emplace(text, memos_);
    if (!is_new) return Recall(found->second);
    if (text.size() < 256) {
      out_ += '\x8c';
      Bytes(text.size(), 1);
    } else {
      out_ += 'X';
      Bytes(text.size(), 4);
    }
    out_ += text;
    Memoize();
  }
  void Number(uint64_t value) {
    if (value < 256) {
      out_ += 'K';
      Bytes(value, 1);
    } else if (value < 65536) {
      out_ += 'M';
      Bytes(value, 2);
    } else if (value <= INT32_MAX) {
      out_ += 'J';
      Bytes(value, 4);
    } else {  // in two's complement a leading 0 byte keeps the number positive
      size_t size = 4;
      while (size < 9 && (size == 8 ? value >> 63 : value >> (8 * size - 1))) {
        ++size;
      }
      out_ += '\x8a';
      Bytes(size, 1);
      Bytes(value, size);
    }
  }
  // Gives the last value a number, by which Recall refers to the value.
  uint32_t Memoize() {
    out_ += '\x94';
    return memos_++;
  }
  void Recall(uint32_t memo) {
    out_ += memo < 256 ? 'h' : 'j';
    Bytes(memo, memo < 256 ? 1 : 4);
  }
  std::string Finish() && {
    out_ += '.';
    return std::move(out_);
  }

  void Field(std::string_view key, uint64_t value) {
    Text(key);
    Number(value);
  }
  void Field(std::string_view key, std::string_view value) {
    Text(key);
    Text(value);
  }

 private:
  void Begin(char what) {
    out_ += what;
    out_ += '(';
    begun_ = out_.size();
  }
  void End(char what) {
    if (out_.size() == begun_) {
      out_.pop_back();  // empty: no items to add
    } else {
      out_ += what;
    }
    begun_ = 0;
  }
  void Bytes(uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      out_ += i < 8 ? static_cast<char>(value >> (8 * i)) : '\0';
    }
  }

  std::string out_;
  size_t begun_ = 0;  // where the last Begin wrote, if no End came since
  std::map<std::string, uint32_t, std::less<>> texts_;
  uint32_t memos_ = 0;
};

class TorchSnapshot {
 public:
  explicit TorchSnapshot(const MemorySnapshot& snapshot)
      : snapshot_(snapshot), frames_(snapshot.sites.size(), kNone) {}

  std::string Write() && {
    p_.BeginDict();
    p_.Text("segments");
    p_.BeginList();
    for (const SegmentSnapshot& s : snapshot_.segments) Segment(s);
    p_.EndList();
    // One trace for each device, by index.
    p_.Text("device_traces");
    p_.BeginList();
    for (uint64_t i = 0; i < Device(); ++i) {
      p_.BeginList();
      p_.EndList();
    }
    p_.BeginList();
    for (const MemoryEvent& e : snapshot_.events) Event(e);
    p_.EndList();
    p_.EndList();
    p_.EndDict();
    return std::move(p_).Finish();
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t kMostDevices = 1024;

  // The index of the device: 1 for "cuda:1".
  uint64_t Device() const {
    const size_t colon = snapshot_.device.rfind(':');
    uint64_t index = 0;
    for (size_t i = colon + 1;
         colon != std::string::npos && i < snapshot_.device.size() &&
         index < kMostDevices;
         ++i) {
      const char c = snapshot_.device[i];
      if (c < '0' || c > '9') return 0;
      index = index * 10 + static_cast<uint64_t>(c - '0');
    }
    return index < kMostDevices ? index : 0;
  }

  void Frame(std::string_view file, int64_t line, std::string_view name) {
    p_.BeginDict();
    p_.Field("filename", file);
    p_.Field("line", line < 0 ? 0 : static_cast<uint64_t>(line));
    p_.Field("name", name);
    p_.EndDict();
  }

  // Writes the frames of each site once.
  void Frames(uint32_t site) {
    p_.Text("frames");
    if (site >= frames_.size()) {
      p_.BeginList();
      p_.EndList();
      return;
    }
    if (frames_[site] != kNone) return p_.Recall(frames_[site]);
    p_.BeginList();
    const MemorySite& s = snapshot_.sites[site];
    if (!s.file.empty()) Frame(s.file, s.line, "");
    for (const uint64_t frame : s.frames) {
      Frame("", 0, absl::StrCat("0x", absl::Hex(frame)));
    }
    p_.EndList();
    frames_[site] = p_.Memoize();
  }

  void Segment(const SegmentSnapshot& s) {
    uint64_t allocated = 0;
    uint64_t active = 0;
    uint64_t requested = 0;
    for (const BlockSnapshot& b : s.blocks) {
      if (b.state == BlockState::kLive) allocated += b.size;
      if (b.state == BlockState::kLive || b.state == BlockState::kPending) {
        active += b.size;
        requested += b.requested;
      }
    }
    p_.BeginDict();
    p_.Field("device", Device());
    p_.Field("address", s.address);
    p_.Field("total_size", s.size);
    p_.Field("allocated_size", allocated);
    p_.Field("active_size", active);
    p_.Field("requested_size", requested);
    p_.Field("stream", s.stream);
    p_.Field("segment_type", s.large ? "large" : "small");
    p_.Text("segment_pool_id");
    p_.BeginList();
    p_.Number(0);
    p_.Number(0);
    p_.EndList();
    p_.Text("is_expandable");
    p_.Bool(s.expandable);
    Frames(kNoMemorySite);
    p_.Text("blocks");
    p_.BeginList();
    for (const BlockSnapshot& b : s.blocks) {
      if (b.state != BlockState::kUnmapped) Block(b);
    }
    p_.EndList();
    p_.EndDict();
  }

  void Block(const BlockSnapshot& b) {
    p_.BeginDict();
    p_.Field("address", b.address);
    p_.Field("size", b.size);
    p_.Field("requested_size", b.requested);
    p_.Field("state", ToString(b.state));
    Frames(b.site);
    p_.EndDict();
  }

  void Event(const MemoryEvent& e) {
    p_.BeginDict();
    p_.Field("action", ToString(e.action));
    // A failed request has no address; PyTorch has the free memory instead.
    if (e.action == MemoryAction::kOutOfMemory) {
      p_.Field("device_free", 0);
    } else {
      p_.Field("addr", e.address);
    }
    p_.Field("size", e.bytes);
    p_.Field("stream", e.stream);
    p_.Field("time_us", e.time_us < 0 ? 0 : static_cast<uint64_t>(e.time_us));
    Frames(e.site);
    p_.EndDict();
  }

  const MemorySnapshot& snapshot_;
  std::vector<uint32_t> frames_;  // the memo of each site, or kNone
  Pickle p_;
};

}  // namespace

std::string ToTorchPickle(const MemorySnapshot& snapshot) {
  return TorchSnapshot(snapshot).Write();
}

}  // namespace devrt::tools
