// SPDX-License-Identifier: Apache-2.0
//
// DEVRT_EXPORT marks the functions and classes that libdevrt exports.
//
// The library is compiled with hidden visibility.  Each function or class that
// a program may use carries the mark; all others stay hidden:
//
//   class DEVRT_EXPORT Device {
//     ...
//   };
//   DEVRT_EXPORT absl::StatusOr<Device> GetDevice(absl::string_view name);
//
// Marked names live in namespace devrt.  The linker script lib/devrt.map hides
// all names outside that namespace, marked or not.  Templates and inline
// functions need no mark.
//
// Not for programs, which need no mark.  A plugin exports two C symbols, with
// DEVRT_PLUGIN_EXPORT of devrt/backends/abi/devrt_plugin.h.

#ifndef DEVRT_RUNTIME_COMMON_EXPORT_H_
#define DEVRT_RUNTIME_COMMON_EXPORT_H_

#define DEVRT_EXPORT __attribute__((visibility("default")))

#endif  // DEVRT_RUNTIME_COMMON_EXPORT_H_
