// SPDX-License-Identifier: Apache-2.0
//
// What an import by DLPack comes after, and on which device (E54 to E57, E6).
//
// A producer is asked of the device that its memory is said to be of.  Where
// the memory is the struct says, and for managed memory, which is (13, 0) on
// every device, the driver: the current stream there is the array's.

#ifndef DEVRT_PYTHON_SRC_DLPACK_ORDER_H_
#define DEVRT_PYTHON_SRC_DLPACK_ORDER_H_

#include <optional>

#include "absl/status/status.h"
#include "devrt/arrays/dlpack_abi.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "python/src/python.h"

namespace devrt::python {

// FindDLPackDevice, with the GIL, which goes where a backend is called.
std::optional<Device> FindDevice(DLDevice device);

// Where the memory of `tensor` is, of which a producer that says `named` was
// asked for `asked`; nullopt: the import says what is wrong.  The GIL may go:
// `tensor` is read before.
std::optional<Device> DeviceOfData(const DLTensor& tensor, DLDevice named,
                                   Device asked);

// The stream that a producer submits to; `device` nullopt: there is none.
struct WorkStream {
  std::optional<Device> device;  // that it was asked of
  std::optional<Device> data;    // where the memory is
  void* native = nullptr;
};

// Puts the current stream of the data's device behind the producer's work.
absl::Status OrderAfterWork(const WorkStream& work, CallSite site);
// The same where the work is before the current stream of `asked`.
absl::Status OrderData(std::optional<Device> data, Device asked, CallSite site);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DLPACK_ORDER_H_
