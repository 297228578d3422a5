// SPDX-License-Identifier: Apache-2.0
//
// Orders an import by DLPack after the producer's work, on the right device
// (E54 to E57, E6).
//
// The producer is asked for a stream of the device that it names.  The memory
// may be on another one: the struct says where, or for managed memory, which
// DLPack calls (13, 0) on every device, the driver.  Work of devrt on the array
// begins on the current stream of the memory's device.

#ifndef DEVRT_PYTHON_SRC_DLPACK_ORDER_H_
#define DEVRT_PYTHON_SRC_DLPACK_ORDER_H_

#include <optional>

#include "absl/status/status.h"
#include "devrt/arrays/dlpack_abi.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "python/src/python.h"

namespace devrt::python {

// FindDLPackDevice for callers with the GIL, which is released where a backend
// is called.
std::optional<Device> FindDevice(DLDevice device);

// Returns the device of the tensor's memory.  `named` is what the producer's
// __dlpack_device__ said, `asked` the device that it was asked for. nullopt if
// there is no such device; the import reports that.  May release the GIL after
// it has read `tensor`.
std::optional<Device> DeviceOfData(const DLTensor& tensor, DLDevice named,
                                   Device asked);

// The stream of the producer's work.  `device` is nullopt if there is none.
struct WorkStream {
  std::optional<Device> device;  // the device that was asked for
  std::optional<Device> data;    // the device of the memory
  void* native = nullptr;
};

// Orders the current stream of the memory's device after the producer's work.
absl::Status OrderAfterWork(const WorkStream& work, CallSite site);
// Does so if the work is already ordered before the current stream of `asked`.
absl::Status OrderData(std::optional<Device> data, Device asked, CallSite site);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DLPACK_ORDER_H_
