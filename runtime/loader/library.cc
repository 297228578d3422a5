// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/loader/bundle.h"

namespace devrt::internal {
namespace {

std::atomic<BeforeLoadHook> before_load{nullptr};

// A path under which the dynamic linker can open the descriptor.  It contains
// the process id, so that a debugger can use the path too.  The linker
// remembers every path, and descriptors are reused, so each path must be
// unique: `serial` is encoded in it, each bit as "/" or "/.".
std::string DescriptorName(int fd, uint64_t serial) {
  char self[64];
  const ssize_t length = readlink("/proc/self", self, sizeof self);
  std::string name = absl::StrCat(
      "/proc/",
      length > 0 ? absl::string_view(self, static_cast<size_t>(length))
                 : "self",
      "/fd");
  for (; serial != 0; serial >>= 1) name += (serial & 1) != 0 ? "/." : "/";
  return absl::StrCat(name, "/", fd);
}

// The error of dlopen(`name`); the text shows the library as `shown`.
absl::Status DlError(const std::string& name, const std::string& shown) {
  const char* error = dlerror();
  const std::string text = error == nullptr
                               ? "unknown dlopen error"
                               : absl::StrReplaceAll(error, {{name, shown}});
  // dlopen's text if a library of the vendor is not installed.
  return absl::StrContains(text, "cannot open shared object file")
             ? absl::UnavailableError(text)
             : absl::InvalidArgumentError(text);
}

absl::Status CheckName(const std::string& name, const PluginFile& file) {
  struct stat there;
  if (stat(name.c_str(), &there) == 0 && there.st_dev == file.info.st_dev &&
      there.st_ino == file.info.st_ino) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      PathText(file.real_path), ": cannot be loaded through its descriptor ",
      name, "; expected the proc file system there: mount -t proc proc /proc"));
}

// Replaces `name` by the real path in the dynamic linker's record.
void Rename(void* library, const std::string& name, const std::string& path) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map->l_name != name) {
    return;  // already loaded under another name
  }
  // Another thread may still read the old name, so neither text is ever freed.
  static Mutex* const mutex = new Mutex;
  static auto* const names = new std::vector<char*>;
  char* real_name = strdup(path.c_str());
  if (real_name == nullptr) return;
  MutexLock lock(mutex);
  names->push_back(map->l_name);
  names->push_back(real_name);
  map->l_name = real_name;
}

absl::StatusOr<void*> Load(const PluginFile& file, int flags) {
  static std::atomic<uint64_t> serial{1};
  const std::string name = DescriptorName(file.fd.get(), serial.fetch_add(1));
  DEVRT_RETURN_IF_ERROR(CheckName(name, file));
  DEVRT_RETURN_IF_ERROR(file.CheckUnchanged());
  void* library = dlopen(name.c_str(), flags | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return DlError(name, PathText(file.real_path));
  Rename(library, name, file.real_path);
  DEVRT_RETURN_IF_ERROR(file.CheckUnchanged());
  return library;
}

bool IsLoaded(const std::string& soname) {
  void* library = dlopen(soname.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

// Loads the libraries that `file` needs and that are not in its bundle, as if
// the program needed them.  So the dynamic linker need not search the file's
// run path.
absl::Status LoadFromSystem(const PluginFile& file) {
  for (const std::string& name : file.contents.needed) {
    if (IsLoaded(name)) continue;
    // An absolute path to an existing file would be in the bundle.
    if (name.find('/') != std::string::npos) {
      return absl::UnavailableError(
          absl::StrCat(PathText(name), ": cannot open shared object file; ",
                       PathText(file.real_path), " needs it"));
    }
    if (dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr &&
        dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
      return DlError(name, PathText(name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void SetBeforeLoadHook(BeforeLoadHook hook) { before_load.store(hook); }

absl::StatusOr<void*> LoadPluginFile(const PluginFile& file) {
  const Bundle bundle = FindBundle(file);
  DEVRT_RETURN_IF_ERROR(bundle.status());
  if (const BeforeLoadHook hook = before_load.load()) hook(file.real_path);
  for (const PluginFile& library : bundle.libraries) {
    if (IsLoaded(library.contents.soname)) continue;
    DEVRT_RETURN_IF_ERROR(LoadFromSystem(library));
    // RTLD_LAZY for a library that uses symbols of the library that needs it.
    if (Load(library, RTLD_NOW).ok()) continue;
    DEVRT_RETURN_IF_ERROR(Load(library, RTLD_LAZY).status());
  }
  DEVRT_RETURN_IF_ERROR(LoadFromSystem(file));
  return Load(file, RTLD_NOW);
}

absl::StatusOr<void*> LoadLibraryFile(const std::string& path) {
  const PluginFile file = OpenLibraryFile(path, Purpose::kLoad);
  DEVRT_RETURN_IF_ERROR(file.status());
  return LoadPluginFile(file);
}

}  // namespace devrt::internal
