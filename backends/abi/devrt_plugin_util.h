// SPDX-License-Identifier: Apache-2.0
//
// Plugin utilities for C++ plugins, with or without devrt_plugin_helper.h:
// errors made by the host, the host's log, and structs whose two sides were
// compiled for different minor versions.
//
//   devrt_status device_props(uint32_t device, devrt_device_props_v0* out) {
//     if (device >= count_) {
//       return devrt::plugin::ErrorF(host_, DEVRT_INVALID_ARGUMENT, 0,
//                                    "device %u does not exist", device);
//     }
//     devrt_device_props_v0 props = {};
//     ... fill props ...
//     devrt::plugin::WriteStruct(out, props);
//     return nullptr;
//   }
//
// Threads: every function may be called from any thread, also from a host
// function.  Ownership: the caller owns a returned status; texts are copied.
#ifndef DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_UTIL_H_
#define DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_UTIL_H_

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "devrt/backends/abi/devrt_plugin.h"

// Hidden, so that two plugins do not share code or state.
#pragma GCC visibility push(hidden)
namespace devrt {
namespace plugin {

// ---- Errors and the log -----------------------------------------------------

// Makes an error of the host; the caller owns it.  `native` is the vendor's
// code, or 0.
inline devrt_status Error(const devrt_host_v0* host, devrt_code code,
                          int64_t native, std::string_view text) noexcept {
  return host->error_create(host->host, code, native, text.data(), text.size());
}

// Error with a printf format; the text is cut after 1023 bytes.
__attribute__((format(printf, 4, 5))) inline devrt_status ErrorF(
    const devrt_host_v0* host, devrt_code code, int64_t native,
    const char* format, ...) noexcept {
  char text[1024];
  va_list args;
  va_start(args, format);
  const int wanted = std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (wanted < 0) return Error(host, code, native, format);
  size_t size = static_cast<size_t>(wanted);
  if (size >= sizeof text) {
    // Drops a UTF-8 character that was cut in two.
    size = sizeof text - 1;
    while (size > 0 && (text[size - 1] & 0xC0) == 0x80) --size;
    if (size > 0 && (text[size - 1] & 0xC0) == 0xC0) --size;
  }
  return Error(host, code, native, std::string_view(text, size));
}

// Writes one line to the host's log; `level` is DEVRT_LOG_*.
inline void Log(const devrt_host_v0* host, int32_t level, const char* file,
                int32_t line, std::string_view text) noexcept {
  if (level < host->log_min_level(host->host)) return;
  host->log(host->host, level, file, line, text.data(), text.size());
}

// ---- Structs of another minor version ---------------------------------------

// Fills as much of the caller's struct as its struct_size covers; keeps
// struct_size.
template <class S>
void WriteStruct(S* to, const S& from) noexcept {
  constexpr size_t kHead = sizeof from.struct_size;
  if (to->struct_size >= sizeof(S)) {  // the usual case: one version
    const uint32_t whole = to->struct_size;
    *to = from;
    to->struct_size = whole;
    return;
  }
  const size_t size = to->struct_size < sizeof(S) ? to->struct_size : sizeof(S);
  if (size <= kHead) return;
  std::memcpy(reinterpret_cast<char*>(to) + kHead,
              reinterpret_cast<const char*>(&from) + kHead, size - kHead);
}

// A copy of the caller's struct, with zero for the fields that it lacks.
template <class S>
S ReadStruct(const S* from) noexcept {
  S all = {};
  const size_t size =
      from->struct_size < sizeof(S) ? from->struct_size : sizeof(S);
  std::memcpy(&all, from, size);
  return all;
}

}  // namespace plugin
}  // namespace devrt
#pragma GCC visibility pop
#endif  // DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_UTIL_H_
