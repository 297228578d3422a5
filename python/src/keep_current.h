// SPDX-License-Identifier: Apache-2.0
//
// KeepCurrent saves the calling thread's current devices and streams, and the
// active backend, while code of other libraries runs (E6).
//
//   KeepCurrent keep;
//   Call(producer);  // Python code, which may leave other ones current
//   keep.Restore();  // before devrt goes on; else the end of the scope does it
//
// It saves every opened backend, and changes nothing if nothing was changed, so
// a thread without a driver context gets none.  Use DeviceGuard to make a
// device current.  The saved streams live as long as this object.
//
// Needs the GIL, which it releases when it has to restore something.

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

  // An exception that is set stays set.
  void Restore();
  // Restores the streams only, after a guard has made a device current.
  void RestoreStreams();

 private:
  absl::InlinedVector<Device, 4> devices_;
  absl::InlinedVector<CurrentSlot, 8> streams_;  // by the device's index
  BackendEntry* active_ = nullptr;
};

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_KEEP_CURRENT_H_
