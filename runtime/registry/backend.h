// SPDX-License-Identifier: Apache-2.0
//
// Backends: the accelerators that this process can use, and how devrt finds
// them.
//
//   absl::StatusOr<devrt::Backend> mtia = devrt::GetBackend("mtia");
//   if (!mtia.ok()) return mtia.status();        // says every path it tried
//   for (devrt::Device d : mtia->devices()) Use(d);
//
// A backend is a plugin: a shared library behind the C ABI of
// devrt/backends/abi/devrt_plugin.h, or equal code linked into the program.
// devrt looks in these places, in this order, and the first plugin that has the
// name wins:
//
//   1. LoadBackend(absolute path) and RegisterBackend (linked in)
//   2. DEVRT_PLUGINS      files, separated by ':'.  If the variable is set,
//                         devrt searches no directories.  The user named these
//                         files, so a file that cannot be used is an error:
//                         devrt logs it, and GetBackend returns it for every
//                         name that it does not find
//   3. DEVRT_PLUGIN_PATH  directories, separated by ':'
//   4. the folder devrt/ beside the devrt library.  If that library is linked
//      into the program: devrt/ beside the program, otherwise ../LIBDIR/devrt/
//      (the program lies in bin/ of an installation)
//
// All paths are absolute.  In a directory devrt takes the files named
// libdevrt_*.so, in alphabetical order.  devrt reads each variable once, at the
// first need.  An empty variable counts as unset.  A program with more rights
// than its user (set-user-id) ignores the variables; the load report then says
// so.
//
// A plugin runs in this process.  Therefore devrt loads only files that nobody
// but root and the effective user could have written: root or that user owns
// the file and every directory and link on its path, and nobody else can write
// there.  Two exceptions: a sticky directory such as /tmp may be on the path,
// and the group may have write access if it is root's group or the user's
// private group.
//
// These conditions also hold for the libraries that a plugin finds by its
// RUNPATH.  devrt inspects and loads a file through one open descriptor, so
// nobody can exchange the file between the two steps.  devrt/runtime/inspect.h
// reports the conditions for one file.
//
// DEVRT_BACKENDS="cuda,!hip" selects among the backends that were found: names
// alone allow only these backends, names with '!' exclude a backend.  If the
// value has a mistake, devrt opens no backend, and every call returns an error
// that names the mistake.
//
// What it is not: a package manager.  devrt opens a plugin only when a call
// asks for its backend by name, and never unloads a library.
//
// Threads: every function here may be called from any thread.  Backend values
// are valid until the end of the process.  Calls on them fail with
// FAILED_PRECONDITION after Shutdown() and in a forked child.

#ifndef DEVRT_RUNTIME_REGISTRY_BACKEND_H_
#define DEVRT_RUNTIME_REGISTRY_BACKEND_H_

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

// An extension of a backend: a table of functions, and their `self` argument.
struct Extension {
  const void* table = nullptr;  // the extension's struct, struct_size first
  void* self = nullptr;         // first argument of the table's functions
};

// One opened backend.  A pointer-sized value; copy it freely.
class DEVRT_EXPORT Backend {
 public:
  // "mtia", "cuda", "hip", ...: the name in device strings.
  const std::string& name() const;
  // From the plugin's manifest:
  std::string vendor() const;
  std::string version() const;
  // Absolute path of the shared library; empty if linked in.
  const std::string& path() const;
  // DEVRT_CAP_* bits: what the plugin promises.
  uint64_t capabilities() const;
  // Returns true if the plugin promises all bits of `capability`.
  bool Has(uint64_t capability) const {
    return (capabilities() & capability) == capability;
  }

  // All devices, by ordinal, and their number.  Creates no context on any of
  // them:
  std::vector<Device> devices() const;
  int device_count() const;

  // An extension's function table by name, for example DEVRT_PROBE_EXTENSION.
  // UNIMPLEMENTED, with the names of backend and extension, if the backend does
  // not have the extension, or if its table is shorter than `minimum_size`
  // bytes.  INVALID_ARGUMENT for nullptr.  Every call returns the same table;
  // it is valid until the end of the process.
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

// The backend with this name.  The first call opens it.
//   NOT_FOUND            no plugin has this name; lists the places searched
//   FAILED_PRECONDITION  excluded by DEVRT_BACKENDS, shut down, forked child
//   otherwise            why the plugin could not be loaded, with every path
DEVRT_EXPORT absl::StatusOr<Backend> GetBackend(std::string_view name);

// Names of all backends that were found and selected, highest priority first.
// Opens none of them.
DEVRT_EXPORT std::vector<std::string> BackendNames();

// Loads one plugin from an absolute path and opens it.  The plugin replaces a
// backend with its name that was found but never opened, or that failed to
// open.  A second call with this file returns the backend that is open.
//   INVALID_ARGUMENT     relative path; the file is not a plugin, is damaged,
//                        or is built for another machine
//   NOT_FOUND            no such file
//   PERMISSION_DENIED    not readable, or other users could have written it
//   FAILED_PRECONDITION  other ABI major; the file changed during the call;
//                        /proc is not mounted; shut down; forked child
//   ALREADY_EXISTS       a backend with this name came from another file
//   otherwise            the error of the plugin's open function
DEVRT_EXPORT absl::StatusOr<Backend> LoadBackend(std::string_view path);

// Registers a backend that is linked into the program.  Its first use opens it.
//   INVALID_ARGUMENT     null, or a manifest with a mistake
//   ALREADY_EXISTS       a backend with this name is linked in or open
DEVRT_EXPORT absl::Status RegisterBackend(const devrt_manifest_v0* manifest,
                                          devrt_plugin_open_fn_v0 open);

// One attempt to find or load a plugin.
struct LoadAttempt {
  // What devrt did with the file, the directory or the variable.
  enum class Result {
    kFound,     // readable manifest, not opened yet
    kLoaded,    // opened
    kRefused,   // see reason
    kShadowed,  // an earlier file has the same backend name
    kExcluded,  // by DEVRT_BACKENDS
    kSearched,  // a directory; its plugins follow
    kIgnored,   // a variable, in a program with more rights than its user
  };
  std::string source;   // where from: "DEVRT_PLUGINS", "default directory", ...
  std::string path;     // file or directory; empty if linked in
  std::string backend;  // from the manifest, empty if there is none
  std::string version;  // from the manifest
  Result result = Result::kFound;
  absl::Status status;  // the reason if refused, shadowed, excluded or ignored
};

// "found", "loaded", "refused", "shadowed", "excluded", "searched", "ignored".
DEVRT_EXPORT const char* ToString(LoadAttempt::Result result);

// All attempts so far, in order.  Searches for plugins, but opens none.
DEVRT_EXPORT std::vector<LoadAttempt> LoadReport();

// LoadReport() as text, one line for each attempt.
DEVRT_EXPORT std::string LoadReportText();

// Ends all backends: releases idle pooled objects and calls each plugin's
// shutdown function, which may wait for work that is still running.
//
// While streams, events or allocations are alive, Shutdown fails with
// FAILED_PRECONDITION and their counts (C98).  Flags of the probe extension do
// not count; Shutdown makes them unusable.  Call it when no other thread uses
// devrt and no guard is alive: devrt refuses calls that begin later, but a call
// that is still running, or the destructor of a guard, would use a backend that
// has ended.
//
// Afterwards every call on devices fails with FAILED_PRECONDITION; devrt cannot
// be started again.  INTERNAL: the backends have ended, but the shutdown
// function of a plugin or layer threw an exception.  Programs need not call
// Shutdown: devrt does nothing at exit (C106).
DEVRT_EXPORT absl::Status Shutdown();

}  // namespace devrt

#endif  // DEVRT_RUNTIME_REGISTRY_BACKEND_H_
