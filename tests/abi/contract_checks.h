// SPDX-License-Identifier: Apache-2.0
//
// The rules of docs/reference/plugin-contract.md that only a plugin that runs
// can show.
//
//   const std::string text = FirstViolation("/abs/libdevrt_x.so");
//   EXPECT_EQ(text, "");   // "P10: alloc gave 0x...8, which is not ..."

#ifndef DEVRT_TESTS_ABI_CONTRACT_CHECKS_H_
#define DEVRT_TESTS_ABI_CONTRACT_CHECKS_H_

#include <string>

namespace devrt::test {

// Opens the plugin in a child process and tries every rule; the first that is
// broken, empty if none is.  A plugin that ends the child is told of, too.
std::string FirstViolation(const std::string& path);

}  // namespace devrt::test

#endif  // DEVRT_TESTS_ABI_CONTRACT_CHECKS_H_
