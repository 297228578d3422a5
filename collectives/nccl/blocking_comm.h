// SPDX-License-Identifier: Apache-2.0
//
// BlockingComm: a second communicator of all ranks of a Member, whose calls
// return when they have enqueued.  Calls of one that does not block cost a
// thread of the library each.
//
// Such a call may wait for other ranks, since the library connects them when it
// first needs a connection.  ncclCommAbort frees what it ends, so it must not
// be given a communicator that another thread is in.  So there are two more:
//
//   the member's       does not block; parent of splits and shrinks
//     └ the keeper     does not block; shares resources with its child
//         └ the calls  blocks; takes the submissions
//
// Those that share resources have one abort flag.  An abort of the keeper,
// which no thread is in, ends the calls, and leaves the other's memory alone
// (docs/decisions/0043-nccl-calls-that-block.md).
//
// Threads: any, but for Make and Destroy: one at a time.

#ifndef DEVRT_COLLECTIVES_NCCL_BLOCKING_COMM_H_
#define DEVRT_COLLECTIVES_NCCL_BLOCKING_COMM_H_

#include <atomic>
#include <cstdint>

#include "collectives/nccl/library.h"
#include "devrt/runtime/mutex.h"

namespace devrt::collectives::nccl {

class BlockingComm {
 public:
  explicit BlockingComm(const Functions& functions) : functions_(functions) {}
  BlockingComm(const BlockingComm&) = delete;
  BlockingComm& operator=(const BlockingComm&) = delete;

  // True unless DEVRT_NCCL_BLOCKING=off refuses such communicators, the library
  // makes them, and the user has not said himself which ones share resources
  // or block.
  static bool IsPossible(const Library& library);

  // Takes the next step.  `parent` is the member's, and nothing of it is in
  // progress.  kInProgress until calls() is there; for an error `*symbol` is
  // the call that gave it.
  Result Make(Comm parent, uint32_t rank, const char* name,
              const char** symbol);
  bool is_made() const { return step_.load() == kMade; }
  // For submissions and registrations; nullptr before it is made.
  Comm calls() const { return __atomic_load_n(&calls_, __ATOMIC_ACQUIRE); }

  // Ends what runs, and calls that wait; none can follow.  If another thread
  // has begun this, returns when that has returned.
  Result EndCalls();
  // Begins the orderly end.  AskFinish tells whether the work is complete.
  Result Finalize();
  Result AskFinish(Result* answer);

  // Frees what there is; no thread is in a call.  Returns the first error, that
  // of EndCalls too.
  Result Abort() { return Free(functions_.comm_abort); }
  // As Abort, after the orderly end.
  Result Destroy() { return Free(functions_.comm_destroy); }

 private:
  enum Step { kNothing, kKeeper, kCalls, kMade };

  Result Split(Comm parent, uint32_t rank, const char* name, bool blocks,
               Comm* place, const char** symbol);
  Result Free(Result (*end)(Comm comm));

  const Functions& functions_;
  std::atomic<int> step_{kNothing};
  Mutex ending_;         // held by EndCalls
  mutable Mutex mutex_;  // for Make, and for who uses or takes the keeper
  // The library writes them.
  Comm keeper_ = nullptr;
  Comm calls_ = nullptr;
  Result first_error_ DEVRT_GUARDED_BY(mutex_) = kSuccess;
};

}  // namespace devrt::collectives::nccl

#endif  // DEVRT_COLLECTIVES_NCCL_BLOCKING_COMM_H_
