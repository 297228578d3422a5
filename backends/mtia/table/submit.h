// SPDX-License-Identifier: Apache-2.0
//
// What all submissions have in common.

#ifndef DEVRT_BACKENDS_MTIA_TABLE_SUBMIT_H_
#define DEVRT_BACKENDS_MTIA_TABLE_SUBMIT_H_

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/table/call.h"

namespace devrt::mtia {

// A call that submits to a stream: enters, checks the stream and its state.
//
//   Submission submission(Slot::fill_async, stream);
//   if (!submission.ok()) return submission.error();
class Submission {
 public:
  Submission(Slot slot, devrt_stream stream);
  bool ok() const { return core_ != nullptr; }
  devrt_status error() const { return error_; }
  StreamCore* core() const { return core_; }
  Call& call() { return call_; }

  // Waits until the stream has room for a kernel, copy or fill.  What was
  // looked up before may be gone afterwards, but for the stream.
  devrt_status MakeRoom();
  // The same for a kernel, which strict=cuda wants launched on the current
  // device (S8).
  devrt_status MakeRoomForKernel();
  // An operation on an engine; named by the user's label if there is one.
  Op* NewOp(OpKind kind, EngineClass engine, const char* name);

 private:
  Call call_;
  StreamCore* core_ = nullptr;
  uint64_t life_ = 0;  // of the core
  devrt_status error_ = nullptr;
};

// The calling thread's current device (device.cc).
uint32_t CurrentDevice();

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TABLE_SUBMIT_H_
