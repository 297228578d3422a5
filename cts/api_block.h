// SPDX-License-Identifier: Apache-2.0
//
// A block of device memory from devrt's C++ API, for tests of its copies and
// fills: without POINTER_INFO devrt only knows memory that it allocated.  The
// block is filled with 0.  The destructor waits for the device first.

#ifndef DEVRT_CTS_API_BLOCK_H_
#define DEVRT_CTS_API_BLOCK_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cts/test.h"

namespace devrt::cts {

class ApiBlock {
 public:
  ApiBlock(Test& t, Device device, uint64_t size)
      : t_(t),
        device_(device),
        size_(size),
        ptr_(t.Require(Allocate(device, size), "allocation")) {
    const Stream s = t.Require(Stream::Create(device), "stream");
    t.Ok(FillAsync(s, ptr_, 0, size), "fill");
    t.Ok(s.Synchronize(), "synchronise");
  }
  ApiBlock(const ApiBlock&) = delete;
  ~ApiBlock() {
    t_.Ok(device_.Synchronize(), "synchronise");
    t_.Ok(Free(device_, ptr_), "free");
  }

  void* ptr() const { return ptr_; }
  // Blocking; not ordered after the work of other streams.
  std::vector<uint8_t> Read() const {
    std::vector<uint8_t> bytes(size_);
    const Stream s = t_.Require(Stream::Create(device_), "stream");
    t_.Ok(Copy(s, bytes.data(), ptr_, size_), "copy to the host");
    return bytes;
  }
  bool Holds(uint8_t value) const {
    const std::vector<uint8_t> bytes = Read();
    return std::all_of(bytes.begin(), bytes.end(),
                       [value](uint8_t b) { return b == value; });
  }

 private:
  Test& t_;
  const Device device_;
  const uint64_t size_;
  void* const ptr_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_API_BLOCK_H_
