// SPDX-License-Identifier: Apache-2.0
//
// Errors of a provider: the answers of NCCL and RCCL as errors of devrt, and
// refusals of the provider itself.  Errors are made by the host's table, as a
// plugin's are; the caller owns them.

#ifndef DEVRT_COLLECTIVES_NCCL_ERRORS_H_
#define DEVRT_COLLECTIVES_NCCL_ERRORS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "collectives/nccl/library.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::collectives::nccl {

// "ncclRemoteError"
const char* NameOf(Result result);

// What `result` means.  kInProgress has no meaning as an error: INTERNAL.
devrt_code CodeOf(Result result);

// An error of the provider itself.
[[gnu::cold]] devrt_status Refuse(devrt_code code, absl::string_view text);
[[gnu::cold]] devrt_status Refuse(const absl::Status& status);

// Releases an error that nobody asks for; nullptr is allowed.
void Drop(devrt_status error);

// The text of the library for `result`, with its last message if it has one:
// "remote process exited or there was a network error: socket closed".
std::string TextOf(const Library& library, Result result, Comm comm);

// The error of a native call.  `device` is its ordinal, or -1.
[[gnu::cold]] devrt_status NativeError(Result result, const char* symbol,
                                       absl::string_view text, int device);

}  // namespace devrt::collectives::nccl

#endif  // DEVRT_COLLECTIVES_NCCL_ERRORS_H_
