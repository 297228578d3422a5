// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/comm.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "arrays/storage/joint_step.h"
#include "collectives/core/device_order.h"
#include "collectives/core/failure.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/guards/enter.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/gate.h"
#include "devrt/runtime/status.h"
#include "streams/timelines/timeline.h"

namespace devrt::collectives::internal {
namespace {

// The communicators of a process, and the orders of its devices.
struct Process {
  Mutex mutex;
  std::vector<std::weak_ptr<Comm>> comms DEVRT_GUARDED_BY(mutex);
  std::map<Device, DeviceOrder*> orders DEVRT_GUARDED_BY(mutex);
  size_t sweep_at DEVRT_GUARDED_BY(mutex) = 64;
};

Process& TheProcess() {
  static Process* const process = new Process;
  return *process;
}

bool IsKnownOver(const OrderPoint& point) {
  return point.timeline == nullptr || point.timeline->IsComplete(point.epoch);
}

bool TakesHandlesBack(Device device) {
  const uint32_t state = device.gate()->state.load(std::memory_order_acquire);
  return (state & ~devrt::internal::kShutDown) == 0;
}

}  // namespace

Comm::Comm(Device of, Provider by)
    : device(of), provider(by), order(DeviceOrder::Of(of)) {}

Comm::~Comm() {
  // Nobody has had the communicator, and so nobody reads its records.
  const bool was_made = life.has_value() || abandoned.load();
  if (ring != nullptr && !was_made) ring->Discard();
  // A device in quarantine and a forked child take nothing back.
  if (handle == nullptr || abandoned.load() || !TakesHandlesBack(device)) {
    return;
  }
  DestroyPlace(device, provider, handle, Text());
}

std::string Comm::Text() const {
  return absl::StrCat("communicator ", label, options.name.empty() ? "" : " \"",
                      options.name, options.name.empty() ? "" : "\"", without,
                      " (rank ", rank, " of ", size, ")");
}

std::string Comm::Label() const {
  return absl::StrCat(label, options.name.empty() ? "" : " ", options.name,
                      without);
}

absl::Status CheckNotForked(const Comm& comm) {
  const devrt::internal::DeviceGate* const gate = comm.device.gate();
  const uint32_t state = gate->state.load(std::memory_order_acquire);
  if (ABSL_PREDICT_TRUE((state & devrt::internal::kForkedChild) == 0)) {
    return absl::OkStatus();
  }
  return devrt::internal::EnterError(gate, nullptr);
}

bool IsOpen(Device device) { return device.gate()->IsOpen(); }

bool IsLost(Device device) {
  return device.gate()->state.load(std::memory_order_acquire) ==
         devrt::internal::kQuarantined;
}

bool Comm::Pending::IsKnownOver() const {
  return is_submitted.load(std::memory_order_acquire) &&
         internal::IsKnownOver(end);
}

absl::Status InUseError(const Comm& comm) {
  return absl::FailedPreconditionError(absl::StrCat(
      comm.Text(),
      " is in use by another thread: the order would differ between ranks; "
      "let one thread submit, or order the threads"));
}

absl::Status WhyNotReady(const Comm& comm) {
  DEVRT_RETURN_IF_ERROR(CheckNotForked(comm));
  switch (comm.state.load()) {
    case State::kReady:
      break;
    case State::kFinished:
      return absl::FailedPreconditionError(
          absl::StrCat(comm.Text(), " is finished: make another one"));
    case State::kFailed:
    case State::kAborted: {
      const MutexLock lock(&comm.mutex);
      return absl::AbortedError(comm.failure.message());
    }
  }
  if (!comm.finishing.load()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      comm.Text(), " is being finished: only Finish and Abort may follow"));
}

uint64_t LastKnownOver(const Comm& comm) {
  const MutexLock lock(&comm.mutex);
  uint64_t last = 0;
  for (const Comm::Pending& calls : comm.pending) {
    if (!calls.IsKnownOver()) break;
    last = calls.last;
  }
  return last;
}

void NoteEnds(Comm* comm, uint64_t last) {
  const MutexLock lock(&comm->mutex);
  if (comm->state.load() != State::kReady || !IsOpen(comm->device)) return;
  auto& pending = comm->pending;
  while (!pending.empty() && pending.front().last <= last &&
         pending.front().IsKnownOver()) {
    const Comm::Pending& calls = pending.front();
    for (uint64_t n = calls.FirstIn(*comm->ring); n <= calls.last; ++n) {
      comm->ring->End(n);
    }
    pending.pop_front();
  }
}

namespace {

// Returns true if the calls have a collective with that number.
bool HasSequence(const Comm::Pending& calls, const Ring& ring,
                 uint64_t sequence) {
  for (uint64_t n = calls.FirstIn(ring); n <= calls.last; ++n) {
    const CallRecord* const call = ring.Find(n);
    if (call != nullptr && call->sequence == sequence) return true;
  }
  return false;
}

}  // namespace

void NoteEndsBefore(Comm* comm, uint64_t sequence) {
  const MutexLock lock(&comm->mutex);
  if (comm->state.load() != State::kReady) return;
  Ring* const ring = comm->ring.get();
  auto& pending = comm->pending;
  if (pending.empty() || sequence == 0) return;
  // The calls that fail: the newest ones, if this rank has not come to them.
  const Comm::Pending* failing = &pending.back();
  for (const Comm::Pending& calls : pending) {
    if (HasSequence(calls, *ring, sequence)) failing = &calls;
  }
  absl::flat_hash_set<uint64_t> streams;  // of later submissions that met
  for (auto calls = pending.rbegin(); calls != pending.rend(); ++calls) {
    if (calls->submission == failing->submission && &*calls != failing)
      continue;
    const CallRecord* met = nullptr;
    for (uint64_t n = calls->FirstIn(*ring); n <= calls->last; ++n) {
      const CallRecord* const call = ring->Find(n);
      if (call == nullptr) continue;
      const bool has_met = call->sequence != 0 && call->sequence < sequence;
      if (has_met) met = call;
      if (has_met || (call->sequence == 0 && streams.contains(call->stream))) {
        ring->End(n);
      }
    }
    // All calls of a submission to the engine have one stream.
    if (met != nullptr) streams.insert(met->stream);
  }
}

std::vector<uint64_t> OpenCalls(const Comm& comm, bool asks) {
  std::vector<Comm::Pending> pending;
  {
    const MutexLock lock(&comm.mutex);
    pending.reserve(comm.pending.size());
    for (const Comm::Pending& calls : comm.pending) pending.push_back(calls);
  }
  std::vector<uint64_t> open;
  for (const Comm::Pending& calls : pending) {
    // One query tells of the oldest open calls; the others stay unknown.
    const bool is_over =
        calls.IsKnownOver() || (asks && calls.is_submitted && open.empty() &&
                                devrt::internal::IsOver(calls.end));
    if (is_over) continue;
    for (uint64_t n = calls.FirstIn(*comm.ring); n <= calls.last; ++n) {
      open.push_back(n);
    }
  }
  return open;
}

void AddToProcess(const std::shared_ptr<Comm>& comm) {
  Process& process = TheProcess();
  const MutexLock lock(&process.mutex);
  auto& comms = process.comms;
  if (comms.size() >= process.sweep_at) {
    comms.erase(std::remove_if(comms.begin(), comms.end(),
                               [](const auto& weak) { return weak.expired(); }),
                comms.end());
    process.sweep_at = std::max<size_t>(64, comms.size() * 2);
  }
  comms.push_back(comm);
}

std::vector<std::shared_ptr<Comm>> CommsOf(Device device) {
  Process& process = TheProcess();
  std::vector<std::shared_ptr<Comm>> found;
  // Not under the lock: the last reference may end here.
  std::vector<std::shared_ptr<Comm>> others;
  {
    const MutexLock lock(&process.mutex);
    for (const std::weak_ptr<Comm>& weak : process.comms) {
      std::shared_ptr<Comm> comm = weak.lock();
      if (comm == nullptr) continue;
      (comm->device == device ? found : others).push_back(std::move(comm));
    }
  }
  return found;
}

bool IsSimulated(Device device) {
  return device.backend()
      .GetExtension(DEVRT_SIM_EXTENSION, sizeof(devrt_sim_v1))
      .ok();
}

void PauseBetweenPolls(const Provider& provider, uint32_t turn) {
  // An engine on host memory has deadlines of its own, too, in real time.
  if (provider.is_of_backend && provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES)) {
    // The poll was a step of the simulator, in whose time a sleep is long.
    std::this_thread::yield();
    return;
  }
  // NCCL enqueues on a thread of its own, and a sleep would end long after
  // that.
  constexpr uint32_t kTurnsAwake = 200;
  if (turn < kTurnsAwake) {
    std::this_thread::yield();
    return;
  }
  constexpr uint32_t kLongest = 10;  // 1 ms
  std::this_thread::sleep_for(std::chrono::microseconds(
      uint64_t{1} << std::min(turn - kTurnsAwake, kLongest)));
}

DeviceOrder* DeviceOrder::Of(Device device) {
  Process& process = TheProcess();
  const MutexLock lock(&process.mutex);
  DeviceOrder*& order = process.orders[device];
  if (order == nullptr) order = new DeviceOrder;
  return order;
}

void DeviceOrder::Begin(const Submitting& comms, bool after_all) {
  const auto is_over = [&](const Work& work) {
    if (comms.Has(work.comm)) return true;
    // Ranks of one communicator do not wait for each other.
    return (after_all && !comms.HasKey(work.key)) || IsKnownOver(work.end);
  };
  last_.erase(std::remove_if(last_.begin(), last_.end(), is_over), last_.end());
}

}  // namespace devrt::collectives::internal
