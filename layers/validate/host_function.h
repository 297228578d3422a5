// SPDX-License-Identifier: Apache-2.0
//
// A host function of the program, as the layer passes it on.
//
// A program may learn in its own ways, such as a future, that its host function
// has run, and go on.  The layer does not see that.  So the host counts as
// having waited for the work before the function once the function runs.  The
// function itself runs on a host thread, and calls of threads count as ordered.
//
// With exact order of host threads the function alone comes after that work,
// and tells other threads of it by an object of devrt::sync.
//
// Ownership: the backend's call of Run ends the object.
// Threads: Run runs on a thread of the backend.

#ifndef DEVRT_LAYERS_VALIDATE_HOST_FUNCTION_H_
#define DEVRT_LAYERS_VALIDATE_HOST_FUNCTION_H_

#include <memory>
#include <utility>

#include "devrt/backends/abi/devrt_plugin.h"
#include "layers/validate/layer_state.h"
#include "layers/validate/pinned_pages.h"

namespace devrt::race {

class HostFunction {
 public:
  using Function = void (*)(void* arg, devrt_status error);

  // `work` ends with the function itself.
  HostFunction(Validator::WaitedWork work, Function function, void* arg)
      : work_(std::move(work)), function_(function), arg_(arg) {}

  static void Run(void* self, devrt_status error) {
    const std::unique_ptr<HostFunction> own(static_cast<HostFunction*>(self));
    JudgeTouches();
    g_layer.validator->BeginHostFunction(std::move(own->work_));
    UpdatePages();
    own->function_(own->arg_, error);
    g_layer.validator->EndHostFunction();
  }

 private:
  Validator::WaitedWork work_;
  const Function function_;
  void* const arg_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_HOST_FUNCTION_H_
