// SPDX-License-Identifier: Apache-2.0
//
// DEVRT_EXPORT marks what libdevrt offers to programs.
//
// The library is compiled with hidden visibility, so a function or class that
// a program may use carries the mark, and everything else stays inside:
//
//   class DEVRT_EXPORT Device { ... };
//   DEVRT_EXPORT absl::StatusOr<Device> GetDevice(absl::string_view name);
//
// It is not the mark of plugins: those export two C symbols, see
// DEVRT_PLUGIN_EXPORT in devrt/backends/abi/devrt_plugin.h. Marked names live
// in namespace devrt; lib/devrt.map keeps everything else inside, marked or
// not. Header-only templates and inline functions need no mark.

#ifndef DEVRT_RUNTIME_EXPORT_H_
#define DEVRT_RUNTIME_EXPORT_H_

#define DEVRT_EXPORT __attribute__((visibility("default")))

#endif  // DEVRT_RUNTIME_EXPORT_H_
