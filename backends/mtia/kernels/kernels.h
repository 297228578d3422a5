// SPDX-License-Identifier: Apache-2.0
//
// Bodies of the elementwise and reduction extensions, as functions on local
// addresses.  They know no streams or devices: table/tensor_ops.cc checks the
// arguments at the submission, and the engine finds the local addresses.

#ifndef DEVRT_BACKENDS_MTIA_KERNELS_KERNELS_H_
#define DEVRT_BACKENDS_MTIA_KERNELS_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/tensor/tensor.h"

namespace devrt::mtia {

using tensor::CheckElementwise;
using tensor::CheckReduce;
using tensor::CopyTensor;
using tensor::DtypeName;
using tensor::DtypeSize;
using tensor::ElementwiseSupports;
using tensor::ReduceSupports;
using tensor::Tensor;

// The bodies.  `*_local` is the local address of the element at `data`.  The
// arguments have passed the checks above.
void RunFill(const Tensor& out, std::byte* out_local, const void* value);
void RunElementwise(uint32_t op, const Tensor& out, std::byte* out_local,
                    const std::vector<Tensor>& inputs,
                    const std::vector<const std::byte*>& input_locals);
void RunReduce(uint32_t op, const Tensor& out, std::byte* out_local,
               const Tensor& in, const std::byte* in_local, uint32_t axes);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_KERNELS_KERNELS_H_
