// SPDX-License-Identifier: Apache-2.0
//
// Backends: which accelerators this process can use, and where they came from.
//
//   absl::StatusOr<devrt::Backend> mtia = devrt::GetBackend("mtia");
//   if (!mtia.ok()) LogError(mtia.status());     // says every path it tried
//   for (devrt::Device d : mtia->devices()) Use(d);
//
// A backend is a plugin: a shared library behind the C ABI of
// devrt/backends/abi/devrt_plugin.h, or the same code linked into the program.
// Backends are found, in this order; the first match for a name wins:
//
//   1. LoadBackend(absolute path) and RegisterBackend (linked in)
//   2. DEVRT_PLUGINS      files, separated by ':'; then directories are not
//                         searched, and a file that cannot be used is an
//                         error, because the user named it: it is logged, and
//                         it is what a name that is not found answers
//   3. DEVRT_PLUGIN_PATH  directories, separated by ':'
//   4. the folder devrt/ beside the devrt library; where that is linked into
//      the program, beside the program, or else in ../LIBDIR beside it, as a
//      program in bin/ of an installation has it
//
// Paths are absolute; in directories, files named libdevrt_*.so count, in
// order of their names.  The variables are read once, when they are first
// needed; an empty one is as good as none, and a program with more rights than
// its user (set-user-id) ignores them, which the load report says.
//
// A plugin runs in this process, so only files are taken that nobody but root
// and the effective user could have written: they own the file and everything
// that leads to it, and others cannot write there.  A directory like /tmp
// (sticky) may lead to it, and a group may write that is root's or the user's
// private one.  The same holds for libraries that a plugin brings along by its
// RUNPATH.  What was inspected is what is loaded: both go through one open
// descriptor.  devrt/runtime/inspect.h says of one file what holds for it.
//
// DEVRT_BACKENDS="cuda,!hip" selects by name among what was found: names
// alone allow only these, names with '!' exclude.  With a value that cannot be
// understood no backend can be used, and every call says why.
//
// What it is not: a package manager.  It opens nothing until somebody asks for
// a backend by name, and it never unloads a library.
//
// Threads: every function here may be called from any thread.  Backend values
// are valid until the end of the process, calls on them fail with
// FAILED_PRECONDITION after Shutdown() and in a forked child.

#ifndef DEVRT_RUNTIME_BACKEND_H_
#define DEVRT_RUNTIME_BACKEND_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/export.h"

namespace devrt {

class Device;
namespace internal {
struct BackendRecord;
}

// An extension of a backend: its functions, and what they take as `self`.
struct Extension {
  const void* table = nullptr;  // the extension's struct, struct_size first
  void* self = nullptr;
};

// One opened backend.  A pointer-sized value; copy it freely.
class DEVRT_EXPORT Backend {
 public:
  // "mtia", "cuda", "hip", ...: the name in device strings.
  const std::string& name() const;
  // From the plugin's manifest.
  std::string vendor() const;
  std::string version() const;
  // Absolute path of the shared library; empty if linked in.
  const std::string& path() const;
  // DEVRT_CAP_* bits: what the plugin promises.
  uint64_t capabilities() const;
  bool Has(uint64_t capability) const {
    return (capabilities() & capability) == capability;
  }

  // All devices, by ordinal.  Creates no context on any of them.
  std::vector<Device> devices() const;
  int device_count() const;

  // An extension's function table by name, for example
  // DEVRT_PROBE_EXTENSION.  UNIMPLEMENTED, naming backend and extension, when
  // the backend has none, or when its table is shorter than `minimum_size`
  // bytes; INVALID_ARGUMENT for nullptr.  Valid, and the same, until the end
  // of the process.
  absl::StatusOr<Extension> GetExtension(const char* name,
                                         uint32_t minimum_size) const;

  friend bool operator==(Backend a, Backend b) {
    return a.record_ == b.record_;
  }
  friend bool operator!=(Backend a, Backend b) { return !(a == b); }

 private:
  friend class Device;
  friend struct internal::BackendRecord;
  explicit Backend(internal::BackendRecord* record) : record_(record) {}
  internal::BackendRecord* record_;
};

// The backend of that name, opened now if it was not yet.
//   NOT_FOUND            no plugin of that name; lists what was searched
//   FAILED_PRECONDITION  excluded by DEVRT_BACKENDS, shut down, forked child
//   otherwise            why that plugin could not be loaded, with every path
DEVRT_EXPORT absl::StatusOr<Backend> GetBackend(std::string_view name);

// Names of all backends that were found and are selected, in order of
// priority.  Opens none of them.
DEVRT_EXPORT std::vector<std::string> BackendNames();

// Loads one plugin from an absolute path and opens it.  It replaces a backend
// of that name that was found, but not opened, and one that did not open.
//   INVALID_ARGUMENT     relative path, not a plugin, damaged, other machine
//   NOT_FOUND            no such file
//   PERMISSION_DENIED    not readable, or others could have written it
//   FAILED_PRECONDITION  foreign ABI major; the file changed meanwhile; /proc
//                        is not mounted; shut down; forked child
//   ALREADY_EXISTS       a backend of that name came from another file
//   otherwise            what the plugin's open said
// The same file again returns the same backend.
DEVRT_EXPORT absl::StatusOr<Backend> LoadBackend(std::string_view path);

// Makes a backend known that is linked into the program; opened lazily.
//   INVALID_ARGUMENT     null, or a manifest with a mistake
//   ALREADY_EXISTS       a backend of that name is linked in or open
DEVRT_EXPORT absl::Status RegisterBackend(const devrt_manifest_v0* manifest,
                                          devrt_plugin_open_fn_v0 open);

// One attempt to find or load a plugin.
struct LoadAttempt {
  enum class Result {
    kFound,     // readable manifest, not opened yet
    kLoaded,    // opened
    kRefused,   // see reason
    kShadowed,  // an earlier file has the same backend name
    kExcluded,  // by DEVRT_BACKENDS
    kSearched,  // a directory; its plugins follow
    kIgnored,   // a variable, in a program with more rights than its user
  };
  std::string source;   // "DEVRT_PLUGINS", "default directory", ...
  std::string path;     // file or directory; empty if linked in
  std::string backend;  // from the manifest, empty if there is none
  std::string version;
  Result result = Result::kFound;
  absl::Status status;  // why, when refused, shadowed, excluded or ignored
};

// "found", "loaded", "refused", "shadowed", "excluded", "searched", "ignored".
DEVRT_EXPORT const char* ToString(LoadAttempt::Result result);

// Everything that was tried so far, in order.  Discovers, opens nothing.
DEVRT_EXPORT std::vector<LoadAttempt> LoadReport();

// The same as text, one line an attempt.
DEVRT_EXPORT std::string LoadReportText();

// Ends all backends: releases idle pooled objects, calls each plugin's
// shutdown, which may wait for work that is still running.  Refused with
// FAILED_PRECONDITION and the counts while streams, events or allocations are
// alive (C98); flags of the probe do not count, those alive become useless with
// it.  Call it when the other threads are done with devrt: calls that
// begin later are refused, but one that is under way, or a guard that is still
// alive, would meet a backend that has ended.  Afterwards every call
// on devices answers FAILED_PRECONDITION; there is no way back.  INTERNAL means
// the same, and that the shutdown of a plugin or a layer threw an exception.
// Programs need not call it: at exit devrt does nothing (C106).
DEVRT_EXPORT absl::Status Shutdown();

}  // namespace devrt

#endif  // DEVRT_RUNTIME_BACKEND_H_
