// SPDX-License-Identifier: Apache-2.0
//
// The allocators under all threads at once: blocks that stay for a while, that
// other streams use, that pass between streams and threads, whose streams end;
// every one with a value of its own, looked at before it goes.  Between rounds
// the statistics are compared with what the threads counted, and everything is
// given back: then nothing may be left.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/hardware/soak_blocks.h"
#include "tests/hardware/soak_operations.h"

namespace devrt::soak {
namespace {

constexpr size_t kMostHeld = 48;     // of a thread
constexpr size_t kMostOnOffer = 64;  // of all

struct Held {
  Device device;
  void* data;
  uint64_t bytes;
  uint8_t value;
};

// The sums over all threads, for one device.
struct Count {
  std::atomic<int64_t> made{0};
  std::atomic<int64_t> live{0};
  std::atomic<int64_t> live_bytes{0};
};
std::vector<Count>& Counts() {
  static auto* const counts = new std::vector<Count>(64);
  return *counts;
}
Count& CountOf(Device device) {
  return Counts()[static_cast<size_t>(device.index())];
}

absl::StatusOr<void*> New(StreamRef stream, uint64_t bytes) {
  DEVRT_ASSIGN_OR_RETURN(void* made, AllocateMemory(stream, bytes));
  Count& count = CountOf(stream.device());
  ++count.made;
  ++count.live;
  count.live_bytes += static_cast<int64_t>(bytes);
  return made;
}
absl::Status Delete(Device device, void* block, uint64_t bytes) {
  Count& count = CountOf(device);
  --count.live;
  count.live_bytes -= static_cast<int64_t>(bytes);
  return FreeMemory(block);
}

}  // namespace

// Two streams of each device, and blocks.
struct WorkerState {
  std::map<Device, std::pair<Stream, Stream>> streams;
  std::vector<Held> held;
};

namespace {

struct Shared {
  std::mutex mutex;  // guards what follows
  std::vector<std::shared_ptr<WorkerState>> states;
  std::vector<Held> on_offer;
};
Shared& Everyone() {
  static auto* const shared = new Shared;
  return *shared;
}

absl::StatusOr<WorkerState*> StateOf(Worker* worker) {
  if (worker->state == nullptr) {
    auto state = std::make_shared<WorkerState>();
    for (const Device device : worker->devices) {
      DEVRT_ASSIGN_OR_RETURN(Stream first, Stream::Create(device));
      DEVRT_ASSIGN_OR_RETURN(Stream second, Stream::Create(device));
      state->streams.emplace(
          device, std::make_pair(std::move(first), std::move(second)));
    }
    Shared& shared = Everyone();
    const std::lock_guard<std::mutex> lock(shared.mutex);
    shared.states.push_back(state);
    worker->state = std::move(state);
  }
  return worker->state.get();
}

struct Place {
  WorkerState* state;
  Device device;
  const Stream& home;
  const Stream& other;
};
absl::StatusOr<Place> AnyPlace(Worker* worker) {
  DEVRT_ASSIGN_OR_RETURN(WorkerState * state, StateOf(worker));
  const Device device = worker->AnyDevice();
  const auto& [first, second] = state->streams.at(device);
  const bool swapped = worker->Below(2) == 0;
  return Place{state, device, swapped ? second : first,
               swapped ? first : second};
}

// Of both pools, and now and then of a segment of its own.
uint64_t BlockSize(Worker* worker) {
  const uint64_t bytes = worker->AnySize();
  return worker->Below(16) == 0 ? bytes * 16 : bytes;
}
uint8_t AnyValue(Worker* worker) {
  return static_cast<uint8_t>(worker->random());
}

// By way of pinned memory, behind what `stream` got.
absl::Status CheckBlock(StreamRef stream, const void* data, uint64_t bytes,
                        uint8_t value) {
  DEVRT_ASSIGN_OR_RETURN(void* host, AllocatePinned(stream.device(), bytes));
  DEVRT_RETURN_IF_ERROR(CopyAsync(stream, host, data, bytes));
  DEVRT_RETURN_IF_ERROR(stream.Synchronize());
  DEVRT_RETURN_IF_ERROR(CheckBytes(host, bytes, value));
  return FreePinned(host);
}
absl::Status CheckAndDelete(StreamRef stream, const Held& block) {
  DEVRT_RETURN_IF_ERROR(
      CheckBlock(stream, block.data, block.bytes, block.value));
  return Delete(block.device, block.data, block.bytes);
}

// Prolongs a use, where kernels can.
absl::Status Delay(Worker* worker, StreamRef stream) {
  return worker->has_probe ? Spin(stream, 1'000 * worker->Below(100))
                           : absl::OkStatus();
}

// Blocks that stay: one more, or a random one less.
absl::Status Keep(Worker* worker) {
  DEVRT_ASSIGN_OR_RETURN(const Place at, AnyPlace(worker));
  std::vector<Held>& held = at.state->held;
  if (held.size() == kMostHeld || (!held.empty() && worker->Below(3) == 0)) {
    std::swap(held[worker->Below(held.size())], held.back());
    const Held block = held.back();
    held.pop_back();
    return CheckAndDelete(at.state->streams.at(block.device).first, block);
  }
  Held block = {at.device, nullptr, BlockSize(worker), AnyValue(worker)};
  DEVRT_ASSIGN_OR_RETURN(block.data, New(at.home, block.bytes));
  DEVRT_RETURN_IF_ERROR(
      FillAsync(at.home, block.data, block.value, block.bytes));
  // Seen by whoever looks at it on another stream.
  DEVRT_RETURN_IF_ERROR(at.home.Synchronize());
  held.push_back(block);
  return absl::OkStatus();
}

// Freed while another stream still writes: the next block of that size must
// not see it.
absl::Status UsedElsewhere(Worker* worker) {
  DEVRT_ASSIGN_OR_RETURN(const Place at, AnyPlace(worker));
  const uint64_t bytes = BlockSize(worker);
  const uint8_t value = AnyValue(worker);
  DEVRT_ASSIGN_OR_RETURN(void* used, New(at.home, bytes));
  DEVRT_RETURN_IF_ERROR(at.other.Wait(at.home));
  if (worker->Below(2) == 0) {
    DEVRT_RETURN_IF_ERROR(RecordStream(used, at.other));
  }
  DEVRT_RETURN_IF_ERROR(Delay(worker, at.other));
  DEVRT_RETURN_IF_ERROR(
      FillAsync(at.other, used, static_cast<uint8_t>(~value), bytes));
  DEVRT_RETURN_IF_ERROR(Delete(at.device, used, bytes));
  DEVRT_ASSIGN_OR_RETURN(void* next, New(at.home, bytes));
  DEVRT_RETURN_IF_ERROR(FillAsync(at.home, next, value, bytes));
  if (worker->Below(2) == 0) DEVRT_RETURN_IF_ERROR(at.other.Synchronize());
  return CheckAndDelete(at.home, {at.device, next, bytes, value});
}

// To the other stream, ordered by an event.
absl::Status PassedOn(Worker* worker) {
  DEVRT_ASSIGN_OR_RETURN(const Place at, AnyPlace(worker));
  const uint64_t bytes = BlockSize(worker);
  const uint8_t value = AnyValue(worker);
  DEVRT_ASSIGN_OR_RETURN(void* given, New(at.home, bytes));
  DEVRT_RETURN_IF_ERROR(Delay(worker, at.home));
  DEVRT_RETURN_IF_ERROR(
      FillAsync(at.home, given, static_cast<uint8_t>(~value), bytes));
  DEVRT_RETURN_IF_ERROR(Delete(at.device, given, bytes));
  if (worker->Below(2) == 0) DEVRT_RETURN_IF_ERROR(at.other.Wait(at.home));
  DEVRT_ASSIGN_OR_RETURN(void* taken, New(at.other, bytes));
  DEVRT_RETURN_IF_ERROR(FillAsync(at.other, taken, value, bytes));
  return CheckAndDelete(at.other, {at.device, taken, bytes, value});
}

// To another thread, which frees it.
absl::Status HandedOver(Worker* worker) {
  DEVRT_ASSIGN_OR_RETURN(const Place at, AnyPlace(worker));
  Held block = {at.device, nullptr, BlockSize(worker), AnyValue(worker)};
  DEVRT_ASSIGN_OR_RETURN(block.data, New(at.home, block.bytes));
  DEVRT_RETURN_IF_ERROR(
      FillAsync(at.home, block.data, block.value, block.bytes));
  DEVRT_RETURN_IF_ERROR(at.home.Synchronize());
  Shared& shared = Everyone();
  {
    const std::lock_guard<std::mutex> lock(shared.mutex);
    shared.on_offer.push_back(block);
    if (shared.on_offer.size() < kMostOnOffer && worker->Below(2) == 0) {
      return absl::OkStatus();
    }
    std::swap(shared.on_offer[worker->Below(shared.on_offer.size())],
              shared.on_offer.back());
    block = shared.on_offer.back();
    shared.on_offer.pop_back();
  }
  return CheckAndDelete(at.state->streams.at(block.device).second, block);
}

// Pinned memory is freed while the copy from it runs.
absl::Status PinnedUses(Worker* worker) {
  DEVRT_ASSIGN_OR_RETURN(const Place at, AnyPlace(worker));
  const uint64_t bytes = worker->AnySize();
  const uint64_t seed = worker->random();
  DEVRT_ASSIGN_OR_RETURN(void* there, New(at.home, bytes));
  DEVRT_ASSIGN_OR_RETURN(void* from, AllocatePinned(at.device, bytes));
  WritePattern(static_cast<uint64_t*>(from), bytes, seed);
  DEVRT_RETURN_IF_ERROR(Delay(worker, at.home));
  DEVRT_RETURN_IF_ERROR(CopyAsync(at.home, there, from, bytes));
  DEVRT_RETURN_IF_ERROR(FreePinned(from));
  DEVRT_ASSIGN_OR_RETURN(void* to, AllocatePinned(at.device, bytes));
  WritePattern(static_cast<uint64_t*>(to), bytes, ~seed);
  DEVRT_RETURN_IF_ERROR(CopyAsync(at.home, to, there, bytes));
  DEVRT_RETURN_IF_ERROR(at.home.Synchronize());
  DEVRT_RETURN_IF_ERROR(CheckPattern(static_cast<uint64_t*>(to), bytes, seed));
  DEVRT_RETURN_IF_ERROR(FreePinned(to));
  return Delete(at.device, there, bytes);
}

// The stream ends while its block is in use.
absl::Status StreamEnds(Worker* worker) {
  DEVRT_ASSIGN_OR_RETURN(const Place at, AnyPlace(worker));
  const uint64_t bytes = BlockSize(worker);
  const uint8_t value = AnyValue(worker);
  const bool frees_before = worker->Below(2) == 0;
  void* block = nullptr;
  {
    DEVRT_ASSIGN_OR_RETURN(Stream brief, Stream::Create(at.device));
    DEVRT_ASSIGN_OR_RETURN(block, New(brief, bytes));
    DEVRT_RETURN_IF_ERROR(Delay(worker, brief));
    DEVRT_RETURN_IF_ERROR(
        FillAsync(brief, block, static_cast<uint8_t>(~value), bytes));
    if (frees_before) {
      DEVRT_RETURN_IF_ERROR(Delete(at.device, block, bytes));
    }
  }
  if (!frees_before) DEVRT_RETURN_IF_ERROR(Delete(at.device, block, bytes));
  DEVRT_ASSIGN_OR_RETURN(void* next, New(at.home, bytes));
  DEVRT_RETURN_IF_ERROR(FillAsync(at.home, next, value, bytes));
  return CheckAndDelete(at.home, {at.device, next, bytes, value});
}

// Now and then, as they stop the others for a while.
absl::Status Rare(Worker* worker) {
  DEVRT_ASSIGN_OR_RETURN(const Place at, AnyPlace(worker));
  switch (worker->Below(64)) {
    case 0:
      return EmptyCache(at.device);
    case 1:
      return EmptyPinnedCache(at.device.backend());
    case 2:
      return ExpectCode(AllocateMemory(at.home, uint64_t{1} << 60).status(),
                        absl::StatusCode::kResourceExhausted,
                        "more than there can be");
    default:
      return Keep(worker);
  }
}

// ---- Between rounds ---------------------------------------------------------

absl::Status ExpectEqual(int64_t value, int64_t expected, Device device,
                         const char* name) {
  if (value == expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(device.name(), ": ", name, " is ",
                                          value, ", expected ", expected));
}

// allocated - freed == current, of each key that has them.
absl::Status CheckEquations(const StatisticKeys& keys) {
  const std::map<std::string, int64_t> of(keys.begin(), keys.end());
  for (const auto& [key, current] : of) {
    const size_t end = key.rfind(".current");
    if (end == key.npos) continue;
    const std::string name = key.substr(0, end);
    const int64_t difference =
        of.at(name + ".allocated") - of.at(name + ".freed");
    if (difference == current && of.at(name + ".peak") >= current) continue;
    return absl::InternalError(absl::StrCat(name, ": allocated - freed is ",
                                            difference, ", current ", current,
                                            ", peak ", of.at(name + ".peak")));
  }
  return absl::OkStatus();
}

absl::Status CheckSums(Device device) {
  const MemoryStatistics s = GetMemoryStatistics(device);
  const Count& count = CountOf(device);
  DEVRT_RETURN_IF_ERROR(ExpectEqual(s.allocation.all.allocated, count.made,
                                    device, "allocation.allocated"));
  DEVRT_RETURN_IF_ERROR(ExpectEqual(s.allocation.all.current, count.live,
                                    device, "allocation.current"));
  // A freed block that waits for its last use no longer counts as the
  // program's.
  if (s.active.all.current == s.allocation.all.current) {
    DEVRT_RETURN_IF_ERROR(ExpectEqual(s.requested_bytes.all.current,
                                      count.live_bytes, device,
                                      "requested_bytes.current"));
  }
  DEVRT_RETURN_IF_ERROR(CheckEquations(ToKeys(s)));
  return CheckEquations(ToKeys(GetPinnedStatistics(device.backend())));
}

absl::Status CheckNothingLeft(Device device) {
  DEVRT_RETURN_IF_ERROR(device.Synchronize());
  DEVRT_RETURN_IF_ERROR(EmptyCache(device));
  const MemoryStatistics s = GetMemoryStatistics(device);
  for (const auto& [name, stat] :
       std::map<const char*, Stat>{{"allocation", s.allocation.all},
                                   {"active", s.active.all},
                                   {"segment", s.segment.all},
                                   {"reserved_bytes", s.reserved_bytes.all},
                                   {"requested_bytes", s.requested_bytes.all},
                                   {"inactive_split", s.inactive_split.all}}) {
    DEVRT_RETURN_IF_ERROR(ExpectEqual(stat.current, 0, device, name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBetweenRounds(const std::vector<Device>& devices,
                                bool is_end) {
  Shared& shared = Everyone();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  for (const Device device : devices) DEVRT_RETURN_IF_ERROR(CheckSums(device));
  std::vector<Held> blocks = std::exchange(shared.on_offer, {});
  for (const auto& state : shared.states) {
    blocks.insert(blocks.end(), state->held.begin(), state->held.end());
    state->held.clear();
  }
  for (const Held& block : blocks) {
    DEVRT_RETURN_IF_ERROR(CheckAndDelete(DefaultStream(block.device), block));
  }
  for (const Device device : devices) {
    DEVRT_RETURN_IF_ERROR(CheckNothingLeft(device));
    DEVRT_RETURN_IF_ERROR(CheckSums(device));
  }
  const Backend backend = devices.front().backend();
  DEVRT_RETURN_IF_ERROR(EmptyPinnedCache(backend));
  DEVRT_RETURN_IF_ERROR(
      ExpectEqual(GetPinnedStatistics(backend).allocations.current, 0,
                  devices.front(), "pinned allocations"));
  if (is_end) shared.states.clear();
  return absl::OkStatus();
}

const std::vector<Operation>& Operations() {
  static const auto* const operations = new std::vector<Operation>{
      {"keep", &Keep, false},
      {"used_elsewhere", &UsedElsewhere, false},
      {"passed_on", &PassedOn, false},
      {"handed_over", &HandedOver, false},
      {"pinned", &PinnedUses, false},
      {"stream_ends", &StreamEnds, false},
      {"rare", &Rare, false},
  };
  return *operations;
}

}  // namespace devrt::soak
