// SPDX-License-Identifier: Apache-2.0
//
// ArraysTest: MtiaTest for tests that make arrays.  They give all of them up.
#ifndef DEVRT_TESTS_ARRAYS_ARRAYS_FIXTURE_H_
#define DEVRT_TESTS_ARRAYS_ARRAYS_FIXTURE_H_

#include <gtest/gtest.h>

#include "arrays/storage/storage.h"
#include "arrays/storage/storage_kept.h"
#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {

class ArraysTest : public MtiaTest {
 protected:
  ArraysTest() { internal::CountStoragesFromNow(); }
  void TearDown() override {
    for (int i = 0; i < kDevices; ++i) {
      EXPECT_OK(dev(i).Synchronize());
    }
    internal::RunPendingReleases();
    EXPECT_EQ(internal::CountStorages().live, 0);
    EXPECT_EQ(internal::CountStorages().kept, 0);
    for (int i = 0; i < kDevices; ++i) EXPECT_OK(EmptyCache(dev(i)));
    EXPECT_OK(EmptyPinnedCache(dev(0).backend()));
    MtiaTest::TearDown();
  }
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_ARRAYS_FIXTURE_H_
