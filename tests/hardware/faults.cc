// SPDX-License-Identifier: Apache-2.0
//
// Devices that are lost, by every fault and by a reset from outside
// (docs/reference/semantics.md 2.3 to 2.5).  Each in a process of its own,
// which has to end by itself, with a code: no signal, no hang.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/hardware/beside.h"

namespace devrt::hardware {
namespace {

using ::testing::Combine;
using ::testing::Values;

class Faults : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Faults, LoseTheBackendOnly) {
  const auto [form, ordinal] = GetParam();
  RunBeside("fault_program", {form, std::to_string(ordinal)});
}

INSTANTIATE_TEST_SUITE_P(
    AllForms, Faults,
    Combine(Values("null_write", "misaligned", "assert", "trap"), Values(0, 1)),
    [](const auto& tested) {
      return std::string(std::get<0>(tested.param)) + "_on_" +
             std::to_string(std::get<1>(tested.param));
    });

class Reset
    : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Reset, IsAnErrorOfTheCall) {
  const auto [by, call] = GetParam();
  RunBeside("reset_program", {by, call});
}

std::string NameOf(
    const ::testing::TestParamInfo<std::tuple<const char*, const char*>>& of) {
  return std::string(std::get<0>(of.param)) + "_" + std::get<1>(of.param);
}

INSTANTIATE_TEST_SUITE_P(
    AllCalls, Reset,
    Combine(Values("driver", "runtime"),
            Values("fill", "copy", "launch", "record", "wait", "query_stream",
                   "synchronize_stream", "query_event", "synchronize_event",
                   "synchronize_device", "allocate", "allocate_host",
                   "create_stream", "memory_info", "guard", "host_function",
                   "destroy")),
    &NameOf);

INSTANTIATE_TEST_SUITE_P(
    SomeCalls, Reset,
    Combine(Values("again"), Values("fill", "record", "query_stream",
                                    "allocate", "create_stream", "destroy")),
    &NameOf);

}  // namespace
}  // namespace devrt::hardware
