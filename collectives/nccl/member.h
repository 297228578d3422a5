// SPDX-License-Identifier: Apache-2.0
//
// Member: the place of one rank in a communicator, behind a devrt_comm.  It
// knows whether the native communicator may be used, and keeps the reason why
// it failed.
//
// The native communicator never blocks: a call that takes longer answers
// kInProgress, and Poll tells its end.  Submissions of a member that LetWait
// was called for take another one, whose calls block (blocking_comm.h).
//
// Threads: as devrt_collectives.h says.  Poll and Abort may run beside the
// other calls, so each call that uses the native communicator holds a Use, and
// Abort waits for those.

#ifndef DEVRT_COLLECTIVES_NCCL_MEMBER_H_
#define DEVRT_COLLECTIVES_NCCL_MEMBER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "collectives/nccl/blocking_comm.h"
#include "collectives/nccl/library.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/runtime/gate.h"
#include "devrt/runtime/mutex.h"

namespace devrt::collectives::nccl {

class Member {
 public:
  // `parent` of a split or a shrink: the library makes the native communicator
  // while the parent is in progress.  The parent outlives a child that is being
  // made.  `ranks` is 0 where only the library knows it: a split.
  Member(const Library& library, devrt::internal::DeviceGate* device,
         uint32_t ranks, uint32_t rank, const char* name,
         Member* parent = nullptr);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  static Member* Of(devrt_comm comm) { return reinterpret_cast<Member*>(comm); }
  devrt_comm handle() { return reinterpret_cast<devrt_comm>(this); }

  devrt::internal::DeviceGate* device() const { return device_; }
  int ordinal() const { return static_cast<int>(device_->ordinal); }
  // Known once it has been ready.
  uint32_t ranks() const { return ranks_.load(std::memory_order_relaxed); }
  uint32_t rank() const { return rank_.load(std::memory_order_relaxed); }
  const std::string& name() const { return name_; }
  // `communicator "grads" (rank 0 of 2, cuda:0)`
  std::string Describe() const;

  // Where the library writes the native communicator, and what is there now:
  // nullptr before the library has made it.
  Comm* place() { return &native_; }
  Comm native() const { return __atomic_load_n(&native_, __ATOMIC_ACQUIRE); }
  // Where the library writes, while this member is in progress, that a split
  // gave the rank no child.
  Comm* no_child() { return &no_child_; }
  // The configuration of the native communicator, which does not block.
  Config config() const;

  // Lets submissions wait for other ranks, on every rank alike, where
  // BlockingComm::IsPossible: before the first poll.
  void LetWait();
  bool waits() const { return blocking_ != nullptr; }
  // Of the option shared_device, and of the children: other ranks may have this
  // rank's device.
  void ShareDevice() { shares_device_ = true; }
  bool shares_device() const { return shares_device_; }
  // The one for submissions, once the member has been ready.
  Comm calls() const { return waits() ? blocking_->calls() : native(); }
  // Returns true while polls make communicators.
  bool IsMaking() const { return waits() && !blocking_->is_made(); }

  // Lives while the calling thread uses the native communicator.
  class Use {
   public:
    explicit Use(Member* member);
    ~Use() {
      if (member_ != nullptr) member_->EndUse();
    }
    Use(Use&& other) noexcept : member_(other.member_) {
      other.member_ = nullptr;
    }
    Use& operator=(Use&&) = delete;
    // False: it is being aborted, or was.
    explicit operator bool() const { return member_ != nullptr; }
    // The member, whose use the caller ends by EndUse.
    Member* Release() { return std::exchange(member_, nullptr); }

   private:
    Member* member_;
  };

  void EndUse() { users_.fetch_sub(1); }

  // What operations of one kind, dtype, reduction and root share, which the
  // library has and the member may submit.
  struct Known {
    uint32_t op = UINT32_MAX, dtype = 0, reduction = 0;
    int32_t root = 0;
    DataType type = -1;
    uint64_t src_parts = 0, dst_parts = 0;  // in units of `count` elements
    uint64_t bytes_of_all = 0;              // of one element for each rank

    bool IsOf(const devrt_collective_v0& o) const {
      return op == o.op && dtype == o.dtype && reduction == o.reduction &&
             root == o.root_or_peer;
    }
  };
  // For the thread that submits: of the newest operation, since most repeat it.
  Known& known() { return known_; }

  // nullptr if operations may be submitted; ABORTED after a failure,
  // FAILED_PRECONDITION while PENDING and after the beginning of the end.
  devrt_status CheckReady() {
    return __builtin_expect(state_.load(std::memory_order_acquire) == kReady, 1)
               ? nullptr
               : WhyNotReady();
  }
  // As CheckReady; OK after a revoke, too.
  devrt_status CheckParent();

  // Takes the answer of a native call of this member: kInProgress makes it
  // PENDING, another error fails it.
  devrt_status Take(Result result, const char* symbol);
  // As Take, of an answer that leaves the member as it was.
  devrt_status Report(Result result, const char* symbol) const;
  // Of a call that enqueues, and of a group.  Where submissions wait, the
  // answer is the failure itself, and no poll tells of it; a refusal leaves the
  // member as it was.
  [[gnu::cold]] devrt_status TakeCall(Result result, const char* symbol);
  [[gnu::cold]] devrt_status TakeGroup(Result result);

  devrt_status Poll(uint32_t* state);
  // Returns true until a poll has seen the end of a call that was in progress,
  // and after a failure.
  bool IsPending() const {
    return state_.load(std::memory_order_acquire) != kReady;
  }
  // Notes that the orderly end has begun: PENDING until a poll sees its end.
  void NoteFinishing();
  bool IsFinished() const { return state_.load() == kEnded; }
  void NoteRevoked();
  bool IsRevoked() const { return revoked_; }
  // Ends what submissions have enqueued, and those that wait, where the native
  // communicator has no part in it.
  Result EndCalls() { return waits() ? blocking_->EndCalls() : kSuccess; }
  // Begins the orderly end.
  Result Finalize();
  // Frees the native communicators.
  Result Abort();
  Result Destroy();
  // Fails the member for a reason that is no error of the library.
  void NoteFailed(const char* why) { Fail(kSuccess, "", why); }

  enum class Aborting { kMine, kRuns, kDone };
  // Keeps other threads from the native communicator and waits until none uses
  // it, 5 s at most.  kMine: the caller frees, and then calls EndAbort.
  Aborting BeginEnd(const char* why);
  void EndAbort() { abort_done_ = true; }
  // True for a child whose native communicator the library may still make.
  bool IsBeingMade() const;

 private:
  enum State : uint32_t { kPending, kReady, kRevoked, kFailed, kEnded };

  // Asks the library what of `asked` is in progress; `asked` is this member, or
  // the parent that makes it.
  Result Ask(Member* asked, Result* answer);
  // After the library has answered that nothing is in progress.  Stays PENDING
  // while it makes more.
  devrt_status Settle();
  devrt_status FindRank();
  void BecomePending();

  [[gnu::cold]] devrt_status WhyNotReady() const;
  // The error of an operation that a failure keeps from being submitted.
  devrt_status Failed() const;
  [[gnu::cold]] void Fail(Result result, const char* symbol, std::string text);

  const Library& library_;
  devrt::internal::DeviceGate* const device_;
  Known known_;
  std::atomic<uint32_t> ranks_, rank_;
  const std::string name_;
  Member* parent_;
  Comm native_ = nullptr;
  Comm no_child_ = nullptr;
  std::unique_ptr<BlockingComm> blocking_;
  bool shares_device_ = false;
  std::atomic<uint32_t> state_{kPending};
  std::atomic<int> users_{0};
  std::atomic<bool> revoked_{false};
  std::atomic<bool> finishing_{false};
  std::atomic<bool> aborting_{false};
  std::atomic<bool> abort_done_{false};
  mutable Mutex mutex_;
  // Why it failed; kSuccess with a text: it was aborted.
  Result failure_ DEVRT_GUARDED_BY(mutex_) = kSuccess;
  const char* symbol_ DEVRT_GUARDED_BY(mutex_) = "";
  std::string text_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::collectives::nccl

#endif  // DEVRT_COLLECTIVES_NCCL_MEMBER_H_
