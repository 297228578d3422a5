// SPDX-License-Identifier: Apache-2.0
#include "arrays/exchange/dlpack_memory.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "arrays/exchange/dlpack_block.h"
#include "arrays/exchange/dlpack_devices.h"
#include "arrays/storage/storage.h"

namespace devrt::internal {
namespace {

Array BytesOf(std::shared_ptr<Storage> storage) {
  char* const data = static_cast<char*>(storage->base());
  const auto bytes = static_cast<int64_t>(storage->bytes());
  return Array(std::move(storage), data, {bytes}, {1}, kUInt8);
}

TensorMemory FindMemory(const DLPackBlock* own, const DLTensor& t) {
  TensorMemory memory;
  if (own != nullptr) {
    memory.place = own->storage()->place();
    memory.own = BytesOf(own->storage());
    return memory;
  }
  if (t.data == nullptr) return memory;
  if (SameDevice(t.device, {kDLCPU, 0})) {
    memory.place = Place::Host();  // without a question to drivers
    return memory;
  }
  const absl::StatusOr<Place> place =
      PlaceOf(t.device, static_cast<char*>(t.data) + t.byte_offset, {0, 1});
  if (place.ok()) memory.place = *place;
  return memory;
}

}  // namespace

TensorMemory MemoryOf(const DLManagedTensorVersioned& tensor) {
  if (tensor.version.major != DLPACK_MAJOR_VERSION) return {};
  return FindMemory(DLPackBlock::Of(&tensor), tensor.dl_tensor);
}

TensorMemory MemoryOf(const DLManagedTensor& tensor) {
  return FindMemory(DLPackBlock::Of(&tensor), tensor.dl_tensor);
}

}  // namespace devrt::internal
