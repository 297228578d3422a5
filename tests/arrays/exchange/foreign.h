// SPDX-License-Identifier: Apache-2.0
//
// ForeignTensor: a DLPack tensor of another library's, which counts how often
// it was released.
//
//   ForeignTensor foreign({2, 3}, kDLFloat, 32);
//   foreign.t()->byte_offset = 4;
//   ASSERT_OK_AND_ASSIGN(Array x, FromDLPack(foreign.managed()));
//
// It outlives what was imported.

#ifndef DEVRT_TESTS_ARRAYS_EXCHANGE_FOREIGN_H_
#define DEVRT_TESTS_ARRAYS_EXCHANGE_FOREIGN_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "devrt/arrays/dlpack.h"

namespace devrt::testing {

template <typename Tensor>
class ForeignTensorOf {
 public:
  ForeignTensorOf(std::vector<int64_t> shape, int code, int bits)
      : shape_(std::move(shape)) {
    DLTensor& t = managed_.dl_tensor;
    int64_t count = 1;
    for (const int64_t extent : shape_) count *= extent;
    memory_.resize(static_cast<size_t>(count * bits / 8) + 64);
    t.data = memory_.data();
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<int32_t>(shape_.size());
    t.dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
    t.shape = shape_.data();
    t.strides = nullptr;
    t.byte_offset = 0;
    managed_.manager_ctx = this;
    managed_.deleter = [](Tensor* tensor) {
      ++static_cast<ForeignTensorOf*>(tensor->manager_ctx)->released_;
    };
  }
  ForeignTensorOf(const ForeignTensorOf&) = delete;
  ForeignTensorOf& operator=(const ForeignTensorOf&) = delete;

  Tensor* managed() { return &managed_; }
  DLTensor* t() { return &managed_.dl_tensor; }
  void SetStrides(std::vector<int64_t> strides) {
    strides_ = std::move(strides);
    managed_.dl_tensor.strides = strides_.data();
  }
  int released() const { return released_; }

 private:
  Tensor managed_{};
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  std::vector<char> memory_;
  std::atomic<int> released_{0};
};

class ForeignTensor : public ForeignTensorOf<DLManagedTensorVersioned> {
 public:
  ForeignTensor(std::vector<int64_t> shape, int code, int bits)
      : ForeignTensorOf(std::move(shape), code, bits) {
    managed()->version = {1, 0};
    managed()->flags = 0;
  }
};
using LegacyForeignTensor = ForeignTensorOf<DLManagedTensor>;

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_EXCHANGE_FOREIGN_H_
