// SPDX-License-Identifier: Apache-2.0
//
// Entering and leaving the machine: one Call per table call.

#ifndef DEVRT_BACKENDS_MTIA_TABLE_CALL_H_
#define DEVRT_BACKENDS_MTIA_TABLE_CALL_H_

#include <cstdint>

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/engine/op.h"
#include "backends/mtia/engine/slot.h"
#include "backends/mtia/engine/user_code.h"
#include "devrt/backends/abi/devrt_probe.h"

namespace devrt::mtia {

// kCallback: the call is allowed in host functions and kernel bodies.
enum class CallTag { kPlain, kCallback };

// The device, stream, event or flag of a call.  An injected error hits calls of
// its device.
struct About {
  enum Kind : uint8_t { kNoDevice, kDevice, kStream, kEvent, kFlag };
  Kind kind = kNoDevice;
  uint64_t value = 0;
};
inline About OnDevice(uint32_t device) { return {About::kDevice, device}; }
inline About OnStream(devrt_stream stream) {
  return {About::kStream, reinterpret_cast<uint64_t>(stream)};
}
inline About OnEvent(devrt_event event) {
  return {About::kEvent, reinterpret_cast<uint64_t>(event)};
}
inline About OnFlag(devrt_flag flag) {
  return {About::kFlag, reinterpret_cast<uint64_t>(flag)};
}

// A call of the table.  The constructor enters the machine.  The destructor
// leaves, and makes the deferred calls.
//
// A call is a decision, in which operations and other threads move, where that
// can change what the program sees: a query before its answer, a call that
// submits work or sets a flag at its end, and a wait.  Records and the making
// and destroying of objects are none.  Work that they would let run can run at
// the next decision as well.
//
//   Call call(Slot::event_query, OnEvent(event), CallTag::kCallback);
//   if (call.refused()) return call.error();
class Call {
 public:
  explicit Call(Slot slot, About about = {}, CallTag tag = CallTag::kPlain);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool refused() const { return error_ != nullptr; }
  devrt_status error() const { return error_; }
  HostThread* me() const { return me_; }
  const char* entry() const { return SlotName(slot_); }
  // Notes where the program made this call, for submissions and waits.
  void NoteSite();
  // Lets operations and other threads move at the end of the call.
  void DecideAtEnd() { decides_ = true; }
  // Makes a call of devrt.sim/1 take as much time as other calls.
  void TakeTime() { takes_time_ = true; }
  // Waits for me()->want.  Returns NULL, or the error of a point or of the
  // wait.
  devrt_status Wait();

 protected:
  devrt_status error_ = nullptr;

 private:
  enum class How : uint8_t { kOutside, kEntered, kBorrowed, kNested };

  void EnterUserCode(CallTag tag);
  void Leave();

  const Slot slot_;
  How how_ = How::kOutside;
  bool decides_ = false;
  bool takes_time_;
  HostThread* me_ = nullptr;
};

// With raw_free_syncs=yes waits for `device`, as cudaFree does (memory.cc).
devrt_status SyncBeforeFree(Call* call, uint32_t device);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TABLE_CALL_H_
