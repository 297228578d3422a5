// SPDX-License-Identifier: Apache-2.0
//
// NativeHandle: the native handle of one stream, and which calls may use it.
//
// A thread borrows the handle for a call of the driver.  If the stream ends
// meanwhile, the thread that returns the handle last destroys the native
// stream:
//
//   const devrt_stream stream = handle.Borrow();
//   if (stream == nullptr) ...  // the stream has ended
//   ... calls of the driver with `stream` ...
//   handle.Return();
//
// Two kinds of stream restrict who may use the handle:
// - An adopted stream without an owner may be destroyed whenever the program is
//   outside a call that names the stream (MayBeDestroyed; C17, F22).
// - The native handle of a per-thread stream means the calling thread's own
//   stream, on whatever thread the call is made (IsValidOnThisThread).
//
// Captures are CUDA graph captures that another library began.  Only streams
// that may be part of one are asked: those whose handle others have, and those
// that wait or have waited for captured work (MayCapture).
//
// Threads: any.  No lock: one word says whether there is a native stream, and
// counts the threads that borrow its handle.

#ifndef DEVRT_STREAMS_TIMELINES_NATIVE_HANDLE_H_
#define DEVRT_STREAMS_TIMELINES_NATIVE_HANDLE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/thread_state.h"
#include "runtime/registry/records.h"
#include "streams/common/extension.h"

namespace devrt::internal {

class NativeHandle {
 public:
  // `capture` is the extension of `device` and outlives the handle.
  NativeHandle(DeviceRecord* device,
               const ExtensionOf<devrt_capture_v0>* capture)
      : device_(device), capture_(capture) {}
  NativeHandle(const NativeHandle&) = delete;
  NativeHandle& operator=(const NativeHandle&) = delete;

  // Sets the handle, once the native stream is made.  `thread`: &t_state of
  // the only thread on which the handle is valid, or nullptr for all threads.
  // `may_be_destroyed`: as MayBeDestroyed.  `exposed`: others have the handle.
  void Attach(devrt_stream handle, const void* thread, bool may_be_destroyed,
              bool exposed);
  // Takes the handle away, because the native stream ends.  Returns true if no
  // thread borrows the handle, so that the caller has to destroy the native
  // stream.  Returns false if the last borrower will destroy it, provided
  // `destroy` is set.
  bool Detach(bool destroy);
  // Takes the handle away, because the device destroys its native streams.
  void Forget() { state_.fetch_and(~kLive, std::memory_order_acq_rel); }

  // Returns the handle.  The native stream is not destroyed until Return is
  // called.  Returns nullptr if there is no native stream; then Return must not
  // be called.
  devrt_stream Borrow() {
    uint32_t state = state_.load(std::memory_order_relaxed);
    do {
      if ((state & kLive) == 0) return nullptr;
    } while (!state_.compare_exchange_weak(state, state + kBorrower,
                                           std::memory_order_acquire,
                                           std::memory_order_relaxed));
    return handle_.load(std::memory_order_relaxed);
  }
  void Return() {
    // The last borrower alone has this value, and no other thread changes it.
    uint32_t state = state_.load(std::memory_order_acquire);
    while (state != (kBorrower | kDestroy)) {
      if (state_.compare_exchange_weak(state, state - kBorrower,
                                       std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        return;
      }
    }
    ReturnAndDestroy();
  }
  bool IsBorrowed() const {
    return state_.load(std::memory_order_acquire) >= kBorrower;
  }

  // Returns true if the handle means this stream on the calling thread.
  bool IsValidOnThisThread() const {
    const void* thread = thread_.load(std::memory_order_relaxed);
    return thread == nullptr || thread == &t_state;
  }
  // Returns true if the native stream may already be destroyed: it was adopted
  // without an owner, so only a call that names the stream may use the handle.
  bool MayBeDestroyed() const {
    return may_be_destroyed_.load(std::memory_order_relaxed);
  }
  // Returns true if later calls on other threads cannot use the handle.
  bool IsForPresentCallOnly() const {
    return MayBeDestroyed() ||
           thread_.load(std::memory_order_relaxed) != nullptr;
  }
  // Returns true if the calling thread may query the stream outside a call that
  // names it.
  bool IsReachable() const;

  // ---- Captures -------------------------------------------------------------

  // Returns true if the stream may be part of a capture.
  bool MayCapture() const {
    return may_capture_.load(std::memory_order_relaxed) != 0;
  }
  // Notes that others have the native handle from now on, and may capture the
  // stream.
  void NoteExposed() {
    may_capture_.fetch_or(kExposed, std::memory_order_relaxed);
  }
  // Called before and after a native wait for an event that may be part of a
  // capture.  The wait makes the stream part of that capture, so other threads
  // must ask meanwhile.  `joined`: the stream is now part of the capture.
  void BeginJoin() {
    may_capture_.fetch_add(kJoining, std::memory_order_relaxed);
  }
  void EndJoin(bool joined) {
    if (joined) NoteExposed();
    may_capture_.fetch_sub(kJoining, std::memory_order_relaxed);
  }
  // The device's extension for captures.
  const ExtensionOf<devrt_capture_v0>& capture() const { return *capture_; }
  // Asks the driver whether the stream is captured.  Returns false without a
  // question if the calling thread may not use the handle.
  absl::StatusOr<bool> IsCaptured();
  // FAILED_PRECONDITION while the stream, whose handle is borrowed, is
  // captured.  An event that is recorded then stands for no work that runs, and
  // a query of the stream would make the capture invalid.
  absl::Status CheckNoCapture(devrt_stream handle) const;

 private:
  static constexpr uint32_t kExposed = 1;
  static constexpr uint32_t kJoining = 2;  // added for each wait under way

  // Of `state_`.
  static constexpr uint32_t kLive = 1;      // there is a native stream
  static constexpr uint32_t kDestroy = 2;   // by the last borrower
  static constexpr uint32_t kBorrower = 4;  // added for each borrower

  absl::StatusOr<bool> QueryCapture(devrt_stream handle) const;
  void ReturnAndDestroy();

  DeviceRecord* const device_;
  const ExtensionOf<devrt_capture_v0>* const capture_;
  std::atomic<const void*> thread_{nullptr};
  std::atomic<bool> may_be_destroyed_{false};
  std::atomic<uint32_t> may_capture_{kExposed};
  std::atomic<uint32_t> state_{0};
  // Stays when the native stream ends: its borrowers may not have read it yet.
  std::atomic<devrt_stream> handle_{nullptr};
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_TIMELINES_NATIVE_HANDLE_H_
