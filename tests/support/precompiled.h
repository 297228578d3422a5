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
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#endif  // DEVRT_TESTS_SUPPORT_PRECOMPILED_H_
