// SPDX-License-Identifier: Apache-2.0
//
// The headers that most tests include, as a precompiled header
// (tests/meson.build).  Test files still include the headers that they use,
// because builds with a compiler cache or -Db_pch=false do not use this file.

#ifndef DEVRT_TESTS_SUPPORT_PRECOMPILED_H_
#define DEVRT_TESTS_SUPPORT_PRECOMPILED_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#endif  // DEVRT_TESTS_SUPPORT_PRECOMPILED_H_
