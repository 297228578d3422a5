// SPDX-License-Identifier: Apache-2.0
//
// The helpers hide their own symbols, and nothing that is included after them:
// a function of another library must stay visible, or this does not link.

// clang-format off: the order is the test
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"
// clang-format on

namespace {

TEST(Helper, LaterIncludesStayVisible) {
  EXPECT_NE(gnu_get_libc_version(), nullptr);
}

}  // namespace
