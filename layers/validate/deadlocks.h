// SPDX-License-Identifier: Apache-2.0
//
// Deadlocks: makes a finding of an error by which the simulator reports that
// nothing can go on.

#ifndef DEVRT_LAYERS_VALIDATE_DEADLOCKS_H_
#define DEVRT_LAYERS_VALIDATE_DEADLOCKS_H_

#include <cstdint>
#include <string>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "layers/validate/layer_state.h"

namespace devrt::race {

class Deadlocks {
 public:
  Deadlocks() = default;
  explicit Deadlocks(const devrt_next_v0* next)
      : sim_(static_cast<const devrt_sim_v1*>(
            next->extension(next, DEVRT_SIM_EXTENSION, &self_))) {}

  // The calling thread may wait from now on.
  void NoteHostWait() const {
    if (ABSL_PREDICT_FALSE(g_layer.stacks != nullptr)) NoteStack();
  }

  // Makes a finding of the error of a call if it is a deadlock.
  devrt_status Judge(devrt_status error) const {
    if (ABSL_PREDICT_FALSE(error != nullptr) && sim_ != nullptr) {
      JudgeError(error);
    }
    return error;
  }

 private:
  ABSL_ATTRIBUTE_NOINLINE void NoteStack() const {
    if (sim_ == nullptr || !DEVRT_HAS_FIELD(sim_, devrt_sim_v1, next_op)) {
      return;
    }
    uint32_t thread = 0;
    uint64_t index = 0;
    devrt_status error = sim_->next_op(self_, &thread, &index);
    if (error != nullptr) {  // the thread may not call the simulator
      return g_layer.host->error_destroy(g_layer.host->host, error);
    }
    Caller caller = CallerOf("wait");
    caller.op = OpId();  // a wait is no operation of the simulator
    g_layer.validator->NoteHostWait(thread, caller);
  }

  ABSL_ATTRIBUTE_NOINLINE void JudgeError(devrt_status error) const {
    const devrt_host_v0* const host = g_layer.host;
    if (host->error_code(host->host, error) != DEVRT_FAILED_PRECONDITION) {
      return;
    }
    uint64_t size = 0;
    const char* const begin = host->error_text(host->host, error, &size);
    const std::string text(begin, size);
    if (MayReport(text) && text == Report()) {
      NoteHostWait();  // a call that usually waits for nothing
      g_layer.validator->AddDeadlock(text);
    }
  }

  // Spares other errors a call of the simulator.
  static bool MayReport(const std::string& text) {
    for (const char* const begin :
         {"deadlock: ", "polls for work that cannot complete: ",
          "the step limit was reached: "}) {
      if (text.rfind(begin, 0) == 0) return true;
    }
    return false;
  }

  std::string Report() const {
    std::string text;
    uint64_t size = 0;
    g_layer.host->error_destroy(
        g_layer.host->host, sim_->deadlock_report(self_, nullptr, 0, &size));
    text.resize(size);
    g_layer.host->error_destroy(
        g_layer.host->host,
        sim_->deadlock_report(self_, &text[0], size, &size));
    text.resize(size < text.size() ? size : text.size());
    return text;
  }

  void* self_ = nullptr;
  const devrt_sim_v1* sim_ = nullptr;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_DEADLOCKS_H_
