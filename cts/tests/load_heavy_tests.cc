// SPDX-License-Identifier: Apache-2.0
//
// Large numbers of everything, as real programs use them.
#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace load_heavy_tests {
namespace {

using Ops = devrt_ops_v0;

// Expects that no object is left, on a simulator, which counts them.
class Census {
 public:
  explicit Census(Test& t) : t_(t), before_(Now()) {}
  void ExpectUnchanged(const char* what) const {
    const auto now = Now();
    if (!now.has_value()) return;
    t_.Equal(now->live_streams, before_->live_streams,
             absl::StrCat("live streams after ", what));
    t_.Equal(now->live_events, before_->live_events,
             absl::StrCat("live events after ", what));
    t_.Equal(now->live_blocks, before_->live_blocks,
             absl::StrCat("live blocks after ", what));
    t_.Equal(now->live_pinned, before_->live_pinned,
             absl::StrCat("live pinned blocks after ", what));
    t_.Equal(now->live_registered, before_->live_registered,
             absl::StrCat("registrations after ", what));
    t_.Equal(now->pending_ops, uint64_t{0},
             absl::StrCat("pending operations after ", what));
  }

 private:
  std::optional<SimulatorStats> Now() const {
    const auto& sim = t_.machine().simulator();
    if (!sim.has_value()) return std::nullopt;
    return t_.Require(sim->Stats(), "stats");
  }
  Test& t_;
  const std::optional<SimulatorStats> before_;
};

// ---- Guards

bool IsCurrent(Backend backend, Device device) {
  const auto current = CurrentDevice(backend);
  return current.ok() && *current == device;
}

// Makes `depth` nested guards on the devices in turn, from `first` on.  Each
// must make its device current, and its end must restore the former one.
bool Nest(Test& t, const std::vector<Device>& devices,
          const std::vector<StreamRef>& streams, size_t first, int depth) {
  if (depth == 0) return true;
  const Device device = devices[first % devices.size()];
  const StreamRef stream = streams[first % streams.size()];
  const Backend backend = t.machine().backend();
  const auto before = CurrentDevice(backend);
  const StreamRef stream_before = CurrentStream(stream.device());
  bool good = before.ok();
  {
    const DeviceGuard on_device(device);
    good = good && IsCurrent(backend, device);
    const StreamGuard on_stream(stream);
    good = good && IsCurrent(backend, stream.device()) &&
           CurrentStream(stream.device()) == stream;
    good = good && Nest(t, devices, streams, first + 1, depth - 1);
    good = good && CurrentStream(stream.device()) == stream;
  }
  return good && IsCurrent(backend, *before) &&
         CurrentStream(stream.device()) == stream_before;
}

void NestedGuards(Test& t) {
  constexpr size_t kThreads = 64;
  constexpr int kRounds = 20, kDepth = 6;
  std::vector<Device> devices;
  std::deque<Stream> streams;
  std::vector<StreamRef> refs;
  for (size_t i = 0; i < t.devices().size(); ++i) {
    devices.push_back(t.cpp_device(i));
    for (int k = 0; k < 3; ++k) {
      streams.push_back(
          t.Require(Stream::Create(devices.back()), "Stream::Create"));
      refs.push_back(streams.back());
    }
  }
  std::atomic<int> wrong{0};
  Threads threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        if (!Nest(t, devices, refs, i + static_cast<size_t>(round), kDepth)) {
          ++wrong;
        }
      }
    });
  }
  threads.Join();
  t.Equal(wrong.load(), 0,
          "rounds in which a thread was not where its guards had put it");
}

// With work: each thread changes its own cell on its current stream.
void ThreadsThatWork(Test& t) {
  constexpr size_t kThreads = 64;
  constexpr uint64_t kSize = 256;
  std::vector<CoreBlock> blocks;
  for (size_t i = 0; i < t.devices().size(); ++i) {
    blocks.emplace_back(t, t.cpp_device(i), kThreads * kSize);
  }
  Threads threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      for (const CoreBlock& block : blocks) {
        const DeviceGuard guard(block.device());
        const Stream s =
            t.Require(Stream::Create(block.device()), "Stream::Create");
        for (size_t value = 0; value <= i; value += 8) {
          t.Ok(FillAsync(s, block.ptr() + i * kSize,
                         static_cast<uint8_t>(value), kSize),
               "FillAsync");
        }
        t.Ok(FillAsync(s, block.ptr() + i * kSize, static_cast<uint8_t>(i + 1),
                       kSize),
             "FillAsync");
        t.Ok(s.Synchronize(), "Synchronize");
      }
    });
  }
  threads.Join();
  for (const CoreBlock& block : blocks) {
    const std::vector<uint8_t> bytes = block.Read();
    bool right = true;
    for (size_t i = 0; i < bytes.size(); ++i) {
      right = right && bytes[i] == i / kSize + 1;
    }
    t.Expect(right, "every thread's bytes are as it left them");
  }
}

// ---- Streams and events

void ManyStreams(Test& t) {
  constexpr uint64_t kLive = 1000;
  const Census census(t);
  {
    std::deque<RawStream> streams;
    std::set<devrt_stream> handles;
    for (uint64_t i = 0; i < kLive; ++i) {
      streams.emplace_back(t, t.device(i % t.devices().size()));
      handles.insert(streams.back().handle());
    }
    t.Equal(handles.size(), size_t{kLive}, "distinct handles of live streams");
    std::vector<DeviceBlock> blocks;
    for (const uint32_t device : t.devices()) {
      blocks.emplace_back(t, device, kLive);
    }
    for (uint64_t i = 0; i < kLive; ++i) {
      const DeviceBlock& block = blocks[i % blocks.size()];
      streams[i].Fill(block.ptr() + i, static_cast<uint8_t>(i % 251 + 1), 1);
    }
    for (const RawStream& s : streams) s.Sync();
    for (size_t d = 0; d < blocks.size(); ++d) {
      const std::vector<uint8_t> bytes = blocks[d].Read();
      bool right = true;
      for (uint64_t i = d; i < kLive; i += blocks.size()) {
        right = right && bytes[i] == i % 251 + 1;
      }
      t.Expect(right, "each of 1,000 streams has done its work");
    }
  }
  census.ExpectUnchanged("1,000 streams at once");
}

void StreamsInTurn(Test& t) {
  const DeviceBlock x(t, t.device(), 1000);
  const Census census(t);
  for (int i = 0; i < 10'000; ++i) {
    RawStream s(t, t.device());
    if (i % 10 == 0) s.Fill(x.ptr() + i / 10, 1, 1);
    t.Require(s.Destroy(), "stream destruction");
  }
  t.Ok(t.machine().Call<&Ops::device_sync>(t.device()), "device sync");
  t.Expect(x.Holds(1), "those that were given work have done it");
  census.ExpectUnchanged("10,000 streams in turn");
}

void StreamsThroughCore(Test& t) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 10'000; ++i) {
    const Stream s =
        t.Require(Stream::Create(t.cpp_device()), "Stream::Create");
    ids.insert(s.id());
  }
  t.Equal(ids.size(), size_t{10'000}, "distinct ids of streams in turn");
  t.Equal(ids.count(0), size_t{0}, "streams of id 0");
}

void ManyEvents(Test& t) {
  const Census census(t);
  {
    const RawStream s(t, t.device()), other(t, t.device());
    std::deque<RawEvent> live;
    for (int i = 0; i < 1000; ++i) {
      live.emplace_back(t, t.device());
      live.back().Record(s);
      if (i % 10 == 0) other.Wait(live.back());
    }
    for (int i = 0; i < 99'000; ++i) {
      RawEvent e(t, t.device());
      if (i % 10 == 0) e.Record(s);
      t.Require(e.Destroy(), "event destruction");
    }
    s.Sync();
    other.Sync();
    for (const RawEvent& e : live) t.Require(e.Query(), "a recorded event");
  }
  census.ExpectUnchanged("100,000 events");
}

// ---- Memory

struct Piece {
  void* ptr;
  uint64_t size;
};

// Allocates blocks of `size` until the memory is full.
std::vector<Piece> AllocateAll(Test& t, uint64_t size) {
  std::vector<Piece> pieces;
  Result result;
  for (int i = 0; i < 5000; ++i) {
    void* ptr = nullptr;
    result = t.machine().Call<&Ops::alloc>(t.device(), size, uint64_t{0}, &ptr);
    if (!result.ok()) break;
    pieces.push_back({ptr, size});
  }
  t.Code(result, DEVRT_RESOURCE_EXHAUSTED, "an allocation on a full device");
  return pieces;
}

void Free(Test& t, const Piece& piece) {
  t.Require(t.machine().Call<&Ops::dealloc>(t.device(), piece.ptr, piece.size),
            "deallocation");
}

uint64_t FreeBytes(Test& t) {
  uint64_t free_bytes = 0, total = 0;
  t.Require(t.machine().Call<&Ops::mem_info>(t.device(), &free_bytes, &total),
            "mem_info");
  return free_bytes;
}

void FillAndLeave(Test& t) {
  const Census census(t);
  const uint64_t size = FreeBytes(t) / 200;
  size_t first = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<Piece> pieces = AllocateAll(t, size);
    t.Expect(pieces.size() >= 150,
             absl::StrCat("most of the free memory can be allocated, not ",
                          pieces.size(), " of 200 parts"));
    if (round == 0) first = pieces.size();
    t.Equal(pieces.size(), first, "blocks until the device is full");
    std::shuffle(pieces.begin(), pieces.end(), t.random());
    for (const Piece& piece : pieces) Free(t, piece);
  }
  census.ExpectUnchanged("three times a full device");
}

void Fragmented(Test& t) {
  const Census census(t);
  const uint64_t size = FreeBytes(t) / 200;
  std::vector<Piece> pieces = AllocateAll(t, size);
  std::vector<Piece> kept;
  for (size_t i = 0; i < pieces.size(); ++i) {
    i % 2 == 0 ? Free(t, pieces[i]) : kept.push_back(pieces[i]);
  }
  // Holes of one size can hold blocks of that size again.
  std::vector<Piece> again = AllocateAll(t, size);
  t.Expect(again.size() + 2 >= (pieces.size() + 1) / 2,
           "the holes of a fragmented device can be allocated again");
  for (const Piece& piece : again) Free(t, piece);
  for (const Piece& piece : kept) Free(t, piece);
  // Then all of the memory is in one piece again.
  void* large = nullptr;
  const uint64_t half = FreeBytes(t) / 2;
  t.Ok(t.machine().Call<&Ops::alloc>(t.device(), half, uint64_t{0}, &large),
       "half of the free memory in one block, when all is free again");
  if (large != nullptr) Free(t, {large, half});
  census.ExpectUnchanged("a fragmented device");
}

void RandomTraffic(Test& t) {
  const Census census(t);
  const uint64_t before = FreeBytes(t);
  std::vector<Piece> live;
  std::uniform_int_distribution<uint64_t> sizes(1, before / 100);
  for (int i = 0; i < 3000; ++i) {
    if (live.size() > 60 || (t.random()() % 2 == 0 && !live.empty())) {
      std::swap(live[t.random()() % live.size()], live.back());
      Free(t, live.back());
      live.pop_back();
      continue;
    }
    Piece piece = {nullptr, sizes(t.random())};
    t.Require(t.machine().Call<&Ops::alloc>(t.device(), piece.size, uint64_t{0},
                                            &piece.ptr),
              "allocation on a device that is mostly free");
    for (const Piece& other : live) {
      const auto* const a = static_cast<uint8_t*>(piece.ptr);
      const auto* const b = static_cast<uint8_t*>(other.ptr);
      t.Require(a + piece.size <= b || b + other.size <= a,
                "live blocks do not overlap");
    }
    live.push_back(piece);
  }
  for (const Piece& piece : live) Free(t, piece);
  census.ExpectUnchanged("3,000 allocations and frees");
  t.Expect(FreeBytes(t) >= before - before / 50, "free memory comes back");
}

// ---- Long work

// Each operation reads the result of the one before, on another stream and
// often on another device.
void LongChain(Test& t) {
  constexpr int kLinks = 10'000;
  const size_t devices = t.devices().size();
  const bool peer = t.machine().Has(DEVRT_CAP_PEER_COPY);
  const size_t used = peer ? std::min<size_t>(devices, 4) : 1;
  std::deque<RawStream> streams;
  std::deque<RawEvent> events;
  std::vector<DeviceBlock> blocks;
  for (size_t i = 0; i < 4 * used; ++i) {
    streams.emplace_back(t, t.device(i % used));
    events.emplace_back(t, t.device(i % used));
    blocks.emplace_back(t, t.device(i % used), 16);
  }
  streams[0].Fill(blocks[0].ptr(), 77, 16);
  events[0].Record(streams[0]);
  size_t at = 0;
  for (int i = 0; i < kLinks; ++i) {
    // A step that visits all streams.
    const size_t next = (at + 1 + static_cast<size_t>(i) % 3) % streams.size();
    if (next == at) continue;
    const RawStream& s = streams[next];
    s.Wait(events[at]);
    const DeviceBlock &from = blocks[at], &to = blocks[next];
    s.Fill(to.ptr(), static_cast<uint8_t>(i), 16);
    if (from.device() == to.device()) {
      s.Copy(to.ptr(), from.ptr(), 16, DEVRT_COPY_D2D);
    } else {
      t.Require(t.machine().Call<&Ops::copy_peer_async>(
                    s.handle(), static_cast<void*>(to.ptr()), to.device(),
                    static_cast<const void*>(from.ptr()), from.device(),
                    uint64_t{16}),
                "peer copy");
    }
    events[next].Record(s);
    at = next;
  }
  streams[at].Sync();
  t.Expect(blocks[at].Holds(77), "a value comes through a chain of 10,000");
  for (const RawStream& s : streams) s.Sync();
}

void BehindAHeldStream(Test& t) {
  constexpr int kOperations = 1000;
  const uint32_t depth = t.machine().props(t.device()).queue_depth;
  t.Expect(depth == 0 || depth >= kOperations,
           "queue_depth is 0 or at least 1,000");
  const DeviceBlock x(t, t.device(), 64);
  const RawStream s(t, t.device()), other(t, t.device());
  const RawEvent e(t, t.device());
  Gate gate(t);
  gate.Hold(s);
  // The gate and the record count as operations, too.
  constexpr int kFills = kOperations - 2;
  for (int i = 1; i <= kFills; ++i) {
    s.Fill(x.ptr(), static_cast<uint8_t>(i), 64);
  }
  e.Record(s);
  t.Expect(!s.Query(), "1,000 operations wait behind a held stream");
  other.Delay(1000);
  other.Sync();
  t.Expect(!e.Query(), "other streams go on meanwhile");
  gate.Open();
  s.Sync();
  t.Expect(x.Holds(static_cast<uint8_t>(kFills)),
           "they run in order when it is released");
}

constexpr TestCase kTests[] = {
    {"load_heavy.nested_guards", "C97 C96",
     "64 threads with nested guards on all devices do not disturb each other.",
     &NestedGuards, 0, kSlow},
    {"load_heavy.threads_that_work", "C97",
     "64 threads that use all devices at once read back the data that they "
     "wrote.",
     &ThreadsThatWork, 0, kSlow},
    {"load_heavy.a_thousand_streams", "C101",
     "1,000 streams may be alive and at work at once.", &ManyStreams, 0, kSlow},
    {"load_heavy.ten_thousand_streams", "C101 C17",
     "10,000 streams may be created and destroyed in turn, at work or not.",
     &StreamsInTurn, 0, kSlow},
    {"load_heavy.ten_thousand_ids", "C100",
     "The ids of 10,000 streams in turn are distinct.", &StreamsThroughCore, 0,
     kSlow},
    {"load_heavy.events", "C34 C39", "100,000 events may come and go.",
     &ManyEvents, 0, kSlow},
    {"load_heavy.full_and_empty", "C62 C63",
     "A device can be filled and emptied again and again.", &FillAndLeave, 0,
     kSlow},
    {"load_heavy.fragmented", "C62 C63",
     "The holes of a fragmented device can be used, and grow together again.",
     &Fragmented, 0, kSlow},
    {"load_heavy.allocation_traffic", "C63",
     "3,000 allocations and frees in any order leave no trace.", &RandomTraffic,
     0, kSlow},
    {"load_heavy.long_chain", "C26 C32 C6",
     "A value passes through 10,000 dependent operations on many streams and "
     "devices.",
     &LongChain, 0, kSlow},
    {"load_heavy.deep_queue", "C6",
     "A held stream takes at least 1,000 operations, and other streams run on.",
     &BehindAHeldStream, 0, kSlow | kNeedsGate},
};

}  // namespace
}  // namespace load_heavy_tests

absl::Span<const TestCase> HeavyLoadTests() { return load_heavy_tests::kTests; }

}  // namespace devrt::cts
