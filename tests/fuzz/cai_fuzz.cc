// SPDX-License-Identifier: Apache-2.0
//
// FromCudaArrayInterface: as dlpack_fuzz.cc, for the other protocol.  Its
// places and copies, too: what the backend has not seen to is refused first.

#include <memory>
#include <string>
#include <utility>

#include "arrays/storage/storage_kept.h"
#include "streams/common/deferred_deletion.h"
#include "tests/fuzz/exchange_input.h"

namespace devrt::fuzz {
namespace {

CudaArrayInterface Read(ExchangeInput* in) {
  constexpr const char* kTypes[] = {"<f4", "|u1", "<i8", "<c16", "|b1",
                                    ">f4", "<V2", "|S3", "=i4",  "f4",
                                    "<x9", "",    "<f"};
  CudaArrayInterface cai;
  cai.typestr = kTypes[in->Byte() % std::size(kTypes)];
  if (in->Rarely(16)) {
    cai.typestr.clear();
    for (int i = in->Byte() % 16; i > 0; --i) {
      cai.typestr.push_back(static_cast<char>(in->Byte()));
    }
  }
  cai.data = reinterpret_cast<uintptr_t>(in->Address());
  cai.read_only = in->Byte() % 2 == 0;
  cai.version = in->Rarely(16) ? in->Number() : in->Byte() % 4;
  const int ndim = in->Rarely(32) ? in->Byte() % 40 : in->Byte() % 5;
  for (int i = 0; i < ndim; ++i) cai.shape.push_back(in->Number());
  if (in->Byte() % 2 == 0) {
    cai.strides.emplace();
    const int count = in->Rarely(32) ? in->Byte() % 40 : ndim;
    for (int i = 0; i < count; ++i) {
      // Of the item's size, mostly.
      const int64_t number = in->Number();
      cai.strides->push_back(number > -100 && number < 100 ? number * 8
                                                           : number);
    }
  }
  cai.has_mask = in->Rarely(64);
  cai.has_descr = in->Rarely(64);
  if (in->Byte() % 4 == 0) cai.stream = in->Number();
  return cai;
}

bool IsCopied(const CudaArrayImport& how) {
  return how.copy.has_value() || how.place.has_value();
}

CudaArrayImport Options(ExchangeInput* in, const CudaArrayInterface& cai) {
  CudaArrayImport how;
  if (in->Rarely(16)) how.sync = false;
  if (!in->Rarely(8)) return how;
  // A broadcast array may be larger than all memory.
  double count = 1;
  for (const int64_t extent : cai.shape) count *= static_cast<double>(extent);
  if (count > 65536) return how;
  how.copy = in->Byte() % 2 == 0;
  const uint8_t place = in->Byte() % 4;
  const Device device = *GetDevice("mtia", in->Byte() % 2);
  if (place == 0) how.place = Place::Host();
  if (place == 1) how.place = Place(device);
  if (place == 2) how.place = Place::Pinned(device);
  return how;
}

void CheckImported(const CudaArrayInterface& cai, const CudaArrayImport& how,
                   const Array& x, int released) {
  if (how.place.has_value()) FUZZ_EXPECT(x.place() == *how.place);
  if (how.copy.value_or(false)) {
    FUZZ_EXPECT(!x.read_only() && x.IsContiguous());
    FUZZ_EXPECT(x.size() == 0 || x.data() != reinterpret_cast<void*>(cai.data));
    return;
  }
  if (how.place.has_value()) return;
  FUZZ_EXPECT(released == 0);
  FUZZ_EXPECT(x.read_only() == cai.read_only);
  FUZZ_EXPECT(x.place().kind() != MemoryKind::kHost);
  CheckArray(x);
}

// The machine's blocks are the only ones again.
void Settle(bool copied) {
  internal::RunDeferredArrayReleases();
  internal::RunPendingReleases();
  for (int i = 0; copied && i < 2; ++i) {
    FUZZ_EXPECT(GetDevice("mtia", i)->Synchronize().ok());
  }
  internal::RunDeferredArrayReleases();
  internal::RunPendingReleases();
  for (int i = 0; copied && i < 2; ++i) {
    FUZZ_EXPECT(EmptyCache(*GetDevice("mtia", i)).ok());
  }
}

}  // namespace
}  // namespace devrt::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using devrt::ExchangeError;
  devrt::fuzz::ExchangeMachine::Get();
  devrt::fuzz::ExchangeInput in(data, size);
  const devrt::CudaArrayInterface cai = devrt::fuzz::Read(&in);
  const devrt::CudaArrayImport how = devrt::fuzz::Options(&in, cai);
  int released = 0;
  std::shared_ptr<void> owner(&released, [](int* count) { ++*count; });
  {
    auto x = devrt::FromCudaArrayInterface(cai, std::move(owner), how);
    if (x.ok()) {
      devrt::fuzz::CheckImported(cai, how, *x, released);
    } else {
      const auto error = devrt::GetExchangeError(x.status());
      FUZZ_EXPECT(absl::IsInvalidArgument(x.status()) ||
                  error == ExchangeError::kBuffer ||
                  (error == ExchangeError::kCopyRequired && how.place &&
                   !how.copy.value_or(true)));
      FUZZ_EXPECT(x.status().message().size() < 2000);
    }
  }
  devrt::fuzz::Settle(devrt::fuzz::IsCopied(how));
  FUZZ_EXPECT(released == 1);
  return 0;
}
