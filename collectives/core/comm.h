// SPDX-License-Identifier: Apache-2.0
//
// Comm: what stands behind a Communicator.

#ifndef DEVRT_COLLECTIVES_CORE_COMM_H_
#define DEVRT_COLLECTIVES_CORE_COMM_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/provider.h"
#include "collectives/recorder/ring.h"
#include "devrt/arrays/array.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/operation.h"
#include "devrt/runtime/gate.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/event.h"
#include "runtime/registry/outside_calls.h"
#include "streams/timelines/order.h"

namespace devrt::collectives::internal {

using devrt::internal::OrderPoint;
using OrderPoints = absl::InlinedVector<OrderPoint, 2>;

class DeviceOrder;  // device_order.h

// One rank's place.  Lives until its Communicator, and what refers to it, is
// gone: groups, registrations, and a helper that is caught in the engine.
struct Comm : std::enable_shared_from_this<Comm> {
  Comm(Device of, Provider by);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  // Gives the place back to the engine.
  ~Comm();

  // Errors of the engine.
  absl::Status Take(devrt_status error, const char* call) const {
    return devrt::internal::TakeOutsideError(device, error, call);
  }
  // "communicator 3 (rank 1 of 8)", with its name if it has one.
  std::string Text() const;
  // "3 grads", by which engines name it too.
  std::string Label() const;

  const Device device;
  Provider provider;  // constant once the place has begun
  DeviceOrder* const order;
  devrt_comm handle = nullptr;
  int rank = 0;
  int size = 1;
  uint64_t id = 0;
  uint64_t key = 0;
  std::string label;    // "3"; "3/1.0": of its second split, with color 0
  std::string without;  // " without rank 2": of a shrink
  Options options;
  // With check_signatures: that of Create, else nullptr.
  Bootstrap* bootstrap = nullptr;
  // With exchange_records: that of Create, else nullptr.
  Bootstrap* records_over = nullptr;
  ProviderInfo info;
  // Where the recorder has its file, for the children too; "": in memory.
  std::string record_folder;
  // A rank of the communicator has such a folder.  Equal on all ranks.
  bool some_rank_records = false;
  // Counts as an event of the device, so that Shutdown is refused.
  std::optional<Event> life;

  // True while a thread is in a call.
  std::atomic<bool> in_use{false};
  // The Submission (submit.cc) that has `in_use`; nullptr: none.  Any thread
  // reads it, to find that its own has the communicator already.
  std::atomic<const void*> submission{nullptr};
  std::atomic<State> state{State::kReady};
  // The orderly end has begun: nothing else may follow.
  std::atomic<bool> finishing{false};
  // The engine was told to end what runs.
  std::atomic<bool> ended{false};
  // A call of the engine that ends it has not returned: the place is lost.
  std::atomic<bool> abandoned{false};
  // `failure` has what the records of the other ranks say, if they say
  // anything.
  std::atomic<bool> followed{false};

  mutable Mutex mutex;
  absl::Status failure DEVRT_GUARDED_BY(mutex);
  // Of exchange_records: its thread, and that none may begin any more.
  std::thread exchange DEVRT_GUARDED_BY(mutex);
  bool exchange_ended DEVRT_GUARDED_BY(mutex) = false;
  // Calls that one call of the engine submits to one stream.
  struct Pending {
    uint64_t first, last;  // their numbers, which follow each other
    uint64_t submission;   // the number of the first call submitted with them
    // The thread that submits sets the end, and then the flag, without the
    // lock.  While the engine's submit runs there is no end yet.
    std::atomic<bool> is_submitted{false};
    OrderPoint end;

    Pending(uint64_t from, uint64_t to, uint64_t with)
        : first(from), last(to), submission(with) {}
    Pending(const Pending& other)
        : first(other.first),
          last(other.last),
          submission(other.submission),
          is_submitted(other.is_submitted.load(std::memory_order_acquire)),
          end(is_submitted.load() ? other.end : OrderPoint()) {}
    bool IsKnownOver() const;
    // The first call whose record the ring still has.
    uint64_t FirstIn(const Ring& records) const {
      const uint64_t written = records.written();
      return written - first < kRecords ? first : written - kRecords + 1;
    }
  };
  // Those that are not known to be complete, oldest first.
  std::deque<Pending> pending DEVRT_GUARDED_BY(mutex);
  // The number of the oldest of them when the communicator failed; 0: none.
  uint64_t oldest_open DEVRT_GUARDED_BY(mutex) = 0;
  // Memory that the engine knows of until the place is given back, because its
  // Registration has ended when that could not be taken back.
  std::vector<Array> registered DEVRT_GUARDED_BY(mutex);

  std::unique_ptr<Ring> ring;  // written by the thread that has `in_use`

  // What the thread that has `in_use` changes:
  OrderPoints last;        // the work of the last submission
  size_t newest_part = 0;  // of `submission`: where the newest operation is
  // Submissions on several streams need an order, and one with other
  // communicators of the device; by the engine and the options (Complete).
  bool needs_order = false;
  bool takes_part = false;
  uint64_t sequence = 0;
  uint64_t splits = 0;
  absl::flat_hash_map<uint32_t, bool> supported;  // by op, dtype, reduction
  // What the newest operation that Check passed (operation_checks.cc) shares
  // with others of its kind, dtype, reduction and root: most repeat them.
  struct {
    // Without a count and pointers.  At first of a dtype that does not exist.
    RawOperation raw = {OpKind::kAllReduce, DType(DType::Key{0})};
    devrt_collective_v0 op = {};  // without a count and pointers
    uint64_t src_parts = 0, dst_parts = 0;
    uint64_t bytes_of_all = 0;  // of one element for each rank
  } known;
};

// The error of a call while another thread is in one.
[[gnu::cold]] absl::Status InUseError(const Comm& comm);

// Holds communicators for one call of one thread.
class Use {
 public:
  // Refused while another thread has one of the communicators, each of which
  // stands in the list once.  The list outlives the object.
  static absl::StatusOr<Use> Begin(absl::Span<Comm* const> comms) {
    for (size_t i = 0; i < comms.size(); ++i) {
      if (!comms[i]->in_use.exchange(true)) continue;
      End(comms.first(i));
      return InUseError(*comms[i]);
    }
    return Use(comms);
  }
  Use(Use&& other) noexcept : comms_(std::exchange(other.comms_, {})) {}
  Use& operator=(Use&&) = delete;
  ~Use() { End(comms_); }

 private:
  explicit Use(absl::Span<Comm* const> comms) : comms_(comms) {}
  static void End(absl::Span<Comm* const> comms) {
    for (Comm* const comm : comms) {
      comm->in_use.store(false, std::memory_order_release);
    }
  }
  absl::Span<Comm* const> comms_;
};

// Why operations may not be submitted; OK if they may.
[[gnu::cold]] absl::Status WhyNotReady(const Comm& comm);
inline bool IsReady(const Comm& comm) {
  return comm.state.load() == State::kReady && !comm.finishing.load() &&
         comm.device.gate()->IsOpen();
}
// OK if operations may be submitted: ABORTED after a failure.
inline absl::Status CheckReady(const Comm& comm) {
  return ABSL_PREDICT_TRUE(IsReady(comm)) ? absl::OkStatus()
                                          : WhyNotReady(comm);
}

// The number of the last call up to which all are known to be complete; 0 if
// the oldest one is not.  Asks no backend.
uint64_t LastKnownOver(const Comm& comm);

// Marks calls up to the number `last` that are known to be complete.  Asks no
// backend.  Marks none once the communicator has failed or was aborted: streams
// go on then, also behind a call that hung.
void NoteEnds(Comm* comm, uint64_t last = UINT64_MAX);

// For an engine that counts the collectives and has found that `sequence`
// fails.  The ranks have met in all collectives of earlier submissions, and in
// those that precede the failing one on its stream: a group on several streams
// may fail on one before another has begun.  Marks these, and the sends and
// receives that precede them on their streams.
void NoteEndsBefore(Comm* comm, uint64_t sequence);

// The calls that may not be complete, oldest first; marks none.  `asks`: of the
// oldest it asks the backend.
std::vector<uint64_t> OpenCalls(const Comm& comm, bool asks);

// Returns an error in a forked child: the communicators are the parent's, and
// the child may take no lock (C105).  Returns OK elsewhere.
absl::Status CheckNotForked(const Comm& comm);
// Returns true if the device takes calls: not in a forked child, and not in
// quarantine.
bool IsOpen(Device device);
// Returns true in quarantine, but not in a forked child and after Shutdown.
bool IsLost(Device device);

// The communicators of this process that live.
void AddToProcess(const std::shared_ptr<Comm>& comm);
std::vector<std::shared_ptr<Comm>> CommsOf(Device device);

// Returns true if the device is a simulated one.
bool IsSimulated(Device device);

// Lets a poll of the engine be followed by another one: `turn` counts from 0.
void PauseBetweenPolls(const Provider& provider, uint32_t turn);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_COMM_H_
