// SPDX-License-Identifier: Apache-2.0
//
// What most tests include, parsed once (tests/meson.build).  Files include what
// they use all the same: builds with a compiler cache, and those with
// -Db_pch=false, go without.

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
