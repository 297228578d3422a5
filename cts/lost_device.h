// SPDX-License-Identifier: Apache-2.0
//
// Helpers for tests that lose a device (kOwnProcess).  The table does not say
// what destroying an object of a lost device does, so these tests destroy none.
//
//   RawStream& s = NeverDestroyed<RawStream>(t, t.device());
//   CommitFault(t, s);
//   t.Code(SyncOf(t, s), DEVRT_INTERNAL, "...");

#ifndef DEVRT_CTS_LOST_DEVICE_H_
#define DEVRT_CTS_LOST_DEVICE_H_

#include <deque>
#include <utility>

#include "cts/objects.h"

namespace devrt::cts {

// An object that is never destroyed.  Threads: the body's own.
template <typename T, typename... Args>
T& NeverDestroyed(Args&&... args) {
  static auto* const all = new std::deque<T>;
  return all->emplace_back(std::forward<Args>(args)...);
}

// Enqueues a kernel that faults (devrt.probe/0).  If fault_delivery is ABORT,
// the process may end by a signal from here on.
inline void CommitFault(Test& t, const RawStream& stream,
                        uint32_t form = DEVRT_FAULT_NULL_WRITE) {
  Machine& m = t.machine();
  if (m.props(stream.device()).fault_delivery == DEVRT_FAULT_DELIVERY_ABORT) {
    t.MayDie();
  }
  t.Require(m.CallExtension(&devrt_probe_v0::fault, m.probe(), m.probe_self(),
                            stream.handle(), form),
            "submission of a kernel that faults");
}

// Holds the stream for good; a Gate would open after some time.
inline void HoldForEver(Test& t, const RawStream& stream) {
  Machine& m = t.machine();
  devrt_flag flag = nullptr;
  t.Require(m.CallExtension(&devrt_probe_v0::flag_create, m.probe(),
                            m.probe_self(), stream.device(), &flag),
            "flag creation");
  t.Require(m.CallExtension(&devrt_probe_v0::flag_wait, m.probe(),
                            m.probe_self(), stream.handle(), flag, uint64_t{0}),
            "wait for a flag");
}

inline Result SyncOf(Test& t, const RawStream& stream) {
  return t.machine().Call<&devrt_ops_v0::stream_sync>(stream.handle());
}

// True if a fault of one device must not affect the others.
inline bool FaultsStayWithTheirDevice(Test& t) {
  return t.machine().props(t.device()).fault_scope == DEVRT_FAULT_SCOPE_DEVICE;
}

// Expects that memory, a stream and a fill work on `device`.
inline void ExpectWorks(Test& t, uint32_t device, const char* what) {
  Machine& m = t.machine();
  void* memory = nullptr;
  if (!t.Ok(m.Call<&devrt_ops_v0::alloc>(device, uint64_t{1000}, uint64_t{0},
                                         &memory),
            what)) {
    return;
  }
  {
    const RawStream s(t, device);
    s.Fill(memory, 1, 1000);
    t.Ok(SyncOf(t, s), what);
    t.Expect(Reader(t, device, 1000).Holds(memory, 1), what);
  }
  t.Ok(m.Call<&devrt_ops_v0::dealloc>(device, memory, uint64_t{1000}), what);
}

}  // namespace devrt::cts

#endif  // DEVRT_CTS_LOST_DEVICE_H_
