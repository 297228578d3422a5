// SPDX-License-Identifier: Apache-2.0
//
// Memory that a capture of another library has used: a graph keeps addresses,
// so nobody else gets it while one is left (docs/decisions/0014).

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "devrt/arrays/operations.h"
#include "devrt/memory/resources.h"
#include "tests/arrays/order/capture_fixture.h"

namespace devrt::testing {
namespace {

const void* g_filled = nullptr;
const void* g_copied_from = nullptr;
devrt_elementwise_v0 g_elementwise;

class CapturedMemory : public CapturesTest {
 protected:
  void SetUp() override {
    CapturesTest::SetUp();
    auto& elementwise =
        internal::DeviceStreams::Of(dev().record())->elementwise;
    before_ = elementwise.table;
    g_elementwise = *before_;
    mine_ = g_elementwise;
    mine_.fill = [](void* self, devrt_stream stream, const devrt_tensor_v0* out,
                    const void* element) {
      g_filled = out->data;
      return g_elementwise.fill(self, stream, out, element);
    };
    elementwise.table = &mine_;
    // CapturesTest restores this slot.
    dev().record()->backend->ops.copy_async =
        [](void* self, devrt_stream stream, void* dst, const void* src,
           uint64_t size, uint32_t kind) {
          g_copied_from = src;
          return g_real.copy_async(self, stream, dst, src, size, kind);
        };
  }
  void TearDown() override {
    internal::DeviceStreams::Of(dev().record())->elementwise.table = before_;
    CapturesTest::TearDown();
  }

  // Returns true if one of the next arrays of this size lies at `address`.
  static bool IsGivenAway(const void* address, const Place& place,
                          int64_t elements) {
    std::vector<Array> next;
    for (int i = 0; i < 16; ++i) {
      next.push_back(NewArray(place, elements));
      if (next.back().data() == address) return true;
    }
    return false;
  }
  // Those of another test are kept for ever.
  int64_t Kept() const {
    return internal::CountStorages().captured - kept_before_;
  }

 private:
  const int64_t kept_before_ = internal::CountStorages().captured;
  devrt_elementwise_v0 mine_;
  const devrt_elementwise_v0* before_ = nullptr;
};

TEST_F(CapturedMemory, ANumbersMemoryIsTheGraphs) {
  Stream a = NewStream();
  const StreamGuard on(a);
  const Array x = Filled(dev(), 1);
  const Array out = Filled(dev(), 0);
  Begin(a);
  EXPECT_OK(AddInto(out, x, 2));
  const void* const number = g_filled;
  EXPECT_EQ(Kept(), 1);
  End(a);
  EXPECT_FALSE(IsGivenAway(number, dev(), 1));
  DestroyGraphs();
  EXPECT_TRUE(IsGivenAway(number, dev(), 1));
  EXPECT_EQ(Kept(), 0);
}

TEST_F(CapturedMemory, ACastsMemoryIsTheGraphs) {
  Stream a = NewStream();
  const StreamGuard on(a);
  const Array x = Filled(dev(), 1);
  const Array wide = Must(Array::Zeros({64}, kFloat64, dev()));
  ASSERT_OK(wide.Ready());
  Begin(a);
  EXPECT_OK(AddInto(wide, x, wide));
  EXPECT_EQ(Kept(), 1);
  ReduceOptions options;
  options.dtype = kFloat64;
  { EXPECT_OK(Reduce(ReduceOp::kMean, x, options).status()); }
  // Two blocks: that of the cast, whose memory the divisor uses later, and that
  // of the result.
  EXPECT_EQ(Kept(), 2);
  End(a);
  DestroyGraphs();
  const Array y = NewArray(dev());
  EXPECT_EQ(Kept(), 0);
}

// Within one capture a stream uses again what it is through with, as the cache
// would; nobody else does.
TEST_F(CapturedMemory, StreamReusesItsMemoryWithinACapture) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array of_b = Warm(b);
  const StreamGuard on(a);
  const Array out = Filled(dev(), 0);
  Begin(a);
  EXPECT_OK(AddInto(out, out, 2));
  const void* const number = g_filled;
  EXPECT_OK(AddInto(out, out, 3));
  EXPECT_EQ(g_filled, number);
  EXPECT_EQ(Kept(), 1);
  // Not on another stream, in another size, or after another stream's use.
  Join(b, a);
  {
    const StreamGuard on_b(b);
    EXPECT_FALSE(IsGivenAway(number, dev(), 1));
  }
  EXPECT_FALSE(IsGivenAway(number, dev(), 129));
  const void* used_by_b = nullptr;
  {
    const Array x = NewArray(dev(), 4096);
    used_by_b = x.data();
    const StreamGuard on_b(b);
    EXPECT_OK(x.Fill(1));
  }
  EXPECT_FALSE(IsGivenAway(used_by_b, dev(), 4096));
  End(a);
  End(b);
  // The stream's next capture does not reuse the memory.
  BeginBare(a);
  EXPECT_FALSE(IsGivenAway(number, dev(), 1));
  End(a);
  DestroyGraphs();
  EXPECT_OK(out.Fill(1));
  EXPECT_EQ(Kept(), 0);
}

// A program's resource may have given no byte more than it was asked for.
TEST_F(CapturedMemory, NoMoreThanWasAskedForIsUsedAgain) {
  Stream a = NewStream();
  const StreamGuard on(a);
  { const Array warm = Filled(dev(), 1); }
  Begin(a);
  const void* small = nullptr;
  {
    const Array x = Must(Array::Empty({16}, kInt8, dev()));
    EXPECT_OK(x.Fill(1));
    small = x.data();
  }
  const Array larger = Must(Array::Empty({512}, kInt8, dev()));
  EXPECT_NE(larger.data(), small);
  const Array same = Must(Array::Empty({16}, kInt8, dev()));
  EXPECT_EQ(same.data(), small);
  End(a);
  DestroyGraphs();
}

// A capture does not reuse memory of a resource that was replaced since.
TEST_F(CapturedMemory, OnlyTheChosenResourceServesAgain) {
  Stream a = NewStream();
  const StreamGuard on(a);
  // With a block in its cache, as the other one has.
  const std::shared_ptr<MemoryResource> own = PrivateCachingResource(dev());
  ASSERT_OK(own->Deallocate(a, Must(own->Allocate(a, 256)), 256));
  Begin(a);
  const void* former = nullptr;
  {
    const Array x = NewArray(dev());
    EXPECT_OK(x.Fill(1));
    former = x.data();
  }
  ASSERT_OK(SetMemoryResource(dev(), own));
  {
    const Array y = NewArray(dev());
    EXPECT_OK(y.Fill(1));
    EXPECT_NE(y.data(), former);
  }
  ASSERT_OK(SetMemoryResource(dev(), nullptr));
  EXPECT_EQ(NewArray(dev()).data(), former);
  End(a);
  DestroyGraphs();
}

TEST_F(CapturedMemory, ANewStreamLooksAtOthersInRelaxedMode) {
  Stream a = NewStream();
  {
    const Stream busy = NewStream();
    const StreamGuard on(busy);
    EXPECT_OK(Filled(dev(), 1).Fill(2));
  }
  Begin(a);
  { const Stream other = NewStream(); }
  EXPECT_EQ(g_questions, 0);
  End(a);
  DestroyGraphs();
}

// The host would pack when it is captured, once for all launches.
TEST_F(CapturedMemory, NothingIsStagedInACapture) {
  Stream a = NewStream();
  const StreamGuard on(a);
  const Array x = Filled(dev(), 1);
  const Array h = Filled(Place::Pinned(dev()), 2, 128);
  const Array strided = Must(h.SliceAxis(0, {0, 128, 2}));
  Begin(a);
  g_copied_from = nullptr;
  EXPECT_STATUS(x.CopyFrom(strided, true), kFailedPrecondition, "contiguous");
  EXPECT_EQ(g_copied_from, nullptr);
  EXPECT_EQ(Kept(), 0);
  Expect(0, 0);
  End(a);
  EXPECT_TRUE(IsAll(x, 1));
  EXPECT_OK(x.CopyFrom(strided, true));
  EXPECT_OK(x.Ready());
  EXPECT_TRUE(IsAll(x, 2));
}

// The device casts: what crosses is the array itself, at each launch.
TEST_F(CapturedMemory, PinnedArraysStayForTheGraph) {
  Stream a = NewStream();
  const StreamGuard on(a);
  const Array x = Filled(dev(), 1);
  std::optional<Array> h =
      Must(Array::Zeros({64}, kFloat32, Place::Pinned(dev())));
  const void* const address = h->data();
  Begin(a);
  EXPECT_OK(x.CopyFrom(*h, true));
  EXPECT_EQ(g_copied_from, address);
  End(a);
  h.reset();
  EXPECT_FALSE(IsGivenAway(address, Place::Pinned(dev()), 64));
  DestroyGraphs();
  EXPECT_TRUE(IsGivenAway(address, Place::Pinned(dev()), 64));
}

// An array of before that it used, and one that was made in it.
TEST_F(CapturedMemory, ArraysStayForTheGraph) {
  Stream a = NewStream();
  const StreamGuard on(a);
  std::optional<Array> x = Filled(dev(), 1);
  Begin(a);
  std::optional<Array> y = NewArray(dev());
  EXPECT_OK(y->CopyFrom(*x));
  End(a);
  const std::set<const void*> used = {x->data(), y->data()};
  x.reset();
  y.reset();
  EXPECT_EQ(Kept(), 2);
  for (const void* const address : used) {
    EXPECT_FALSE(IsGivenAway(address, dev(), 64));
  }
  DestroyGraphs();
  for (const void* const address : used) {
    EXPECT_TRUE(IsGivenAway(address, dev(), 64));
  }
}

TEST_F(CapturedMemory, TheLastOfSeveralGraphsCounts) {
  Stream a = NewStream();
  Stream b = NewStream();
  std::optional<Array> x = Filled(dev(), 1);
  const void* const address = x->data();
  for (const StreamRef stream : {StreamRef(a), StreamRef(b)}) {
    const StreamGuard on(stream);
    BeginBare(stream);
    EXPECT_OK(x->Fill(2));
  }
  End(a);
  x.reset();
  DestroyGraphs();
  EXPECT_FALSE(IsGivenAway(address, dev(), 64));
  EXPECT_EQ(Kept(), 1);
  End(b);
  DestroyGraphs();
  EXPECT_TRUE(IsGivenAway(address, dev(), 64));
}

// An array that outlives the graph forgets the graph and behaves as before.
TEST_F(CapturedMemory, ArraysMayOutliveTheGraph) {
  Stream a = NewStream();
  const StreamGuard on(a);
  std::optional<Array> x = Filled(dev(), 1);
  const void* const address = x->data();
  for (int i = 0; i < 8; ++i) {
    BeginBare(a);
    EXPECT_OK(x->Fill(2));
    End(a);
    DestroyGraphs();
  }
  internal::RunPendingReleases();
  x.reset();
  EXPECT_EQ(Kept(), 0);
  EXPECT_TRUE(IsGivenAway(address, dev(), 64));
}

TEST_F(CapturedMemory, OwnersStayForTheGraph) {
  Stream a = NewStream();
  const StreamGuard on(a);
  const Array memory = Filled(dev(), 1);
  auto owner = std::make_shared<int>(0);
  PointerOptions options;
  options.owner = owner;
  std::optional<Array> x =
      Must(Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
  BeginBare(a);
  EXPECT_OK(x->Fill(2));
  End(a);
  Finish(a);
  x.reset();
  EXPECT_OK(a.Synchronize());
  internal::RunPendingReleases();
  EXPECT_EQ(owner.use_count(), 3);  // this, the options, what is kept
  DestroyGraphs();
  internal::RunPendingReleases();
  EXPECT_EQ(owner.use_count(), 2);
}

// A graph that is destroyed while a device is shut down, or later.
TEST_F(CapturedMemory, SynchronizeReleasesMemoryOfDestroyedGraphs) {
  Stream a = NewStream();
  const StreamGuard on(a);
  const Array out = Filled(dev(), 0);
  Begin(a);
  EXPECT_OK(AddInto(out, out, 2));
  End(a);
  DestroyGraphs();
  EXPECT_EQ(Kept(), 1);
  EXPECT_OK(dev().Synchronize());
  EXPECT_EQ(Kept(), 0);
}

// ---- A backend that cannot tell when a graph is gone ------------------------

TEST_F(CapturedMemory, WithoutHoldsNoneIsMadeInACapture) {
  SetTable(&kOldCapture);
  Stream a = NewStream();
  const StreamGuard on(a);
  // Borrowed, as arrays that such a capture has used are kept for ever.
  const Array memory = Filled(dev(), 1);
  const Array more = Filled(dev(), 0);
  const Array x =
      Must(Array::FromPointer(memory.data(), memory.shape(), kInt32));
  const Array out = Must(Array::FromPointer(more.data(), more.shape(), kInt32));
  Begin(a);
  g_filled = nullptr;
  EXPECT_STATUS(AddInto(out, x, 2), kFailedPrecondition,
                "make it before the capture begins");
  EXPECT_STATUS(Add(x, x).status(), kFailedPrecondition, "its address");
  EXPECT_EQ(g_filled, nullptr);
  EXPECT_OK(AddInto(out, x, x));
  End(a);
  EXPECT_OK(a.Synchronize());
  EXPECT_TRUE(IsAll(out, 2));
}

TEST_F(CapturedMemory, BackendWithoutRetainKeepsTheMemory) {
  SetTable(&kOldCapture);
  Stream a = NewStream();
  const StreamGuard on(a);
  auto owner = std::make_shared<int>(0);
  {
    const Array memory = Filled(dev(), 1);
    PointerOptions options;
    options.owner = owner;
    const Array x = Must(
        Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
    BeginBare(a);
    EXPECT_OK(x.Fill(2));
    End(a);
  }
  EXPECT_OK(dev().Synchronize());
  internal::RunPendingReleases();
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_EQ(Kept(), 1);
}

}  // namespace
}  // namespace devrt::testing
