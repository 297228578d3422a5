// SPDX-License-Identifier: Apache-2.0
//
// Looks into the file of a plugin, or of a layer, without running any of it:
// what it says about itself, and whether devrt would load it.
//
//   devrt::PluginReport report = devrt::InspectPlugin("/opt/acme/libx.so");
//   if (!report.status.ok()) LogError(report.status);  // LoadBackend's answer
//   for (const devrt::PluginRule& rule : report.rules) Print(rule);
//
// LoadBackend and discovery apply the same rules by the same code.
//
// What it is not: a promise that the plugin works.  Its dynamic linking, its
// open function and its table are only put to the test when it is loaded.
//
// Threads: any number at once.  It needs no backend, and works after Shutdown()
// and in a forked child.

#ifndef DEVRT_RUNTIME_INSPECT_H_
#define DEVRT_RUNTIME_INSPECT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "devrt/runtime/export.h"

namespace devrt {

// The manifest as it stands in the file; of a refused file its values may be
// wrong, but its texts end.
struct PluginManifest {
  uint32_t struct_size = 0;
  uint32_t abi_major = 0;
  uint32_t abi_minor = 0;
  uint32_t priority = 0;
  uint64_t capabilities = 0;  // DEVRT_CAP_* bits that open may claim
  std::string backend;        // the layer's name if it is one
  std::string vendor;
  std::string version;
};

// "EVENT_TIMING, HOST_FUNC": DEVRT_CAP_* bits in words, "bit 40" where devrt
// knows no name; "" for 0.
DEVRT_EXPORT std::string CapabilityNames(uint64_t capabilities);

// One condition for loading a file.
struct PluginRule {
  enum class Verdict {
    kMet,
    kBroken,
    kUnknown,  // an earlier rule is broken, so that there was nothing to judge
  };
  // "path", "regular_file", "owner", "writers", "library", "plugin",
  // "exports", "run_path", "bundled": these and their order stay; later
  // versions may have more.
  std::string name;
  std::string expectation;  // for a person; always the same sentence
  Verdict verdict = Verdict::kUnknown;
  std::string reason;  // where broken: what was found, and the remedy
};

// "met", "broken", "unknown".
DEVRT_EXPORT const char* ToString(PluginRule::Verdict verdict);

// A library that the plugin needs and that its run path leads to.
struct BundledLibrary {
  std::string name;  // as in `needed`
  std::string path;  // without links
};

struct PluginReport {
  std::string kind;       // "plugin" or "layer"; "plugin" for all else
  std::string path;       // as given
  std::string real_path;  // without links; empty if there is no such file
  uint64_t size = 0;      // bytes

  // From the file, as far as they could be read; texts may be anything.
  std::string machine;   // "x86-64"; empty for what is no ELF file
  std::string build_id;  // hexadecimal digits
  std::string soname;
  std::vector<std::string> needed;
  std::string run_path;
  std::vector<BundledLibrary> bundled;
  std::vector<std::string> exports;  // at most 64 of them
  uint64_t export_count = 0;         // all
  std::optional<PluginManifest> manifest;

  std::vector<PluginRule> rules;
  // OK when every rule is met; otherwise what LoadBackend would answer.
  absl::Status status;
};

// Receives a file's bytes in order, piece by piece.
using BytesSink = std::function<void(std::string_view)>;

// Inspects the file at `path`, which is absolute.  With a `sink`, also reads
// the whole file once more into it, through the same descriptor, for example
// for a checksum; it gets nothing where there is no regular file to read.
// All else takes no more memory than a part of the file's size.
DEVRT_EXPORT PluginReport InspectPlugin(std::string_view path,
                                        const BytesSink& sink = nullptr);

}  // namespace devrt

#endif  // DEVRT_RUNTIME_INSPECT_H_
