// SPDX-License-Identifier: Apache-2.0
//
// FromDLPack: a tensor is refused with a status and left alone, or becomes an
// array that keeps the rules, goes out again as it came, and is released once.

#include <optional>
#include <utility>

#include "arrays/storage/storage_kept.h"
#include "streams/common/deferred_deletion.h"
#include "tests/fuzz/exchange_input.h"

namespace devrt::fuzz {
namespace {

constexpr int kDims = 40;

struct Tensor {
  int64_t shape[kDims] = {};
  int64_t strides[kDims] = {};
  int released = 0;
};

void Read(ExchangeInput* in, Tensor* memory, DLTensor* t) {
  constexpr int kTypes[] = {1, 12, 12, 12, 1, 2, 3, 10, 11, 13, 0, 8, 99, -1};
  t->data = in->Address();
  t->device.device_type =
      static_cast<DLDeviceType>(kTypes[in->Byte() % std::size(kTypes)]);
  t->device.device_id =
      in->Rarely(16) ? static_cast<int32_t>(in->Raw()) : in->Byte() % 3;
  t->ndim = in->Rarely(32) ? static_cast<int8_t>(in->Byte()) : in->Byte() % 5;
  if (t->ndim > kDims) t->ndim = kDims;
  const absl::Span<const DType> all = DType::All();
  const DType dtype = all[in->Byte() % all.size()];
  t->dtype = {dtype.dlpack_code(), dtype.dlpack_bits(), 1};
  if (in->Rarely(16)) t->dtype = {in->Byte(), in->Byte(), in->Byte()};
  for (int i = 0; i < t->ndim; ++i) memory->shape[i] = in->Number();
  for (int i = 0; i < t->ndim; ++i) memory->strides[i] = in->Number();
  t->shape = in->Rarely(64) ? nullptr : memory->shape;
  t->strides = in->Byte() % 2 == 0 ? nullptr : memory->strides;
  t->byte_offset =
      in->Byte() % 4 == 3 ? static_cast<uint64_t>(in->Number()) : 0;
}

DLPackImport Options(ExchangeInput* in, const DLTensor& t) {
  DLPackImport how;
  how.read_only = in->Byte() % 8 == 7;
  // A copy reads: only where the backend has seen to it that it may.
  if (t.device.device_type != 12 || !in->Rarely(32)) return how;
  // And what is broadcast may be larger than all memory.
  double count = 1;
  for (int i = 0; i < t.ndim && t.shape != nullptr; ++i) {
    count *= static_cast<double>(t.shape[i]);
  }
  if (count > 65536) return how;
  how.copy = in->Byte() % 2 == 0;
  if (in->Byte() % 2 == 0) how.place = Place::Host();
  return how;
}

void Settle() {
  internal::RunDeferredArrayReleases();
  internal::RunPendingReleases();
}

// Out and in again.
void RoundTrip(const Array& x) {
  DLPackExport how;
  how.stream = -1;
  const auto out = ToDLPack(x, how);
  if (!out.ok()) return;
  const auto back = FromDLPack(*out);
  FUZZ_EXPECT(back.ok());
  FUZZ_EXPECT(back->data() == x.data() && back->dtype() == x.dtype());
  FUZZ_EXPECT(back->shape() == x.shape() && back->read_only() == x.read_only());
}

template <typename Managed>
void Try(ExchangeInput* in, Managed* managed, Tensor* memory) {
  managed->manager_ctx = memory;
  const bool deletes = !in->Rarely(16);
  if (deletes) {
    managed->deleter = [](Managed* self) {
      ++static_cast<Tensor*>(self->manager_ctx)->released;
    };
  }
  Read(in, memory, &managed->dl_tensor);
  const DLPackImport how = Options(in, managed->dl_tensor);
  {
    const auto x = FromDLPack(managed, how);
    if (!x.ok()) {
      Settle();
      FUZZ_EXPECT(memory->released == 0);
      FUZZ_EXPECT(x.status().message().size() < 2000);
      return;
    }
    if (!how.copy.has_value() && !how.place.has_value()) {
      CheckArray(*x);
      FUZZ_EXPECT(memory->released == 0);
      RoundTrip(*x);
    }
  }
  Settle();
  const bool copied = how.copy.has_value() || how.place.has_value();
  // devrt releases a returned tensor behind the stream that used it.
  if (copied || memory->released == 0) {
    for (int i = 0; i < 2; ++i) {
      FUZZ_EXPECT(GetDevice("mtia", i)->Synchronize().ok());
    }
    Settle();
  }
  if (copied) {
    // The machine's blocks are the only ones again.
    for (int i = 0; i < 2; ++i) {
      FUZZ_EXPECT(EmptyCache(*GetDevice("mtia", i)).ok());
    }
  }
  FUZZ_EXPECT(memory->released == (deletes ? 1 : 0));
}

}  // namespace
}  // namespace devrt::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  devrt::fuzz::ExchangeMachine::Get();
  devrt::fuzz::ExchangeInput in(data, size);
  devrt::fuzz::Tensor memory;
  if (in.Byte() % 4 == 3) {
    DLManagedTensor legacy{};
    devrt::fuzz::Try(&in, &legacy, &memory);
    return 0;
  }
  DLManagedTensorVersioned managed{};
  managed.version = {in.Rarely(32) ? in.Byte() : 1u, in.Byte()};
  managed.flags = in.Byte();
  devrt::fuzz::Try(&in, &managed, &memory);
  return 0;
}
