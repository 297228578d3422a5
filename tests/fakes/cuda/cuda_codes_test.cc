// SPDX-License-Identifier: Apache-2.0
//
// The numbers of CUDA's runtime agree with its header and with the driver's.
#include <gtest/gtest.h>

#include <string>

#include "backends/cuda/error_table.h"

#if __has_include(<driver_types.h>)
#include <driver_types.h>
#endif

namespace devrt::cuda {
namespace {

constexpr auto kLocal = false;
constexpr auto kSticky = true;

struct Row {
  int number;
  devrt_code status;
  bool sticky;
  std::string name;
};

const Row kRows[] = {
#define DEVRT_CUDA_CODE(number, status, lasting, name) \
  {number, DEVRT_##status, lasting, #name},
#include "backends/cuda_codes.inc"
#undef DEVRT_CUDA_CODE
};

TEST(CudaCodes, MeaningsEqualThoseOfTheDriver) {
  int common = 0;
  for (const Row& row : kRows) {
    const gpu::ErrorMeaning& meaning = MeaningOf(row.number);
    if (meaning.code != row.number) continue;
    ++common;
    EXPECT_EQ(row.status, meaning.status) << row.name;
    EXPECT_EQ(row.sticky, meaning.error_class == gpu::ErrorClass::kSticky)
        << row.name;
  }
  EXPECT_GT(common, 90);
}

#if __has_include(<driver_types.h>)
const struct {
  int number;
  const char* name;
} kInHeader[] = {
#define DEVRT_CUDA_ERROR(name) {name, #name},
#include "cudart_errors.inc"
#undef DEVRT_CUDA_ERROR
};

TEST(CudaCodes, ListTheWholeHeader) {
  for (const auto& error : kInHeader) {
    if (error.number == cudaErrorApiFailureBase) continue;  // names no error
    bool found = false;
    for (const Row& row : kRows) {
      if (row.number != error.number) continue;
      found = true;
      EXPECT_EQ(row.name, error.name);
    }
    EXPECT_TRUE(found) << error.name << " is not in cuda_codes.inc";
  }
}
#endif

}  // namespace
}  // namespace devrt::cuda
