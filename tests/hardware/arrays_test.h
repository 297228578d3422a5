// SPDX-License-Identifier: Apache-2.0
//
// Arrays by their public functions alone, on the devices of the backend that
// DEVRT_TEST_BACKEND names (cuda).  The tests run on GPUs, over a fake driver
// and on mtia.  The expected results come from the host and from mtia, which
// the tests in tests/arrays compare with references.

#ifndef DEVRT_TESTS_HARDWARE_ARRAYS_TEST_H_
#define DEVRT_TESTS_HARDWARE_ARRAYS_TEST_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "tests/hardware/memory_test.h"

namespace devrt::hardware {

class ArraysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<std::vector<Device>> found = Devices(BackendName());
    if (absl::IsUnavailable(found.status())) GTEST_SKIP() << found.status();
    ASSERT_OK(found);
    devices = *found;
  }
  void TearDown() override {
    for (const Device device : devices) EXPECT_OK(device.Synchronize());
  }

  Device dev() const { return devices.front(); }
  // Returns true if the device has more than 16 GiB, as a real GPU for these
  // tests.
  bool IsHardware() const {
    return Must(dev().GetMemoryInfo()).total_bytes > uint64_t{16} << 30;
  }

  std::vector<Device> devices;
};

// Random numbers that every kind of dtype has some use for.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t n) { return random_() % n; }

  // Makes a C-contiguous array on the host.
  Array Make(DimSpan shape, DType dtype) {
    std::vector<double> values(static_cast<size_t>(Count(shape)));
    for (double& value : values) value = Next();
    const Array doubles =
        Must(Array::FromHost(values.data(), shape, kFloat64, Place::Host()));
    return Must(doubles.Cast(dtype));
  }

  static int64_t Count(DimSpan shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return count;
  }

 private:
  double Next() {
    switch (Below(8)) {
      case 0:
        return 0;
      case 1:
        return static_cast<double>(Below(5)) - 2;
      case 2:
        return (static_cast<double>(Below(2000001)) - 1000000) * 1e-3;
      case 3:
        return static_cast<double>(Below(1 << 20)) * 4096;
      default:
        return static_cast<double>(Below(256)) - 128 +
               static_cast<double>(Below(1024)) / 1024;
    }
  }
  std::mt19937_64 random_;
};

// The elements in C order, as bytes.
inline std::string BytesOf(const Array& array) {
  const Array host = Must(Must(array.To(Place::Host())).Contiguous());
  return std::string(host.data_as<char>(), host.nbytes());
}

// Succeeds if each pair of elements has equal bits, or is NaN in both arrays.
::testing::AssertionResult SameElements(const Array& got, const Array& wanted);

}  // namespace devrt::hardware

#endif  // DEVRT_TESTS_HARDWARE_ARRAYS_TEST_H_
