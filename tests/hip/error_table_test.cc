// SPDX-License-Identifier: Apache-2.0
//
// Every code of the installed HIP header is classified on purpose.
#include "backends/hip/error_table.h"

#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>

#include "tests/support/error_table_walk.h"

namespace devrt::hip {
namespace {

constexpr gpu::NamedError kInHeader[] = {
#define DEVRT_HIP_ERROR(name) {name, #name},
#include "hip_errors.inc"
#undef DEVRT_HIP_ERROR
};

TEST(HipErrorTable, ListsTheWholeHeader) {
  gpu::ExpectAllListed(kInHeader, MeaningOf);
}

TEST(HipErrorTable, LeavesOtherCodesToSuspicion) {
  gpu::ExpectOthersSuspect(MeaningOf);
}

TEST(HipErrorTable, StickyErrorsAreThoseOfTheSemantics) {
  gpu::ExpectSticky(kInHeader, MeaningOf, {214, 700, 702, 710, 719});
}

// To CUDA they are an external device's fault, which is sticky, and a cluster
// size (docs/reference/semantics.md 2.2).
TEST(HipErrorTable, HasItsOwn911And912) {
  for (const int code : {911, 912}) {
    EXPECT_EQ(MeaningOf(code).status, DEVRT_INVALID_ARGUMENT) << code;
    EXPECT_EQ(MeaningOf(code).error_class, gpu::ErrorClass::kLocal) << code;
  }
}

}  // namespace
}  // namespace devrt::hip
