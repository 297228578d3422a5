// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/keep_loaded.h"

#include <dlfcn.h>
#include <link.h>

namespace devrt::internal {

void KeepLoaded(const void* code) {
  Dl_info info;
  void* extra = nullptr;
  if (dladdr1(code, &info, &extra, RTLD_DL_LINKMAP) == 0 || extra == nullptr) {
    return;
  }
  const char* const name = static_cast<const link_map*>(extra)->l_name;
  if (name == nullptr || *name == '\0') return;  // the program itself
  // RTLD_NOLOAD: the library is known by this name, so dlopen opens no file.
  // The handle is never closed.
  static_cast<void>(dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
}

}  // namespace devrt::internal
