// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "runtime/loader/library.h"

namespace devrt::collectives::nccl {
namespace {

struct Slot {
  Mutex mutex;  // held while the library is loaded
  std::string path DEVRT_GUARDED_BY(mutex);
  const Library* library DEVRT_GUARDED_BY(mutex) = nullptr;
};

Slot& SlotOf(const Flavor& flavor) {
  static Slot* const slots = new Slot[2];
  return slots[&flavor == &kRccl ? 1 : 0];
}

std::string PathOf(void* handle, const std::string& otherwise) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map->l_name[0] == '\0') {
    return otherwise;
  }
  return map->l_name;
}

// The library at a path that somebody named; `who` named it.
absl::StatusOr<Library> FromFile(const Flavor& flavor, const std::string& path,
                                 const std::string& who) {
  const absl::StatusOr<void*> handle = devrt::internal::LoadLibraryFile(path);
  if (!handle.ok()) {
    return absl::Status(handle.status().code(),
                        absl::StrCat(who, ": ", handle.status().message()));
  }
  return ReadLibrary(flavor, *handle, PathOf(*handle, path));
}

absl::StatusOr<Library> FromLinker(const Flavor& flavor) {
  void* const handle = dlopen(flavor.soname, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) {
    return ReadLibrary(flavor, handle, PathOf(handle, flavor.soname));
  }
  const char* const text = dlerror();
  const std::string why = text != nullptr ? text : "unknown error";
  if (absl::StartsWith(why, absl::StrCat(flavor.soname, ": cannot open"))) {
    return absl::UnavailableError(absl::StrCat(
        flavor.soname, " was not found (looked: libraries of the process, ",
        flavor.variable, ", the dynamic linker's search): ", flavor.remedy,
        ", or ", flavor.variable));
  }
  return absl::UnavailableError(
      absl::StrCat(flavor.soname, " was found and cannot be loaded: ", why,
                   "; ", flavor.variable, " can name another one"));
}

absl::StatusOr<Library> Find(const Flavor& flavor, const std::string& path) {
  if (void* const handle =
          dlopen(flavor.soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
    return ReadLibrary(flavor, handle, PathOf(handle, flavor.soname));
  }
  const char* const named = flavor.named();
  if (named != nullptr && named[0] != '\0') {
    return FromFile(flavor, named, flavor.variable);
  }
  if (!path.empty()) {
    return FromFile(flavor, path,
                    absl::StrCat("the program's path of ", flavor.name));
  }
  return FromLinker(flavor);
}

}  // namespace

bool IsSet(const char* variable, absl::string_view value) {
  const char* const text = getenv(variable);
  return text != nullptr && text == value;
}

uint32_t FlagsOf(const Library& library) {
  const Functions& f = library.functions;
  const Flavor& flavor = *library.flavor;
  uint32_t flags = DEVRT_COLLECTIVES_STREAM_ORDERED | DEVRT_COLLECTIVES_ABORT;
  if (f.comm_revoke != nullptr) flags |= DEVRT_COLLECTIVES_REVOKE;
  if (f.comm_split != nullptr) flags |= DEVRT_COLLECTIVES_SPLIT;
  if (f.comm_shrink != nullptr) flags |= DEVRT_COLLECTIVES_SHRINK;
  if (f.comm_register != nullptr && f.comm_deregister != nullptr) {
    flags |= DEVRT_COLLECTIVES_REGISTER;
  }
  const auto has_come = [&library](int version) {
    return version != 0 && library.version >= version;
  };
  if (has_come(flavor.shared_device_version)) {
    flags |= DEVRT_COLLECTIVES_SHARED_DEVICE;
  }
  if (has_come(flavor.launch_order_version) &&
      IsSet("NCCL_LAUNCH_ORDER_IMPLICIT", "1")) {
    flags |= DEVRT_COLLECTIVES_KEEPS_ORDER;
  }
  return flags;
}

std::string VersionText(int version) {
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".",
                      version % 100);
}

absl::StatusOr<Library> ReadLibrary(const Flavor& flavor, void* handle,
                                    const std::string& path) {
  Library library;
  library.flavor = &flavor;
  library.path = path;
  Functions& f = library.functions;
  f.get_version = reinterpret_cast<decltype(f.get_version)>(
      dlsym(handle, "ncclGetVersion"));
  if (f.get_version == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is not ", flavor.name, ": it has no ncclGetVersion"));
  }
  // A version before 2.9 has fewer digits, and is less than the oldest anyhow.
  const Result result = f.get_version(&library.version);
  if (result != kSuccess) {
    return absl::UnavailableError(absl::StrCat(
        path, " does not tell its version: ncclGetVersion returns ", result));
  }
  const bool few_digits = library.version < 10000;
  library.version_text = few_digits ? absl::StrCat(library.version / 1000, ".",
                                                   library.version % 1000 / 100,
                                                   ".", library.version % 100)
                                    : VersionText(library.version);
  const std::string what =
      absl::StrCat(flavor.name, " ", library.version_text, " from ", path);
  if (library.version < kOldestVersion) {
    return absl::UnavailableError(
        absl::StrCat(what, " is too old: 2.19 is needed"));
  }
  if (library.version >= kFirstOfNextMajor) {
    return absl::UnavailableError(absl::StrCat(
        what, " is too new: this version of devrt knows 2.19 and later 2.x"));
  }
#define DEVRT_NCCL_ENTRY(member, symbol, required)                        \
  f.member = reinterpret_cast<decltype(f.member)>(dlsym(handle, symbol)); \
  if (required && f.member == nullptr) {                                  \
    return absl::UnavailableError(                                        \
        absl::StrCat(what, " is incomplete: it has no ", symbol));        \
  }
#include "collectives/nccl/entries.inc"
#undef DEVRT_NCCL_ENTRY
  f.all_to_all = reinterpret_cast<decltype(f.all_to_all)>(
      dlsym(handle, flavor.all_to_all));
  return library;
}

absl::StatusOr<const Library*> OpenLibrary(const Flavor& flavor) {
  Slot& slot = SlotOf(flavor);
  MutexLock lock(&slot.mutex);
  if (slot.library == nullptr) {
    DEVRT_ASSIGN_OR_RETURN(Library found, Find(flavor, slot.path));
    slot.library = new Library(std::move(found));
  }
  return slot.library;
}

absl::Status SetLibraryPath(const Flavor& flavor, std::string path) {
  Slot& slot = SlotOf(flavor);
  MutexLock lock(&slot.mutex);
  if (slot.library != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        flavor.name, " is loaded already, from ", slot.library->path,
        ": set its path before the first communicator"));
  }
  slot.path = std::move(path);
  return absl::OkStatus();
}

}  // namespace devrt::collectives::nccl
