// SPDX-License-Identifier: Apache-2.0
//
// KeepCurrent: the calling thread's current devices and streams, whatever code
// of other libraries makes of them (E6).
//
//   KeepCurrent keep;
//   Ask(producer);   // Python code, which may leave other ones current
//   keep.Restore();  // before devrt goes on; else the end of the scope does it
//
// Of each opened backend, and which of them is the active one.  It makes
// nothing current that was, so that a thread without a context of the driver's
// gets none; for a device inside a scope there is DeviceGuard.  Streams that
// were current live as long as it does.
//
// Needs the GIL, which it lets go where something has to be restored.

#ifndef DEVRT_PYTHON_SRC_KEEP_CURRENT_H_
#define DEVRT_PYTHON_SRC_KEEP_CURRENT_H_

#include "absl/container/inlined_vector.h"
#include "devrt/runtime/device.h"
#include "python/src/device.h"
#include "python/src/thread_state.h"

namespace devrt::python {

class KeepCurrent {
 public:
  KeepCurrent();
  KeepCurrent(const KeepCurrent&) = delete;
  KeepCurrent& operator=(const KeepCurrent&) = delete;
  ~KeepCurrent();

  // What is raised stays raised.
  void Restore();
  // The same of streams alone, where a guard has made a device current.
  void RestoreStreams();

 private:
  absl::InlinedVector<Device, 4> devices_;
  absl::InlinedVector<CurrentSlot, 8> streams_;  // by the device's index
  BackendEntry* active_ = nullptr;
};

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_KEEP_CURRENT_H_
