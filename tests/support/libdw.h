// SPDX-License-Identifier: Apache-2.0
//
// Tells tests whether the validate layer finds functions and lines of C++: if
// the build had the headers of libdw, and the machine has the library.

#ifndef DEVRT_TESTS_SUPPORT_LIBDW_H_
#define DEVRT_TESTS_SUPPORT_LIBDW_H_

#include <dlfcn.h>

namespace devrt::testing {

inline constexpr char kNoLibdw[] = "libdw is not installed";

inline bool HasLibdw() {
#if __has_include(<elfutils/libdwfl.h>)
  return dlopen("libdw.so.1", RTLD_NOW) != nullptr;
#else
  return false;
#endif
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SUPPORT_LIBDW_H_
