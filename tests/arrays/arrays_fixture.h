// SPDX-License-Identifier: Apache-2.0
//
// ArraysTest: MtiaTest in which nothing of an array is left at the end.

#ifndef DEVRT_TESTS_ARRAYS_ARRAYS_FIXTURE_H_
#define DEVRT_TESTS_ARRAYS_ARRAYS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "arrays/storage/storage.h"
#include "arrays/storage/storage_kept.h"
#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {

class ArraysTest : public MtiaTest {
 protected:
  ArraysTest() { internal::CountStoragesFromNow(); }
  void TearDown() override {
    ExpectNothingLeft();
    for (int i = 0; i < kDevices; ++i) EXPECT_OK(EmptyCache(dev(i)));
    EXPECT_OK(EmptyPinnedCache(dev().backend()));
    MtiaTest::TearDown();
  }
  // Waits for the devices, and checks that no storage and no owner is left.
  static void ExpectNothingLeft() {
    for (int i = 0; i < kDevices; ++i) EXPECT_OK(dev(i).Synchronize());
    internal::RunAllPendingReleases();
    EXPECT_EQ(internal::CountStorages().live, 0);
    EXPECT_EQ(internal::CountStorages().kept, 0);
  }

  // An owner of memory, which sets `*gone` when nothing holds it any more.
  static std::shared_ptr<void> Owner(bool* gone) {
    return std::shared_ptr<void>(
        gone, [](void* p) { *static_cast<bool*>(p) = true; });
  }
  static Array NewArray(const Place& place, int64_t elements = 64,
                        DType dtype = kInt32) {
    return Must(Array::Empty({&elements, 1}, dtype, place));
  }
  // An array whose elements are `value`, with nothing pending.
  static Array Filled(const Place& place, int value, int64_t elements = 64) {
    Array made = NewArray(place, elements);
    Must(made.Fill(value));
    Must(made.Ready());
    return made;
  }
  // The elements, without order or waits: for final comparisons.
  static std::vector<int32_t> Peek(const Array& array) {
    std::vector<int32_t> values(static_cast<size_t>(array.size()));
    if (array.place().host_accessible()) {
      const auto* p = array.data_as<int32_t>();
      values.assign(p, p + array.size());
    } else {
      Must(sim().Peek(array.data(), values.data(), array.nbytes()));
    }
    return values;
  }
  static bool IsAll(const Array& array, int32_t value) {
    const std::vector<int32_t> values = Peek(array);
    return values == std::vector<int32_t>(values.size(), value);
  }
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_ARRAYS_FIXTURE_H_
