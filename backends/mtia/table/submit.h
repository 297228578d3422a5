// SPDX-License-Identifier: Apache-2.0
//
// Calls that submit an operation to a stream.

#ifndef DEVRT_BACKENDS_MTIA_TABLE_SUBMIT_H_
#define DEVRT_BACKENDS_MTIA_TABLE_SUBMIT_H_

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/table/call.h"

namespace devrt::mtia {

// A call that submits to a stream that must be live and work.
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

  // Waits until the stream has room for a kernel, copy or fill.  Other threads
  // may call devrt meanwhile: objects that were looked up before, but for the
  // stream, have to be looked up again.
  devrt_status MakeRoom();
  // MakeRoom for a kernel.  With strict=cuda the stream's device must be
  // current (S8).
  devrt_status MakeRoomForKernel();
  // A new operation for `engine`.  The label of the call site, if there is one,
  // names it.
  Op* NewOp(OpKind kind, EngineClass engine, const char* name);

 private:
  Call call_;
  StreamCore* core_ = nullptr;
  uint64_t life_ = 0;  // StreamCore::life at the look-up
  devrt_status error_ = nullptr;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TABLE_SUBMIT_H_
