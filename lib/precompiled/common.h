// SPDX-License-Identifier: Apache-2.0
//
// What most files of the library, the suite, the command and the bindings
// include, parsed once for each of them (meson.build, `precompiled`).  Files
// include what they use all the same: builds with a compiler cache, and those
// with -Db_pch=false, go without.

#ifndef DEVRT_LIB_PRECOMPILED_COMMON_H_
#define DEVRT_LIB_PRECOMPILED_COMMON_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#endif  // DEVRT_LIB_PRECOMPILED_COMMON_H_
