// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/table/submit.h"

#include <string>

#include "backends/mtia/engine/current_device.h"

namespace devrt::mtia {

Submission::Submission(Slot slot, devrt_stream stream)
    : call_(slot, OnStream(stream)) {
  error_ = call_.error();
  if (error_ != nullptr) return;
  Stream* const found = g_machine->streams.Find(stream, &error_);
  if (found == nullptr) return;
  call_.NoteSite();
  error_ = g_machine->faults.StreamError(found->core, call_.entry());
  if (error_ != nullptr) return;
  core_ = found->core;
  life_ = core_->life;
  const uint64_t number = HostStreamNumber(stream);
  if (number != 0) core_->host_number = number;
}

devrt_status Submission::MakeRoom() {
  const uint32_t depth = g_machine->config.queue_depth;
  while (depth != kUnlimited && core_->queued_work >= depth) {
    const Op* oldest = core_->head;
    while (!IsWork(oldest)) oldest = oldest->next;
    Points& want = call_.me()->want;
    want.clear();
    want.push_back({core_, oldest->seq});
    if (devrt_status error = call_.Wait()) return error;
    if (core_->life != life_ || core_->destroyed) {
      return MakeError(DEVRT_INVALID_ARGUMENT, 400,
                       "the stream was destroyed while the call waited for "
                       "room in it");
    }
    devrt_status error = g_machine->faults.StreamError(core_, call_.entry());
    if (error != nullptr) return error;
  }
  return nullptr;
}

devrt_status Submission::MakeRoomForKernel() {
  if (g_machine->config.strict_cuda && t_device != core_->device) {
    return MakeError(
        DEVRT_INVALID_ARGUMENT, 400,
        "strict=cuda: the current device is mtia:" + std::to_string(t_device) +
            ", the stream's mtia:" + std::to_string(core_->device));
  }
  return MakeRoom();
}

Op* Submission::NewOp(OpKind kind, EngineClass engine, const char* name) {
  Op* const op = g_machine->scheduler.NewOp(kind, core_, call_.me(), name);
  op->engine = engine;
  call_.DecideAtEnd();
  const char* const label = CurrentSite().label;
  if (label != nullptr) op->label = label;
  return op;
}

}  // namespace devrt::mtia
