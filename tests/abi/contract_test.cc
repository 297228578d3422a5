// SPDX-License-Identifier: Apache-2.0
//
// The contract's checks pass plugins that keep it, and name the rule that each
// of the others breaks: a check that cannot fail is none.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/abi/contract_checks.h"
#include "tests/support/sanitizers.h"

namespace devrt::test {
namespace {

std::string PathOf(const std::string& name) {
  const bool mtia = name == "mtia";
  const char* const place =
      std::getenv(mtia ? "DEVRT_TEST_MTIA_PLUGIN" : "DEVRT_TEST_PLUGIN_DIR");
  if (place == nullptr) return "not set";
  return mtia ? place : std::string(place) + "/libdevrt_" + name + ".so";
}

class KeptContract : public testing::TestWithParam<const char*> {};

TEST_P(KeptContract, IsFoundKept) {
  EXPECT_EQ(FirstViolation(PathOf(GetParam())), "");
}

INSTANTIATE_TEST_SUITE_P(Plugins, KeptContract,
                         testing::Values("mtia", "good", "good_helper", "tiny",
                                         "null_self", "cut_helper",
                                         "appended_helper"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

struct Broken {
  const char* plugin;
  const char* violation;
};

class BrokenContract : public testing::TestWithParam<Broken> {};

TEST_P(BrokenContract, IsNamed) {
#if DEVRT_TEST_TSAN
  if (std::string(GetParam().plugin) == "opens_atexit") {
    GTEST_SKIP() << "ThreadSanitizer registers what is left for the end";
  }
#endif
  EXPECT_EQ(FirstViolation(PathOf(GetParam().plugin)), GetParam().violation);
}

constexpr Broken kBroken[] = {
    {"opens_thread", "P2: open started a thread"},
    {"opens_abort", "P4: the process ended by signal 6"},
    {"opens_exit", "P4: the process exited with 3"},
    {"opens_setenv", "P4: open changed the environment"},
    {"opens_stdout", "P4: open wrote to stdout"},
    {"opens_atexit", "P4: open left something for the end of the process"},
    {"no_table", "P5: open gave no table"},
    {"touches_out", "P7: alloc failed and set the pointer"},
    {"not_ready_is_error", "P8: stream_query answers with an error: not ready"},
    {"unaligned", "P10: alloc gave a block that is not aligned to 256"},
    {"one_thread", "P12: another thread is refused: called by another thread"},
    {"host_func_here", "P15: a host function ran on the caller's thread"},
    {"host_func_twice", "P15: a host function ran 2 times"},
    {"forgets_context", "P17: context_exit did not restore what was current"},
    {"same_handle", "P18: two live objects have one handle"},
};

INSTANTIATE_TEST_SUITE_P(Plugins, BrokenContract, testing::ValuesIn(kBroken),
                         [](const auto& test) {
                           return std::string(test.param.plugin);
                         });

}  // namespace
}  // namespace devrt::test
