// SPDX-License-Identifier: Apache-2.0
//
// What most files of the plugins and layers include of the standard library,
// parsed once for each of them (meson.build, `precompiled`).  Plugins do not
// link Abseil, so common.h is not for them.

#ifndef DEVRT_LIB_PRECOMPILED_STANDARD_H_
#define DEVRT_LIB_PRECOMPILED_STANDARD_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#endif  // DEVRT_LIB_PRECOMPILED_STANDARD_H_
