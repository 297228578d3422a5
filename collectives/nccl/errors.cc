// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/errors.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "devrt/backends/abi/devrt_plugin_util.h"
#include "runtime/plugins/host_table.h"

namespace devrt::collectives::nccl {

using devrt::internal::HostTable;

const char* NameOf(Result result) {
  switch (result) {
    case kSuccess:
      return "ncclSuccess";
    case kUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case kSystemError:
      return "ncclSystemError";
    case kInternalError:
      return "ncclInternalError";
    case kInvalidArgument:
      return "ncclInvalidArgument";
    case kInvalidUsage:
      return "ncclInvalidUsage";
    case kRemoteError:
      return "ncclRemoteError";
    case kInProgress:
      return "ncclInProgress";
    case kTimeout:
      return "ncclTimeout";
    default:
      return "an unknown ncclResult_t";
  }
}

devrt_code CodeOf(Result result) {
  switch (result) {
    case kSuccess:
      return DEVRT_OK;
    case kSystemError:
      return DEVRT_UNAVAILABLE;
    case kInvalidArgument:
      return DEVRT_INVALID_ARGUMENT;
    case kInvalidUsage:
      return DEVRT_FAILED_PRECONDITION;
    case kRemoteError:
      return DEVRT_UNAVAILABLE;
    case kTimeout:
      return DEVRT_DEADLINE_EXCEEDED;
    default:
      return DEVRT_INTERNAL;
  }
}

devrt_status Refuse(devrt_code code, absl::string_view text) {
  return plugin::Error(HostTable(), code, 0, {text.data(), text.size()});
}

devrt_status Refuse(const absl::Status& status) {
  return Refuse(static_cast<devrt_code>(status.code()), status.message());
}

void Drop(devrt_status error) {
  const devrt_host_v0* const host = HostTable();
  host->error_destroy(host->host, error);
}

std::string TextOf(const Library& library, Result result, Comm comm) {
  std::string text = library.functions.get_error_string(result);
  if (library.functions.get_last_error == nullptr) return text;
  const char* const last = library.functions.get_last_error(comm);
  if (last != nullptr && last[0] != '\0') absl::StrAppend(&text, ": ", last);
  return text;
}

devrt_status NativeError(Result result, const char* symbol,
                         absl::string_view text, int device) {
  const devrt_host_v0* const host = HostTable();
  const char* const name = NameOf(result);
  const devrt_status error =
      plugin::Error(host, CodeOf(result), result,
                    absl::StrCat(symbol, ": ", text, " (", name, ")"));
  devrt_error_origin_v0 origin = {};
  origin.struct_size = sizeof origin;
  origin.native_code = result;
  origin.device = device;
  origin.native_name = name;
  origin.entry_point = symbol;
  host->error_set_origin(host->host, error, &origin);
  return error;
}

}  // namespace devrt::collectives::nccl
