// SPDX-License-Identifier: Apache-2.0

#include "devrt/runtime/thread_state.h"

#include <string>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"

namespace devrt::internal {

__thread ThreadState t_state __attribute__((tls_model("initial-exec"))) = {};

ProgramStacks& GetProgramStacks() {
  ABSL_CONST_INIT static ProgramStacks stacks;
  return stacks;
}

absl::Status HostFunctionError(const char* call) {
  const std::string text = absl::StrCat(
      call,
      " was called inside a host function: calls that enqueue, wait, create, "
      "destroy or allocate are refused there; make it after the function has "
      "returned");
  DEVRT_LOG(kWarning, text);
  return absl::FailedPreconditionError(text);
}

}  // namespace devrt::internal
