// SPDX-License-Identifier: Apache-2.0
//
// Inspects the file of a plugin or layer without running its code: reads its
// manifest, and checks whether devrt would load it.
//
//   devrt::PluginReport report = devrt::InspectPlugin("/opt/acme/libx.so");
//   if (!report.status.ok()) LogError(report.status);  // LoadBackend's answer
//   for (const devrt::PluginRule& rule : report.rules) Print(rule);
//
// LoadBackend and discovery check these rules with the same code.
//
// What it is not: a promise that the plugin works.  Only loading tests its
// dynamic linking, its open function and its table.
//
// Threads: any number may inspect at once.  Inspection needs no backend and
// works after Shutdown() and in a forked child.

#ifndef DEVRT_RUNTIME_LOADER_INSPECT_H_
#define DEVRT_RUNTIME_LOADER_INSPECT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "devrt/runtime/export.h"

namespace devrt {

// The manifest as the file has it.  The values of a refused file may be wrong,
// but every text has an end.
struct PluginManifest {
  uint32_t struct_size = 0;
  uint32_t abi_major = 0;
  uint32_t abi_minor = 0;
  uint32_t priority = 0;      // lower comes first
  uint64_t capabilities = 0;  // DEVRT_CAP_* bits that open may claim
  std::string backend;        // in a layer: the name of the layer
  std::string vendor;
  std::string version;
};

// The names of DEVRT_CAP_* bits, "EVENT_TIMING, HOST_FUNC".  A bit without a
// known name reads "bit 40"; the result for 0 is empty.
DEVRT_EXPORT std::string CapabilityNames(uint64_t capabilities);

// One condition for loading a file.
struct PluginRule {
  // What the inspection says of one condition.
  enum class Verdict {
    kMet,
    kBroken,
    kUnknown,  // not checked, because an earlier rule is broken
  };
  // "path", "regular_file", "owner", "writers", "library", "plugin", "exports",
  // "run_path", "bundled".  These names and their order are stable; later
  // versions may append names.
  std::string name;
  std::string expectation;  // a constant sentence, for a person
  Verdict verdict = Verdict::kUnknown;
  std::string reason;  // if broken: the cause and the remedy
};

// "met", "broken", "unknown".
DEVRT_EXPORT const char* ToString(PluginRule::Verdict verdict);

// A library that the plugin needs and that its run path finds.
struct BundledLibrary {
  std::string name;  // as in `needed`
  std::string path;  // symbolic links resolved
};

// What InspectPlugin found in a file.
struct PluginReport {
  std::string kind;       // "layer", or "plugin" for every other file
  std::string path;       // as passed by the caller
  std::string real_path;  // symbolic links resolved; empty if no such file
  uint64_t size = 0;      // bytes

  // Read from the file as far as possible.  The texts are not checked.
  std::string machine;   // "x86-64"; empty if the file is not an ELF file
  std::string build_id;  // hexadecimal digits
  std::string soname;
  std::vector<std::string> needed;
  std::string run_path;
  std::vector<BundledLibrary> bundled;
  std::vector<std::string> exports;  // the first 64 at most
  uint64_t export_count = 0;         // of all exports
  std::optional<PluginManifest> manifest;

  std::vector<PluginRule> rules;
  // OK if every rule is met; otherwise the error that LoadBackend would return.
  absl::Status status;
};

// Receives the bytes of a file in order, in pieces.
using BytesSink = std::function<void(std::string_view)>;

// Inspects the file at the absolute `path`.  With a `sink`, reads the whole
// file a second time through the descriptor that was inspected and passes its
// bytes to the sink, for example for a checksum.  The sink gets no bytes if
// `path` is not a regular file.  Without a sink the function needs memory for a
// part of the file only.
DEVRT_EXPORT PluginReport InspectPlugin(std::string_view path,
                                        const BytesSink& sink = nullptr);

}  // namespace devrt

#endif  // DEVRT_RUNTIME_LOADER_INSPECT_H_
