// SPDX-License-Identifier: Apache-2.0
//
// Every code of the installed cuda.h is classified on purpose.
#include "backends/cuda/error_table.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include "tests/support/error_table_walk.h"

namespace devrt::cuda {
namespace {

constexpr gpu::NamedError kInHeader[] = {
#define DEVRT_CUDA_ERROR(name) {name, #name},
#include "cuda_errors.inc"
#undef DEVRT_CUDA_ERROR
};

TEST(ErrorTable, ListsTheWholeHeader) {
  gpu::ExpectAllListed(kInHeader, MeaningOf);
}

TEST(ErrorTable, LeavesOtherCodesToSuspicion) {
  gpu::ExpectOthersSuspect(MeaningOf);
}

// The rows of docs/reference/semantics.md 2.2 that end a device, and no others.
TEST(ErrorTable, StickyErrorsAreThoseOfTheSemantics) {
  gpu::ExpectSticky(kInHeader, MeaningOf,
                    {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719,
                     721, 810, 911});
}

}  // namespace
}  // namespace devrt::cuda
