// SPDX-License-Identifier: Apache-2.0
//
// New arrays, and arrays over memory of others.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "devrt/arrays/array.h"
#include "devrt/devrt.h"
#include "tests/arrays/arrays_fixture.h"

namespace devrt {
namespace {

using testing::Must;
using Creation = testing::ArraysTest;
using FromPointer = testing::ArraysTest;

// ---- Places ----------------------------------------------------------------

TEST_F(Creation, PlacesAreNamedAndCompared) {
  EXPECT_EQ(Place(dev(1)).name(), "mtia:1");
  EXPECT_EQ(Place::Pinned(dev(2)).name(), "pinned memory of mtia:2");
  EXPECT_EQ(Place::Managed(dev(0)).name(), "managed memory of mtia:0");
  EXPECT_EQ(Place::Host().name(), "cpu");
  EXPECT_EQ(Place::Host(), Place::Host());
  EXPECT_NE(Place(dev(0)), Place(dev(1)));
  EXPECT_NE(Place(dev(0)), Place::Pinned(dev(0)));
  EXPECT_FALSE(Place(dev(0)).host_accessible());
  EXPECT_TRUE(Place::Pinned(dev(0)).host_accessible());
  EXPECT_EQ(Place::Host().device(), std::nullopt);
}

TEST_F(Creation, WithoutAPlaceIsOnTheCurrentDevice) {
  EXPECT_EQ(Must(Place::Current()), Place(dev(0)));
  DeviceGuard guard(dev(2));
  EXPECT_EQ(Must(Place::Current()), Place(dev(2)));
  EXPECT_EQ(Must(Array::Empty({2}, kInt8)).place(), Place(dev(2)));
}

// ---- Empty -----------------------------------------------------------------

TEST_F(Creation, EmptyIsContiguousInItsPlace) {
  for (const Place& place :
       {Place(dev(1)), Place::Pinned(dev(0)), Place::Host()}) {
    for (const DType t : DType::All()) {
      const Array x = Must(Array::Empty({3, 1, 2}, t, place));
      EXPECT_EQ(x.place(), place);
      EXPECT_EQ(x.dtype(), t);
      EXPECT_TRUE(x.IsContiguous());
      EXPECT_EQ(x.nbytes(), 6 * t.size());
      EXPECT_NE(x.data(), nullptr);
      EXPECT_FALSE(x.read_only());
    }
    EXPECT_EQ(Must(Array::Empty({3, 0}, kFloat32, place)).data(), nullptr);
    EXPECT_EQ(Must(Array::Empty({3, 0}, kFloat32, place)).place(), place);
    EXPECT_EQ(Must(Array::Empty({}, kFloat32, place)).size(), 1);
    EXPECT_EQ(Must(Array::Empty(Dims(32, 1), kInt8, place)).ndim(), 32);
  }
}

TEST_F(Creation, ItsMemoryIsTheCurrentStreams) {
  const Stream stream = NewStream(dev(1));
  StreamGuard guard(stream);
  const Array x = Must(Array::Empty({100}, kInt8, dev(1)));
  ASSERT_TRUE(x.home_stream().has_value());
  EXPECT_EQ(x.home_stream()->id(), stream.id());
  EXPECT_EQ(Must(Array::Empty({1}, kInt8, Place::Host())).home_stream(),
            std::nullopt);
}

TEST_F(Creation, ImpossibleShapesTakeNoMemory) {
  for (const Place& place : {Place(dev(0)), Place::Host()}) {
    EXPECT_STATUS(Array::Empty({-1}, kInt8, place), kInvalidArgument,
                  "extent -1");
    EXPECT_STATUS(Array::Empty({INT64_MAX, 2}, kInt8, place), kInvalidArgument,
                  "2^63");
    EXPECT_STATUS(Array::Empty(Dims(33, 1), kInt8, place), kInvalidArgument,
                  "33 axes");
    EXPECT_STATUS(Array::Empty({int64_t{1} << 60}, kInt8, place),
                  kResourceExhausted, "");
  }
}

TEST_F(Creation, ArraysShareTheirMemoryUntilTheLastIsGone) {
  absl::StatusOr<Array> view = absl::UnknownError("none yet");
  {
    const Array x = Must(Array::Empty({4, 4}, kFloat32, dev(0)));
    view = x.Index(0, 3);
    EXPECT_TRUE(view->SharesStorage(x));
    EXPECT_FALSE(Must(Array::Empty({1}, kInt8, dev(0))).SharesStorage(x));
  }
  const PointerInfo info = Must(GetPointerInfo(view->data()));
  EXPECT_EQ(info.kind, PointerKind::kDevice);
  EXPECT_EQ(view->place(), Place(dev(0)));
}

// ---- FromPointer -----------------------------------------------------------

struct Freed {
  int* count;
  ~Freed() { ++*count; }
};

TEST_F(FromPointer, KeepsItsOwner) {
  int freed = 0;
  std::vector<float> values = {1, 2, 3, 4};
  {
    PointerOptions options;
    options.owner = std::make_shared<Freed>(Freed{&freed});
    freed = 0;
    absl::StatusOr<Array> row;
    {
      const Array x =
          Must(Array::FromPointer(values.data(), {2, 2}, kFloat32, options));
      options.owner.reset();
      EXPECT_EQ(x.data(), values.data());
      EXPECT_EQ(x.place(), Place::Host());
      row = x.Index(0, 1);
    }
    EXPECT_EQ(freed, 0);
    EXPECT_EQ(row->data_as<float>()[1], 4);
  }
  EXPECT_EQ(freed, 1);
}

TEST_F(FromPointer, AnOwnerIsDroppedByAnErrorToo) {
  int freed = 0;
  float value = 1;
  PointerOptions options;
  options.owner = std::shared_ptr<int>(&freed, [](int* n) { ++*n; });
  options.place = Place(dev(0));
  EXPECT_STATUS(Array::FromPointer(&value, {1}, kFloat32, std::move(options)),
                kInvalidArgument, "");
  EXPECT_EQ(freed, 1);
}

TEST_F(FromPointer, FindsThePlace) {
  void* const block = Must(Allocate(dev(1), 64));
  void* const pinned = Must(AllocateHost(dev(2), 64));
  EXPECT_EQ(Must(Array::FromPointer(block, {16}, kFloat32)).place(),
            Place(dev(1)));
  EXPECT_EQ(Must(Array::FromPointer(pinned, {16}, kFloat32)).place(),
            Place::Pinned(dev(2)));
  PointerOptions options;
  options.place = Place::Pinned(dev(0));  // serves all devices
  EXPECT_EQ(Must(Array::FromPointer(pinned, {16}, kFloat32, options)).place(),
            Place::Pinned(dev(0)));
  options.place = Place::Host();
  EXPECT_OK(Array::FromPointer(pinned, {16}, kFloat32, options));
  EXPECT_OK(FreeHost(pinned));
  EXPECT_OK(Free(dev(1), block));
}

TEST_F(FromPointer, RefusesAPlaceThatDoesNotHoldThePointer) {
  void* const block = Must(Allocate(dev(1), 64));
  float value = 1;
  const auto in = [](void* data, const Place& place) {
    PointerOptions options;
    options.place = place;
    return Array::FromPointer(data, {1}, kFloat32, options);
  };
  EXPECT_OK(in(block, dev(1)));
  EXPECT_STATUS(in(block, dev(0)), kInvalidArgument,
                "is in mtia:1, not in mtia:0");
  EXPECT_STATUS(in(block, Place::Host()), kInvalidArgument,
                "is in mtia:1, not in cpu");
  EXPECT_STATUS(in(block, Place::Pinned(dev(1))), kInvalidArgument,
                "not in pinned memory of mtia:1");
  EXPECT_STATUS(in(&value, dev(0)), kInvalidArgument,
                "is not known to mtia, so it is not in mtia:0");
  EXPECT_STATUS(in(&value, Place::Pinned(dev(0))), kInvalidArgument,
                "is not known to mtia");
  EXPECT_OK(Free(dev(1), block));
  EXPECT_STATUS(in(block, dev(1)), kInvalidArgument, "is not known to mtia");
}

TEST_F(FromPointer, StaysInsideItsBlock) {
  char* const block = static_cast<char*>(Must(Allocate(dev(0), 64)));
  const auto over = [](char* data, DimSpan shape, Dims strides) {
    PointerOptions options;
    options.strides = std::move(strides);
    return Array::FromPointer(data, shape, kFloat32, options);
  };
  EXPECT_OK(over(block, {16}, {}));
  EXPECT_OK(over(block + 60, {16}, {-4}));
  EXPECT_OK(over(block, {2}, {60}));
  EXPECT_OK(over(block, {1000, 16}, {0, 4}));
  EXPECT_STATUS(over(block, {17}, {}), kInvalidArgument,
                "leave the block of 64 bytes");
  EXPECT_STATUS(over(block + 4, {16}, {}), kInvalidArgument, "at offset 4");
  EXPECT_STATUS(over(block + 56, {16}, {-4}), kInvalidArgument,
                "the array's bytes -60 to 4");
  EXPECT_STATUS(over(block, {2}, {61}), kInvalidArgument, "leave the block");
  EXPECT_STATUS(over(block, {2}, {-1}), kInvalidArgument, "leave the block");
  EXPECT_STATUS(over(block + 61, {}, {}), kInvalidArgument, "leave the block");
  EXPECT_OK(Free(dev(0), block));
}

// A block in the allocator's cache is still memory of the driver.
TEST_F(FromPointer, RefusesFreedMemoryInTheCache) {
  std::optional<Array> x = Must(Array::Empty({64}, kInt32, dev(0)));
  void* const data = x->data();
  EXPECT_OK(Array::FromPointer(data, {64}, kInt32));
  x.reset();
  EXPECT_STATUS(Array::FromPointer(data, {64}, kInt32), kInvalidArgument,
                "in no block that is alive");
}

TEST_F(FromPointer, RefusesImpossibleGeometry) {
  char byte = 0;
  const auto over = [&](DimSpan shape, Dims strides) {
    PointerOptions options;
    options.strides = std::move(strides);
    return Array::FromPointer(&byte, shape, kInt8, options);
  };
  EXPECT_STATUS(over({-1}, {}), kInvalidArgument, "extent -1");
  EXPECT_STATUS(over({INT64_MAX, 2}, {}), kInvalidArgument, "2^63");
  EXPECT_STATUS(over({2, 2}, {1}), kInvalidArgument,
                "strides (1,) do not fit shape (2, 2)");
  EXPECT_STATUS(over({}, {1}), kInvalidArgument, "do not fit shape ()");
  EXPECT_STATUS(over({3}, {INT64_MAX}), kInvalidArgument, "spans more");
  EXPECT_STATUS(over({2}, {INT64_MIN + 8}), kInvalidArgument,
                "leave the address space");
  EXPECT_STATUS(Array::FromPointer(nullptr, {1}, kInt8), kInvalidArgument,
                "a null pointer has no elements for shape (1,)");
  EXPECT_STATUS(Array::FromPointer(nullptr, {}, kInt8), kInvalidArgument,
                "a null pointer");
}

TEST_F(FromPointer, NothingMayBeNullAnywhere) {
  const Array x = Must(Array::FromPointer(nullptr, {0, 3}, kInt8));
  EXPECT_EQ(x.place(), Place::Host());
  EXPECT_EQ(x.data(), nullptr);
  PointerOptions options;
  options.place = Place(dev(3));
  EXPECT_EQ(Must(Array::FromPointer(nullptr, {0}, kInt8, options)).place(),
            Place(dev(3)));
}

TEST_F(FromPointer, ReadOnlyStays) {
  float value = 1;
  PointerOptions options;
  options.read_only = true;
  const Array x = Must(Array::FromPointer(&value, {1}, kFloat32, options));
  EXPECT_TRUE(x.read_only());
  EXPECT_TRUE(Must(x.Index(0, 0)).read_only());
}

TEST_F(FromPointer, AHomeStreamIsOfItsDevice) {
  void* const block = Must(Allocate(dev(1), 64));
  {
    const Stream right = NewStream(dev(1));
    const Stream wrong = NewStream(dev(0));
    PointerOptions options;
    options.stream = right;
    const Array x = Must(Array::FromPointer(block, {1}, kInt8, options));
    ASSERT_TRUE(x.home_stream().has_value());
    EXPECT_EQ(x.home_stream()->id(), right.id());
    options.stream = wrong;
    EXPECT_STATUS(Array::FromPointer(block, {1}, kInt8, options),
                  kInvalidArgument,
                  "a stream of mtia:0 cannot be the home of mtia:1");
    char byte = 0;
    EXPECT_STATUS(Array::FromPointer(&byte, {1}, kInt8, options),
                  kInvalidArgument, "cannot be the home of cpu");
  }
  EXPECT_OK(Free(dev(1), block));
}

}  // namespace
}  // namespace devrt
