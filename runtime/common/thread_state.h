// SPDX-License-Identifier: Apache-2.0
//
// What devrt keeps for each thread: where the thread entered devrt, whether it
// runs a host function, the number of its guards and its current streams.
//
// Not for programs: the header is public because guards are inline
// (runtime/registry/gate.h).

#ifndef DEVRT_RUNTIME_COMMON_THREAD_STATE_H_
#define DEVRT_RUNTIME_COMMON_THREAD_STATE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_program_stack.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"

namespace devrt::internal {

struct StreamSlot;  // streams/objects/current_streams.h

// Plain data, all zero when the thread starts.
struct ThreadState {
  // The number of the thread's innermost guard (guards/enter.h).  0 before the
  // thread's first guard and inside a host function, so that a new guard takes
  // its slow path.
  uint64_t guard;
  // The thread's current streams, by the index of their devices
  // (streams/objects/current_streams.h).
  StreamSlot* slots;
  uint32_t slot_count;
  bool in_host_function;
  bool asks_for_devrt;  // OwnQuery
  // What devrt_host_v0::call_site answers to the plugin.
  devrt_call_site_v0 site;
  // The calls of the program that led here, if an interpreter runs it and a
  // layer wants them (devrt_program_stack.h); nullptr: nobody has noted them.
  const devrt_program_frames_v0* frames;
};

// __thread and not thread_local: a thread_local variable of another file is
// read through a wrapper that checks the initialisation.
extern DEVRT_EXPORT __thread ThreadState t_state
    __attribute__((tls_model("initial-exec")));

// What layers and the interpreter's binding tell each other about call stacks
// (devrt_program_stack.h).
struct ProgramStacks {
  std::atomic<uint32_t> wants{0};  // calls of want() that nobody took back
  // Addresses in the binding and in the interpreter.
  std::atomic<const void*> interpreter[2] = {};
  // The binding's function for a call that did not come through the binding;
  // nullptr: there is no binding.  It waits for no lock, and returns nullptr
  // where it would need to.
  std::atomic<const devrt_program_frames_v0* (*)()> note{nullptr};
};
// A function: where a program has the library twice, AddressSanitizer reports a
// variable that both export.
DEVRT_EXPORT ProgramStacks& GetProgramStacks();

// ---- The site of the thread's present call ----------------------------------

inline void SetCallSite(CallSite site, const char* label = nullptr) {
  t_state.site.file = site.file;
  t_state.site.line = site.line;
  t_state.site.label = label;
}

// Sets the thread's site while the object lives.  Afterwards the thread has no
// site, so that calls without a site, such as guards, need not clear one.
class CallSiteScope {
 public:
  explicit CallSiteScope(CallSite site) { SetCallSite(site); }
  ~CallSiteScope() { SetCallSite({}); }
  CallSiteScope(const CallSiteScope&) = delete;
  CallSiteScope& operator=(const CallSiteScope&) = delete;
};

// Surrounds a query that devrt makes for itself, and whose answer the program
// does not get (devrt_own_query.h).
class OwnQuery {
 public:
  OwnQuery() { t_state.asks_for_devrt = true; }
  ~OwnQuery() { t_state.asks_for_devrt = false; }
  OwnQuery(const OwnQuery&) = delete;
  OwnQuery& operator=(const OwnQuery&) = delete;
};

// ---- Host functions ---------------------------------------------------------

// Returns true while the calling thread runs a host function, or a kernel on
// the host, of any backend.  devrt refuses calls there that enqueue, wait,
// create, destroy or allocate, and guards (C42).
inline bool InHostFunction() {
  return __builtin_expect(t_state.in_host_function, 0);
}
// Logs and returns FAILED_PRECONDITION.  `call` names what the program did.
absl::Status HostFunctionError(const char* call);

// Surrounds the body of a host function.  Scopes may be nested; the end of the
// outermost scope gives the thread its guards back.
class HostFunctionScope {
 public:
  HostFunctionScope()
      : guard_(t_state.guard), in_host_function_(t_state.in_host_function) {
    t_state.guard = 0;
    t_state.in_host_function = true;
  }
  ~HostFunctionScope() {
    t_state.guard = guard_;
    t_state.in_host_function = in_host_function_;
  }
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;

 private:
  const uint64_t guard_;  // before the scope, as is the flag
  const bool in_host_function_;
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_COMMON_THREAD_STATE_H_
