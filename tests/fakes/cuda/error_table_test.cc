// SPDX-License-Identifier: Apache-2.0
//
// Every code of the installed cuda.h is classified on purpose.
#include "backends/cuda/error_table.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <string>

namespace devrt::cuda {
namespace {

using gpu::ErrorClass;

struct Named {
  int code;
  const char* name;
};

constexpr Named kInHeader[] = {
#define DEVRT_CUDA_ERROR(name) {name, #name},
#include "cuda_errors.inc"
#undef DEVRT_CUDA_ERROR
};

TEST(ErrorTable, ListsTheWholeHeader) {
  for (const Named& error : kInHeader) {
    if (error.code == CUDA_SUCCESS) continue;
    EXPECT_EQ(MeaningOf(error.code).code, error.code)
        << error.name << " is not in backends/cuda/error_table.cc";
  }
}

TEST(ErrorTable, LeavesOtherCodesToSuspicion) {
  for (const int code : {-1, 0, 60, 100000}) {
    EXPECT_EQ(MeaningOf(code).status, DEVRT_INTERNAL) << code;
    EXPECT_EQ(MeaningOf(code).error_class, ErrorClass::kSuspect) << code;
  }
}

// The rows of semantics.md 2.2 that end a device, and no others.
TEST(ErrorTable, KnowsWhatIsSticky) {
  const auto is_sticky = [](int code) {
    for (const int sticky : {214, 220, 226, 700, 702, 710, 714, 715, 716, 717,
                             718, 719, 721, 810, 911}) {
      if (code == sticky) return true;
    }
    return false;
  };
  for (const Named& error : kInHeader) {
    if (error.code == CUDA_SUCCESS) continue;
    EXPECT_EQ(MeaningOf(error.code).error_class == ErrorClass::kSticky,
              is_sticky(error.code))
        << error.name;
  }
}

}  // namespace
}  // namespace devrt::cuda
