// SPDX-License-Identifier: Apache-2.0
//
// Deleters and what they keep: E28 to E36.

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "devrt/arrays/devrt_exchange.h"
#include "devrt/arrays/exchange_handle.h"
#include "tests/arrays/exchange/exchange_fixture.h"

namespace devrt::testing {
namespace {

using Lifetime = ExchangeTest;

int64_t Live() { return internal::CountStorages().live; }

// E33
TEST_F(Lifetime, AnExportKeepsTheMemory) {
  std::optional<Array> x = NewCell(dev(), 42);
  DLManagedTensorVersioned* const t = Must(ToDLPack(*x));
  x.reset();
  Settle();
  EXPECT_EQ(Live(), 1);
  EXPECT_EQ(Peek(t->dl_tensor.data), 42);
  Release(t);
  Settle();
  EXPECT_EQ(Live(), 0);
}

// E28
TEST_F(Lifetime, ShapesAreTheExportsOwn) {
  std::optional<Array> x = Must(Array::Empty({2, 3}, kInt8, Place::Host()));
  DLManagedTensor* const t = Must(ToDLPackLegacy(*x));
  x.reset();
  EXPECT_EQ(t->dl_tensor.shape[1], 3);
  EXPECT_EQ(t->dl_tensor.strides[0], 3);
  t->deleter(t);
}

// The deleter only puts the export into a list.  The next call that uses arrays
// ends the export.
// E29
TEST_F(Lifetime, TheDeleterOnlyHandsBack) {
  DLManagedTensorVersioned* const t = Must(ToDLPack(NewCell(dev(), 1)));
  const SimulatorStats before = Must(sim().Stats());
  std::thread(Release, t).join();
  EXPECT_TRUE(internal::HasDeferredArrayReleases());
  EXPECT_EQ(Must(sim().Stats()).threads, before.threads);  // none joined
  EXPECT_EQ(Live(), 1);
  const Array next = Must(Array::Empty({1}, kInt8, Place::Host()));
  EXPECT_FALSE(internal::HasDeferredArrayReleases());
  EXPECT_EQ(Live(), 1);  // `next`
}

// E29
TEST_F(Lifetime, AWaitForTheDeviceEndsTheMemory) {
  DLManagedTensorVersioned* const t = Must(ToDLPack(NewCell(dev(), 1)));
  Release(t);
  EXPECT_OK(dev().Synchronize());
  internal::RunDeferredArrayReleases();
  EXPECT_EQ(Live(), 0);
}

// E30
TEST_F(Lifetime, InsideAHostFunction) {
  Stream s = NewStream();
  DLManagedTensorVersioned* const t = Must(ToDLPack(NewCell(dev(), 1)));
  EXPECT_OK(LaunchHostFunc(s, [t](absl::Status) { Release(t); }));
  EXPECT_OK(s.Synchronize());
  Settle();
  EXPECT_EQ(Live(), 0);
}

// E30
TEST_F(Lifetime, ManyThreadsAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  const Array x = NewCell(dev(), 1);
  std::vector<std::vector<DLManagedTensorVersioned*>> tensors(kThreads);
  for (auto& list : tensors) {
    for (int i = 0; i < kEach; ++i) list.push_back(Must(ToDLPack(x)));
  }
  InThreads(kThreads, [&](int i) {
    for (DLManagedTensorVersioned* t : tensors[static_cast<size_t>(i)]) {
      Release(t);
    }
  });
  Settle();
  EXPECT_EQ(Live(), 1);
  EXPECT_EQ(x.storage().use_count(), 1);
}

// Borrowed tensors of one handle are alike, and it is only read.
TEST_F(Lifetime, ManyThreadsBorrowOneHandle) {
  const Array x = Must(Array::Empty({2, 3}, kInt64, Place(dev())));
  devrt_array* const handle = WrapArray(x.Transpose());
  const DLPackExchangeAPI* const api = devrt_exchange_api_v0();
  InThreads(4, [&](int) {
    for (int i = 0; i < 50; ++i) {
      DLTensor t;
      EXPECT_EQ(api->dltensor_from_py_object_no_sync(handle, &t), 0);
      EXPECT_EQ(t.shape[0], 3);
      EXPECT_EQ(t.strides[0], 1);
      EXPECT_EQ(t.strides[1], 3);
    }
  });
  devrt_array_release_v0(handle);
}

// E34
TEST_F(Lifetime, AViewKeepsTheProducer) {
  ForeignTensor foreign({2, 3}, kDLFloat, 32);
  {
    std::optional<Array> view;
    {
      const Array x = Must(FromDLPack(foreign.managed()));
      view = Must(x.Index(0, 1));
    }
    Settle();
    EXPECT_EQ(foreign.released(), 0);
  }
  Settle();
  EXPECT_EQ(foreign.released(), 1);
}

// E34
TEST_F(Lifetime, ACaiImportKeepsItsOwner) {
  Cell theirs(dev());
  CudaArrayInterface cai;
  cai.shape = {1};
  cai.typestr = "<i8";
  cai.data = reinterpret_cast<uintptr_t>(theirs.ptr());
  std::weak_ptr<int> watch;
  {
    auto owner = std::make_shared<int>(1);
    watch = owner;
    const Array x = Must(FromCudaArrayInterface(cai, std::move(owner)));
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_OK(dev().Synchronize());
  Settle();
  EXPECT_TRUE(watch.expired());
}

// A deleter of theirs may call devrt, as it is called without a lock.
// E32
TEST_F(Lifetime, ForeignDeletersMayCallDevrt) {
  static Array* kept = nullptr;
  ForeignTensor foreign({1}, kDLInt, 64);
  foreign.managed()->deleter = [](DLManagedTensorVersioned*) {
    kept = new Array(Must(Array::Empty({1}, kInt8, Place(dev()))));
    Release(Must(ToDLPack(*kept)));
  };
  { const Array x = Must(FromDLPack(foreign.managed())); }
  Settle();
  ASSERT_NE(kept, nullptr);
  delete kept;
}

// An import that devrt never used ends at once, whatever else its stream does.
// A use delays the end, and so does a host function.
// E36
TEST_F(Lifetime, AnUnusedImportEndsAtOnce) {
  const Array memory = NewCell(dev(), 1);
  const auto import = [&](ForeignTensor* foreign) {
    foreign->t()->data = const_cast<void*>(memory.data());
    foreign->t()->device = DLPackDevice(memory.place());
    return std::make_unique<Array>(Must(FromDLPack(foreign->managed())));
  };
  ForeignTensor unused({1}, kDLInt, 64);
  ForeignTensor used({1}, kDLInt, 64);
  ForeignTensor inside({1}, kDLInt, 64);
  Flag gate = NewFlag();
  Stream s = NewStream();
  const StreamGuard guard(s);
  std::unique_ptr<Array> a = import(&unused);
  std::unique_ptr<Array> b = import(&used);
  std::unique_ptr<Array> c = import(&inside);
  EXPECT_OK(gate.WaitOn(s));
  a.reset();
  EXPECT_EQ(unused.released(), 1);
  EXPECT_OK(b->NoteUse(s));
  b.reset();
  EXPECT_EQ(used.released(), 0);
  int seen = -1;
  EXPECT_OK(LaunchHostFunc(s, [&](absl::Status) {
    c.reset();
    seen = inside.released();
  }));
  EXPECT_OK(gate.Set());
  EXPECT_OK(s.Synchronize());
  EXPECT_EQ(seen, 0);
  Settle();
  EXPECT_EQ(used.released(), 1);
  EXPECT_EQ(inside.released(), 1);
}

TEST_F(Lifetime, TheConsumersStreamMayEndBeforeTheMemory) {
  const Array x = NewCell(dev(), 3);
  DLManagedTensorVersioned* t = nullptr;
  Cell out(dev());
  {
    Stream s = NewStream();
    DLPackExport how;
    how.stream = Handle(s);
    t = Must(ToDLPack(x, how));
    EXPECT_OK(Load(s, out, t->dl_tensor.data));
  }
  Release(t);
  Settle();
  EXPECT_OK(dev().Synchronize());
  EXPECT_EQ(out.Peek(), 3);
}

}  // namespace
}  // namespace devrt::testing
