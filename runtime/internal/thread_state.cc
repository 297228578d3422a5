// SPDX-License-Identifier: Apache-2.0
//
// What devrt keeps for each thread.

#include <string>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/internal/records.h"
#include "devrt/runtime/log.h"

namespace devrt::internal {
namespace {

thread_local devrt_call_site_v0 call_site = {nullptr, 0, 0, nullptr};
thread_local int host_function_depth = 0;

}  // namespace

devrt_call_site_v0* ThreadCallSite() { return &call_site; }

bool InHostFunction() { return host_function_depth > 0; }

HostFunctionScope::HostFunctionScope() { ++host_function_depth; }
HostFunctionScope::~HostFunctionScope() { --host_function_depth; }

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
