// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/common/error.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "backends/mtia/common/text.h"
#include "devrt/backends/abi/devrt_stream_number.h"

namespace devrt::mtia {
namespace {

struct NativeCode {
  int32_t number;
  devrt_code code;
  bool sticky;
  const char* name;
};

constexpr bool kLocal = false;
constexpr bool kSticky = true;

constexpr NativeCode kNativeCodes[] = {
#define DEVRT_CUDA_CODE(number, status, lasting, name) \
  {number, DEVRT_##status, lasting, #name},
#include "backends/cuda_codes.inc"
#undef DEVRT_CUDA_CODE
};

constexpr bool IsRising() {
  for (size_t i = 1; i < std::size(kNativeCodes); ++i) {
    if (kNativeCodes[i - 1].number >= kNativeCodes[i].number) return false;
  }
  return true;
}
static_assert(IsRising(), "FindNative searches by bisection");

const NativeCode* FindNative(int32_t number) {
  const NativeCode* row = std::lower_bound(
      std::begin(kNativeCodes), std::end(kNativeCodes), number,
      [](const NativeCode& a, int32_t b) { return a.number < b; });
  return row != std::end(kNativeCodes) && row->number == number ? row : nullptr;
}

devrt_error_origin_v0 MakeOrigin(int64_t native_code) {
  devrt_error_origin_v0 origin = {};
  origin.struct_size = sizeof(origin);
  origin.native_code = native_code;
  origin.native_name = NativeName(static_cast<int32_t>(native_code));
  origin.device = -1;
  return origin;
}

}  // namespace

const devrt_host_v0* g_host = nullptr;

uint64_t HostStreamNumber(devrt_stream stream) {
  // Asked for once: a host without the extension will not get it.
  static const auto* const numbers = static_cast<const devrt_stream_number_v0*>(
      g_host->get_extension == nullptr
          ? nullptr
          : g_host->get_extension(g_host->host, DEVRT_STREAM_NUMBER_EXTENSION));
  return numbers != nullptr ? numbers->number(g_host->host, stream) : 0;
}

devrt_status MakeError(devrt_code code, int64_t native_code,
                       const std::string& text) {
  devrt_status error = g_host->error_create(g_host->host, code, native_code,
                                            text.data(), text.size());
  if (native_code != 0) {
    const devrt_error_origin_v0 origin = MakeOrigin(native_code);
    g_host->error_set_origin(g_host->host, error, &origin);
  }
  return error;
}

devrt_status MakeFaultStatus(const Fault& fault, const char* entry_point) {
  devrt_status error = g_host->error_create(
      g_host->host, CodeOfNative(fault.native_code), fault.native_code,
      fault.text.data(), fault.text.size());
  devrt_error_origin_v0 origin = MakeOrigin(fault.native_code);
  origin.flags = DEVRT_ERROR_STICKY | DEVRT_ERROR_ASYNC |
                 (fault.process ? DEVRT_ERROR_PROCESS : 0u);
  origin.device = static_cast<int32_t>(fault.device);
  origin.entry_point = entry_point;
  g_host->error_set_origin(g_host->host, error, &origin);
  return error;
}

const char* NativeName(int32_t native_code) {
  const NativeCode* row = FindNative(native_code);
  return row != nullptr ? row->name : "cudaErrorUnknown";
}

devrt_code CodeOfNative(int32_t native_code) {
  const NativeCode* row = FindNative(native_code);
  return row != nullptr ? row->code : DEVRT_INTERNAL;
}

bool IsSticky(int32_t native_code) {
  const NativeCode* row = FindNative(native_code);
  return row != nullptr && row->sticky;
}

}  // namespace devrt::mtia
