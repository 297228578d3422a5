// SPDX-License-Identifier: Apache-2.0
//
// Deferred deletion: objects whose destructors must not run where the objects
// come to their end.  There are three lists, by what the destructors do:
//
//   deletions       run code of the program or call the backend, so not inside
//                   a host function, where frees are refused (C42): function
//                   objects of host functions, and native handles whose owners
//                   were destroyed there.  The next call that submits, waits,
//                   queries or creates runs them.
//   array releases  take locks of arrays: arrays that other libraries drop on
//                   any thread at any moment (E29).  They run where a call uses
//                   arrays, when a device is waited for and at Shutdown; never
//                   inside another call of devrt, which may hold such a lock.
//   capture ends    run no code of other libraries and wait for nothing:
//                   captures whose last graph is gone.  Calls for memory run
//                   only these, because their callers may hold locks that such
//                   code needs.
//
// The functions Defer... take ownership, and may be called on any thread and
// inside host functions.  The functions Run... do nothing inside a host
// function or in a forked child; the last two also do nothing after Shutdown.

#ifndef DEVRT_STREAMS_COMMON_DEFERRED_DELETION_H_
#define DEVRT_STREAMS_COMMON_DEFERRED_DELETION_H_

#include <atomic>
#include <utility>

#include "absl/base/optimization.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

struct DeferredObject {
  virtual ~DeferredObject() = default;
  DeferredObject* next_deferred = nullptr;
};

extern std::atomic<DeferredObject*> g_deferred_deletions;

void DeferDeletion(DeferredObject* object);
inline bool HasDeferredDeletions() {
  return g_deferred_deletions.load(std::memory_order_relaxed) != nullptr;
}
void RunDeferredDeletions();

// Calls `f` now, or as a deferred deletion if the thread is inside a host
// function.
template <typename F>
void RunOutsideHostFunction(F f) {
  if (ABSL_PREDICT_TRUE(!InHostFunction())) {
    f();
    return;
  }
  struct Later final : DeferredObject {
    explicit Later(F function) : f(std::move(function)) {}
    ~Later() override { f(); }
    F f;
  };
  DeferDeletion(new Later(std::move(f)));
}

void DeferArrayRelease(DeferredObject* object);
// Returns true if there are array releases or capture ends.
bool HasDeferredArrayReleases();
// Runs capture ends first.
void RunDeferredArrayReleases();

void DeferCaptureEnd(DeferredObject* object);
void RunDeferredCaptureEnds();

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_COMMON_DEFERRED_DELETION_H_
