// SPDX-License-Identifier: Apache-2.0
//
// What devrt keeps for each thread.

#include <string>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "runtime/internal/records.h"
#include "runtime/internal/stream_numbers.h"

namespace devrt::internal {

__thread StreamNumber t_stream_numbers[2]
    __attribute__((tls_model("initial-exec"))) = {};
std::atomic<bool> g_stream_numbers_wanted{false};

__thread ThreadState t_state
    __attribute__((tls_model("initial-exec"))) = {{nullptr, 0, 0, nullptr}, 0};

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
