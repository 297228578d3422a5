// SPDX-License-Identifier: Apache-2.0
//
// Bodies of the elementwise and reduction extensions, as plain functions on
// local addresses.  They know nothing of streams or devices: plugin.cc checks
// arguments at submission, the engine resolves the ranges and runs the body.

#ifndef DEVRT_BACKENDS_MTIA_KERNELS_H_
#define DEVRT_BACKENDS_MTIA_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::mtia {

// An owned copy of a devrt_tensor_v0 whose strides are filled in.  `data` is
// the public address; `lo`..`hi` is the byte range it touches relative to data
// ([0, 0) for an empty tensor).
struct Tensor {
  void* data = nullptr;
  uint32_t dtype = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // bytes
  int64_t lo = 0;
  int64_t hi = 0;
  int64_t elements = 0;
};

uint32_t DtypeSize(uint32_t dtype);     // bytes; 0: unknown dtype
std::string DtypeName(uint32_t dtype);  // "float32"

// Each returns false and sets `*error` (tensor, value, expectation).
// `what` is the tensor's name in messages: "out", "input 1".
bool CopyTensor(const devrt_tensor_v0& in, const char* what, Tensor* out,
                std::string* error);

bool ElementwiseSupports(uint32_t op, uint32_t dtype);
bool CheckElementwise(uint32_t op, const Tensor& out,
                      const std::vector<Tensor>& inputs, std::string* error);
bool ReduceSupports(uint32_t op, uint32_t in_dtype, uint32_t out_dtype);
bool CheckReduce(uint32_t op, const Tensor& out, const Tensor& in,
                 uint32_t axes, std::string* error);

// The bodies.  `*_local` is where the element at `data` may be touched.
// Arguments have passed the checks above.
void RunFill(const Tensor& out, std::byte* out_local, const void* value);
void RunElementwise(uint32_t op, const Tensor& out, std::byte* out_local,
                    const std::vector<Tensor>& inputs,
                    const std::vector<const std::byte*>& input_locals);
void RunReduce(uint32_t op, const Tensor& out, std::byte* out_local,
               const Tensor& in, const std::byte* in_local, uint32_t axes);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_KERNELS_H_
