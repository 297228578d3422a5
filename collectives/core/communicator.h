// SPDX-License-Identifier: Apache-2.0
//
// Communicator: the place of one device among the devices that compute
// together, its ranks.
//
//   using devrt::collectives::Communicator;
//   using devrt::collectives::Reduction;
//   // One process and one thread for all devices: a rank for each.
//   DEVRT_ASSIGN_OR_RETURN(std::vector<Communicator> ranks,
//                          Communicator::CreateAll(devices));
//   devrt::collectives::Group group;
//   for (size_t i = 0; i < ranks.size(); ++i) {
//     group.Add(ranks[i],
//               devrt::collectives::AllReduce(sums[i], gradients[i]));
//   }
//   DEVRT_RETURN_IF_ERROR(group.Submit());
//
//   // A thread or a process for each rank: bootstrap.h connects them.
//   DEVRT_ASSIGN_OR_RETURN(Communicator rank,
//                          Communicator::Create(device, *bootstrap));
//   DEVRT_RETURN_IF_ERROR(rank.AllReduce(out, x, Reduction::kSum));
//
// devrt moves no byte itself: an engine does, the provider.  mtia has its own
// engine, for tests; NCCL and RCCL are loaded at run time; a program can
// register others (host_engine.h).
//
// Order.  A collective is an operation of one stream, by default the current
// stream of the device.  It comes after the earlier work of the stream and
// before the later work, and waits for other streams' uses of its arrays as any
// operation on arrays does.
//
// Submissions on several streams of one device, also of several communicators,
// follow each other in the order of their submission, unless the options or the
// engine say otherwise: in two orders on two ranks, they may wait for each
// other for ever.
//
// An engine whose calls return when their operations have ended (MPI) keeps no
// such order, and other threads' work on the arrays of a call waits until the
// call has returned.
//
// Failure.  A rank that dies, operations that differ, or the loss of the device
// end the communicator: kFailed, on every rank that notices.  Later submissions
// return ABORTED with the first error.  Other streams go on.  Go on with
// Shrink, or with Create anew.  An engine without the feature "revoke" (older
// versions of NCCL; 2.28.9 has it) shrinks no communicator that was aborted:
// Shrink needs OnFailure::kReport there.
//
// Outputs of operations that were not complete are undefined.  A read of such
// an output, as by Array::Item and Array::To, returns OK: call Wait of the
// communicator first, which returns the failure.
//
// What it is not: a fault-tolerant job.  Ranks that leave in good order call
// Finish first, because the others wait for them.
//
// Ownership: movable; the destructor finishes, within 5 s, or aborts and logs
// that.  Shutdown is refused while communicators live: each counts as an event.
//
// Threads: one at a time (FAILED_PRECONDITION, since the order of submissions
// would differ between ranks), but Abort, state and failure from any.
//
// In a forked child each call that returns a status is FAILED_PRECONDITION, and
// the destructor does nothing (C105): the communicators are the parent's.
//
// A moved-from Communicator has rank -1 and size 0; calls on it are
// INVALID_ARGUMENT, and device() must not be called.
//
// Errors, all with the state unchanged and nothing enqueued: INVALID_ARGUMENT
// (dtype, layout, device, overlap, size, root), FAILED_PRECONDITION (another
// thread, an unfinished communicator), ABORTED (after a failure), UNIMPLEMENTED
// (the engine lacks it).  One is other: the submission in which the
// communicator fails returns why, such as DEADLINE_EXCEEDED, and part of its
// operations may be enqueued.

#ifndef DEVRT_COLLECTIVES_CORE_COMMUNICATOR_H_
#define DEVRT_COLLECTIVES_CORE_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "devrt/arrays/array.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/collectives/operation.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt::collectives {

namespace internal {
struct Comm;
}  // namespace internal

// What follows when a communicator has failed.
enum class OnFailure {
  kReport,     // only state() and failure() tell; Abort ends what still runs
  kAbort,      // all communicators of the device are aborted
  kTerminate,  // the process ends with code 134, after the error was logged
};

// The state of a communicator.
enum class State {
  kReady,
  kFailed,    // failure() says why
  kAborted,   // by Abort, of this rank
  kFinished,  // by Finish
};

// "ready", "failed", "aborted", "finished".
DEVRT_EXPORT const char* ToString(State state);

// How a communicator is made.  All ranks take equal options.
struct Options {
  std::string name;  // for reports
  // "": the backend's own, else nccl or rccl.  Or the name of a registered one,
  // such as "mpi".
  std::string provider;
  // Of Create, Split and Shrink.  Create leaves the engine a tenth of it, and a
  // second at most, to end what it has not connected.
  absl::Duration init_timeout = absl::Minutes(5);
  // Of one operation, from its submission to its end.
  absl::Duration timeout = absl::Minutes(10);
  OnFailure on_failure = OnFailure::kAbort;
  // Several ranks may have one device.  Each of them takes a stream of its own:
  // in one stream they would wait for each other.
  bool shared_device = false;
  // A thread looks for failures and timeouts, every 100 ms.  Without it, Wait
  // and a submission that fails find both, state() and failure() find what the
  // engine tells, and nothing ends the work meanwhile.  Then, with an infinite
  // `timeout`, with kReport and with `shared_device`, DEVRT_NCCL_BLOCKING has
  // no effect (decision 43).  The simulator needs no thread: timeouts are in
  // its time.
  bool watch = true;
  // Submissions of several communicators of one device keep one order.
  bool order_across_communicators = true;
  // Ranks may have engines that differ in major or minor version, or in what
  // they can do: no rank has a feature that another one lacks.
  bool allow_mixed_versions = false;
  // For the search of a mismatch: before each submission the ranks compare
  // their collectives, by an exchange of the hosts over the bootstrap of
  // Create, which must outlive the communicator and its uses.  A mismatch is
  // INVALID_ARGUMENT on every rank, with the call and the line of each, and
  // nothing is enqueued.  A rank that does not come within `timeout` fails the
  // communicator.  Sends and receives are not compared, and children of Split
  // and Shrink compare nothing.  Each rank needs a thread of its own; one
  // thread at a time uses the communicators of one bootstrap.  UNIMPLEMENTED
  // for CreateAll.
  bool check_signatures = false;
  // After a failure the ranks tell each other their calls, from the oldest open
  // one on, over the bootstrap of Create, which must be one with a store
  // (Bootstrap::Put) and outlive the communicator.  Where the ranks differ, and
  // which of them tell nothing within 5 s, is in the log and in failure() then,
  // of 64 ranks at most; the destructor waits for that.  In the simulator the
  // call that finds the failure waits, also state() and failure().  The
  // recorder's files tell it without a bootstrap, where all ranks write to one
  // folder (recorder.h).  CreateAll and the children of Split and Shrink
  // exchange nothing.
  bool exchange_records = false;
};

// The engine behind a communicator.
struct ProviderInfo {
  std::string name;     // "mtia", "nccl", "rccl", "mpi"
  std::string version;  // "2.28.9"
  std::string path;     // of the engine's library; empty if there is none
  // What it can do: "abort", "capture", "compares", "keeps_order",
  // "orders_itself", "own_deadlines", "register", "revoke", "shared_device",
  // "shrink", "split", "stream_ordered".
  std::vector<std::string> features = {};
};

// The engine of a communicator without Options::provider.  Loads its library.
//   UNIMPLEMENTED  the device has no engine
//   otherwise      why the library was not loaded, and where it was looked for
DEVRT_EXPORT absl::StatusOr<ProviderInfo> EngineOf(Device device);

// Names NCCL's library for this process, where a program knows it: a copy that
// the process has and DEVRT_NCCL_LIBRARY go before, the dynamic linker's search
// comes after.  Child processes inherit nothing.  Empty: none.
// FAILED_PRECONDITION once NCCL is loaded.
DEVRT_EXPORT absl::Status SetNcclLibrary(std::string path);

// One submitted operation, as the recorder has it.
struct RecordedCall {
  uint64_t number = 0;    // of the communicator's calls, from 1
  uint64_t sequence = 0;  // of its collectives, from 1; 0 for Send and Recv
  OpKind kind = OpKind::kAllReduce;
  std::string text;        // "all_reduce(float32 x 4096, sum)"
  uint64_t stream = 0;     // StreamRef::id()
  uint64_t submit_ns = 0;  // of CLOCK_MONOTONIC, as the next one
  uint64_t end_ns = 0;     // when devrt saw that it was complete; 0: it has not
  std::string file;        // of the call; may be empty
  int line = 0;
};

// Memory that the engine knows of.  The destructor waits for the communicator's
// last submission, or its failure, and takes the memory back.  Destroy it on
// the communicator's thread, before Finish: else the memory stays registered,
// and is not freed, until the Communicator has ended.
class DEVRT_EXPORT Registration {
 public:
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();

 private:
  friend class Communicator;
  Registration(std::shared_ptr<internal::Comm> comm, void* handle,
               const Array& array);
  std::shared_ptr<internal::Comm> comm_;
  void* handle_;
  std::optional<Array> array_;
};

// The place of one rank.
class DEVRT_EXPORT Communicator {
 public:
  // Ranks of this process, for a call of all of them.
  using RankPointers = absl::Span<const Communicator* const>;

  // This rank's part; the others call it too.  Waits for all ranks.
  //   DEADLINE_EXCEEDED    init_timeout is over; says which ranks did not come
  //   FAILED_PRECONDITION  ranks differ in engine, version or options, or two
  //                        have one device without `shared_device`
  //   UNIMPLEMENTED        no engine for the device, or it cannot share one
  static absl::StatusOr<Communicator> Create(Device device,
                                             Bootstrap& bootstrap,
                                             Options options = {},
                                             CallSite site = CallSite::Here());
  // All ranks in this process: rank i has devices[i].  Errors of Create, and
  // INVALID_ARGUMENT for no device, or for devices of several backends.
  static absl::StatusOr<std::vector<Communicator>> CreateAll(
      absl::Span<const Device> devices, Options options = {},
      CallSite site = CallSite::Here());

  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  ~Communicator();

  // Which rank this is, of how many, and where:
  int rank() const;
  int size() const;
  Device device() const;
  // A number that all ranks of the communicator have, and other communicators
  // of one bootstrap do not.
  uint64_t id() const;
  // What stands behind it.
  ProviderInfo provider() const;
  // Returns true if the engine has the operation for the dtype.
  absl::StatusOr<bool> Supports(OpKind kind, DType dtype,
                                Reduction reduction = Reduction::kSum) const;

  // ---- Operations.  Without a stream: the device's current one --------------

  // Submits operations as one group: none waits for another one of them.
  absl::Status Submit(absl::Span<const Operation> operations,
                      std::optional<StreamRef> stream = std::nullopt,
                      CallSite site = CallSite::Here());
  // Each submits the operation of operation.h that has its name:
  absl::Status AllReduce(const Array& out, const Array& in,
                         Reduction reduction = Reduction::kSum,
                         std::optional<StreamRef> stream = std::nullopt,
                         CallSite site = CallSite::Here());
  absl::Status Reduce(const Array& out, const Array& in, Reduction reduction,
                      int root, std::optional<StreamRef> stream = std::nullopt,
                      CallSite site = CallSite::Here());
  absl::Status Broadcast(const Array& x, int root,
                         std::optional<StreamRef> stream = std::nullopt,
                         CallSite site = CallSite::Here());
  absl::Status AllGather(const Array& out, const Array& in,
                         std::optional<StreamRef> stream = std::nullopt,
                         CallSite site = CallSite::Here());
  absl::Status ReduceScatter(const Array& out, const Array& in,
                             Reduction reduction = Reduction::kSum,
                             std::optional<StreamRef> stream = std::nullopt,
                             CallSite site = CallSite::Here());
  absl::Status AllToAll(const Array& out, const Array& in,
                        std::optional<StreamRef> stream = std::nullopt,
                        CallSite site = CallSite::Here());
  absl::Status Gather(const Array& out, const Array& in, int root,
                      std::optional<StreamRef> stream = std::nullopt,
                      CallSite site = CallSite::Here());
  absl::Status Scatter(const Array& out, const Array& in, int root,
                       std::optional<StreamRef> stream = std::nullopt,
                       CallSite site = CallSite::Here());
  absl::Status Send(const Array& x, int peer,
                    std::optional<StreamRef> stream = std::nullopt,
                    CallSite site = CallSite::Here());
  absl::Status Recv(const Array& x, int peer,
                    std::optional<StreamRef> stream = std::nullopt,
                    CallSite site = CallSite::Here());

  // ---- Waits and failure ----------------------------------------------------

  // Waits on the host until the stream's work is complete, or the communicator
  // has failed or was aborted; then it returns that error.  After OK the
  // outputs of the stream's operations are right, unless the calls of the ranks
  // differ and the engine does not notice, as MPI.  DEADLINE_EXCEEDED has two
  // causes: at `deadline` the communicator stays as it is; when
  // Options::timeout is over it has failed.  state() tells which.
  absl::Status Wait(std::optional<StreamRef> stream = std::nullopt,
                    absl::Time deadline = absl::InfiniteFuture(),
                    CallSite site = CallSite::Here());
  // [any thread] The state; asks the engine.  The first call that finds a
  // failure ends what the options say, which takes as long as the engine does,
  // 30 s at most, and 5 s more with `exchange_records` on an engine that has
  // deadlines of its own.
  State state() const;
  // [any thread] Why the communicator failed or was aborted; OK before.  May
  // take as long as state().
  absl::Status failure() const;
  // [any thread] Ends what runs on this rank, and the communicator; after a
  // failure that was only reported, what still runs, and the state stays
  // kFailed.  The second call does nothing.  INTERNAL if the engine has not
  // ended it within 30 s; the device is in quarantine then.
  absl::Status Abort(std::string_view why, CallSite site = CallSite::Here());

  // ---- Others from this one, and the end ------------------------------------

  // These wait for the other ranks, so that each rank needs a thread of its
  // own.  A thread that has several ranks calls the functions whose names end
  // in All, with all of its ranks, each once, or with pointers to them.

  // Collective.  Returns when the hosts of all ranks have called it, and the
  // earlier work of their current streams is complete.  `deadline` ends the
  // wait, as in Wait; until the engine has taken the operation, only
  // Options::timeout counts:
  absl::Status Barrier(absl::Time deadline = absl::InfiniteFuture(),
                       CallSite site = CallSite::Here());
  static absl::Status BarrierAll(absl::Span<const Communicator> ranks,
                                 absl::Time deadline = absl::InfiniteFuture(),
                                 CallSite site = CallSite::Here());
  static absl::Status BarrierAll(RankPointers ranks,
                                 absl::Time deadline = absl::InfiniteFuture(),
                                 CallSite site = CallSite::Here());
  // Collective.  A communicator of the ranks with equal `color`, ordered by
  // `key`, then by rank; none for color -1.  INVALID_ARGUMENT for another
  // negative color.  Waits for the work of the current stream.
  //
  // This communicator fails if the others do not come within
  // Options::init_timeout, and it is aborted.  If a rank cannot make its
  // recorder, each rank gets an error with that rank and the reason at once,
  // and this communicator stays as it was.  Over MPI no limit holds for a rank
  // that dies while MPI makes the child:
  absl::StatusOr<std::optional<Communicator>> Split(
      int color, int key, CallSite site = CallSite::Here());
  static absl::StatusOr<std::vector<std::optional<Communicator>>> SplitAll(
      absl::Span<const Communicator> ranks, absl::Span<const int> colors,
      absl::Span<const int> keys, CallSite site = CallSite::Here());
  static absl::StatusOr<std::vector<std::optional<Communicator>>> SplitAll(
      RankPointers ranks, absl::Span<const int> colors,
      absl::Span<const int> keys, CallSite site = CallSite::Here());
  // Collective of the ranks that are not in `gone`: a communicator of them, in
  // their order.  Also after a failure, and what still runs is aborted then.
  // FAILED_PRECONDITION if it was aborted before and the engine has no revoke.
  // INVALID_ARGUMENT for an empty `gone`, which no engine takes.
  // This one fails if the others do not come, and stays as it was if a rank
  // cannot make its recorder, as in Split.  Where a rank records to files, the
  // new communicator has a collective for that, its first one:
  absl::StatusOr<Communicator> Shrink(absl::Span<const int> gone,
                                      CallSite site = CallSite::Here());
  static absl::StatusOr<std::vector<Communicator>> ShrinkAll(
      absl::Span<const Communicator> ranks, absl::Span<const int> gone,
      CallSite site = CallSite::Here());
  static absl::StatusOr<std::vector<Communicator>> ShrinkAll(
      RankPointers ranks, absl::Span<const int> gone,
      CallSite site = CallSite::Here());
  // Collective.  Waits until the operations of every rank are complete, and
  // ends the communicator.  A registered engine may be unable to tell, and
  // waits for this rank alone then (host_engine.h).  DEADLINE_EXCEEDED leaves
  // it unfinished: only Finish, Abort and the destructor go on from there:
  absl::Status Finish(absl::Time deadline = absl::InfiniteFuture(),
                      CallSite site = CallSite::Here());
  static absl::Status FinishAll(absl::Span<const Communicator> ranks,
                                absl::Time deadline = absl::InfiniteFuture(),
                                CallSite site = CallSite::Here());
  static absl::Status FinishAll(RankPointers ranks,
                                absl::Time deadline = absl::InfiniteFuture(),
                                CallSite site = CallSite::Here());
  // Tells the engine of memory that operations will use often, that of a
  // C-contiguous array.  A hint: an engine without registration does nothing.
  absl::StatusOr<Registration> Register(const Array& array);

  // The newest calls, at most 4,096, oldest first (recorder.h).  Asks the
  // engine, as state() does; after a failure or an abort no call becomes
  // complete.
  std::vector<RecordedCall> Records() const;

  // For devrt's own code:
  explicit Communicator(std::shared_ptr<internal::Comm> comm);
  const std::shared_ptr<internal::Comm>& comm() const { return comm_; }

 private:
  std::shared_ptr<internal::Comm> comm_;
};

}  // namespace devrt::collectives

#endif  // DEVRT_COLLECTIVES_CORE_COMMUNICATOR_H_
