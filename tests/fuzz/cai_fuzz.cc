// SPDX-License-Identifier: Apache-2.0
//
// FromCudaArrayInterface: as dlpack_fuzz.cc, for the other protocol.

#include <memory>
#include <string>
#include <utility>

#include "devrt/arrays/internal/storage.h"
#include "devrt/streams/internal/finished.h"
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

}  // namespace
}  // namespace devrt::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using devrt::ExchangeError;
  devrt::fuzz::ExchangeMachine::Get();
  devrt::fuzz::ExchangeInput in(data, size);
  const devrt::CudaArrayInterface cai = devrt::fuzz::Read(&in);
  devrt::CudaArrayImport how;
  if (in.Rarely(16)) how.sync = false;
  int released = 0;
  std::shared_ptr<void> owner(&released, [](int* count) { ++*count; });
  {
    auto x = devrt::FromCudaArrayInterface(cai, std::move(owner), how);
    if (x.ok()) {
      FUZZ_EXPECT(released == 0);
      FUZZ_EXPECT(x->read_only() == cai.read_only);
      FUZZ_EXPECT(x->place().kind() != devrt::MemoryKind::kHost);
      devrt::fuzz::CheckArray(*x);
    } else {
      FUZZ_EXPECT(absl::IsInvalidArgument(x.status()) ||
                  devrt::GetExchangeError(x.status()) ==
                      ExchangeError::kBuffer);
      FUZZ_EXPECT(x.status().message().size() < 2000);
    }
  }
  devrt::internal::DrainReleased();
  devrt::internal::LetKeptGo();
  FUZZ_EXPECT(released == 1);
  return 0;
}
