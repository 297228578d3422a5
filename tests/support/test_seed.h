// SPDX-License-Identifier: Apache-2.0
//
// The seed of a test's random numbers: a fixed one, so that all runs of one
// tree have one result, or the decimal number in DEVRT_TEST_SEED, to search
// with other seeds.
//
//   std::mt19937 random(TestSeed());
//   SCOPED_TRACE(SeedTrace());
#ifndef DEVRT_TESTS_SUPPORT_TEST_SEED_H_
#define DEVRT_TESTS_SUPPORT_TEST_SEED_H_

#include <cstdint>
#include <cstdlib>
#include <string>

namespace devrt::testing {

inline uint32_t TestSeed() {
  const char* given = std::getenv("DEVRT_TEST_SEED");
  return given != nullptr
             ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
             : 20'240'601;
}

// For example "DEVRT_TEST_SEED=20240601".
inline std::string SeedTrace() {
  return "DEVRT_TEST_SEED=" + std::to_string(TestSeed());
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SUPPORT_TEST_SEED_H_
