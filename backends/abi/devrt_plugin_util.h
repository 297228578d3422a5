// SPDX-License-Identifier: Apache-2.0
//
// Plugin utilities: what every plugin in C++ needs, with or without the class
// helper.  Errors made by the host, its log, and structs whose two sides were
// compiled against different minor versions.
//
//   if (device >= count_) {
//     return devrt::plugin::ErrorF(host_, DEVRT_INVALID_ARGUMENT, 0,
//                                  "device %u does not exist", device);
//   }
//   devrt_device_props_v0 props = {};
//   ...
//   devrt::plugin::WriteStruct(out, props);
//
// Threads: every function from any thread, also from a host function.
// Ownership: a returned status is the caller's; texts are copied.
#ifndef DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_UTIL_H_
#define DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_UTIL_H_

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "devrt/backends/abi/devrt_plugin.h"

// Hidden, so that two plugins never share code or state by name.
#pragma GCC visibility push(hidden)
namespace devrt {
namespace plugin {

// ---- Errors and the log -----------------------------------------------------

// An error made by the host; the caller owns it.  `native` is the vendor's
// code, 0 if there is none.
inline devrt_status Error(const devrt_host_v0* host, devrt_code code,
                          int64_t native, std::string_view text) noexcept {
  return host->error_create(host->host, code, native, text.data(), text.size());
}

// As Error, with a printf format; the text is cut after 1023 bytes.
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
    // The last character may have been cut in two (UTF-8): leave it out.
    size = sizeof text - 1;
    while (size > 0 && (text[size - 1] & 0xC0) == 0x80) --size;
    if (size > 0 && (text[size - 1] & 0xC0) == 0xC0) --size;
  }
  return Error(host, code, native, std::string_view(text, size));
}

// One line in the host's log; `level` is DEVRT_LOG_*.
inline void Log(const devrt_host_v0* host, int32_t level, const char* file,
                int32_t line, std::string_view text) noexcept {
  if (level < host->log_min_level(host->host)) return;
  host->log(host->host, level, file, line, text.data(), text.size());
}

// ---- Structs of another minor version ---------------------------------------

// Fills the caller's struct as far as it reaches; struct_size stays.
template <class S>
void WriteStruct(S* to, const S& from) noexcept {
  constexpr size_t kHead = sizeof from.struct_size;
  if (to->struct_size >= sizeof(S)) {  // as everywhere but between versions
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

// The caller's struct, with zero where it does not reach.
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
