// SPDX-License-Identifier: Apache-2.0
//
// Copies between views of any strides, dtypes and places against a loop over
// their elements, and conversions of the host against those of the device.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "arrays/copy/copy_on_host.h"
#include "arrays/core/geometry.h"
#include "streams/objects/device_streams.h"
#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

class CopyProperty : public ArraysTest {};

// A view, and all of the memory that it lies in.
struct Made {
  Array view;
  char* base;
  std::vector<int> before;  // the elements of the memory, in its order
};

// Small enough for every dtype; bools are told apart by being 0.
int ValueOf(DType dtype, int value) {
  return dtype == kBool ? (value != 0 ? 1 : 0) : value;
}

class Case {
 public:
  explicit Case(uint32_t seed) : random_(seed) {}

  int Below(int n) {
    return static_cast<int>(random_() % static_cast<uint32_t>(n));
  }
  bool Sometimes(int one_in) { return Below(one_in) == 0; }

  Dims Shape() {
    Dims shape;
    for (int k = Below(5); k > 0; --k) {
      shape.push_back(Sometimes(12) ? 0 : 1 + Below(4));
    }
    return shape;
  }
  // Returns a shape that broadcasts to `shape`.
  Dims Narrowed(Dims shape) {
    if (Sometimes(3) && !shape.empty()) shape.erase(shape.begin());
    for (int64_t& extent : shape) {
      if (Sometimes(5)) extent = 1;
    }
    return shape;
  }
  DType AnyDType() {
    const auto all = DType::All();
    return all[static_cast<size_t>(Below(static_cast<int>(all.size())))];
  }
  Place AnyPlace() {
    switch (Below(4)) {
      case 0:
        return Place::Host();
      case 1:
        return Place::Pinned(MtiaTest::dev());
      default:
        return MtiaTest::dev(Below(2));
    }
  }

  Made Make(const Place& place, const Dims& shape, DType dtype) {
    const size_t axes = shape.size();
    std::vector<int> order(axes);
    for (size_t k = 0; k < axes; ++k) order[k] = static_cast<int>(k);
    if (Sometimes(2)) std::shuffle(order.begin(), order.end(), random_);
    // Along each axis of the memory: steps, and what is before and after.
    Dims extents(axes);
    std::vector<Slice> slices(axes);
    const bool plain = Sometimes(3);
    for (size_t k = 0; k < axes; ++k) {
      const int64_t extent = shape[static_cast<size_t>(order[k])];
      const int64_t step = plain ? 1 : 1 + Below(3);
      const int64_t first = plain ? 0 : Below(2);
      const int64_t last = first + (extent > 0 ? (extent - 1) * step : 0);
      extents[k] = extent == 0 ? 0 : last + 1 + (plain ? 0 : Below(2));
      if (extent == 0) continue;
      if (Sometimes(4)) {
        slices[k].begin = last;
        slices[k].step = -step;
        if (first > 0) slices[k].end = first - 1;
      } else {
        slices[k].begin = first;
        slices[k].end = last + 1;
        slices[k].step = step;
      }
    }
    Array all = Must(Array::Empty(extents, dtype, place));
    Made made{all, static_cast<char*>(all.data()), {}};
    for (int64_t i = 0; i < all.size(); ++i) {
      made.before.push_back(ValueOf(dtype, Below(8)));
    }
    Store(all, made.before);
    for (size_t k = 0; k < axes; ++k) {
      made.view = Must(made.view.SliceAxis(static_cast<int>(k), slices[k]));
    }
    std::vector<int> back(axes);
    for (size_t k = 0; k < axes; ++k) {
      back[static_cast<size_t>(order[k])] = static_cast<int>(k);
    }
    made.view = Must(made.view.Permute(back));
    return made;
  }

  static void Store(const Array& all, const std::vector<int>& values) {
    const uint64_t item = all.item_size();
    std::vector<char> bytes(all.nbytes());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto element = Must(Scalar(values[i]).As(all.dtype()));
      std::memcpy(&bytes[i * item], element.bytes, item);
    }
    if (bytes.empty()) return;
    if (all.place().host_accessible()) {
      std::memcpy(all.data(), bytes.data(), bytes.size());
    } else {
      Must(MtiaTest::sim().Poke(all.data(), bytes.data(), bytes.size()));
    }
  }
  static std::vector<int> Load(const Made& made) {
    const uint64_t item = made.view.item_size();
    std::vector<char> bytes(made.before.size() * item);
    if (!bytes.empty()) {
      if (made.view.place().host_accessible()) {
        std::memcpy(bytes.data(), made.base, bytes.size());
      } else {
        Must(MtiaTest::sim().Peek(made.base, bytes.data(), bytes.size()));
      }
    }
    std::vector<int> values;
    for (size_t i = 0; i < made.before.size(); ++i) {
      values.push_back(static_cast<int>(
          Scalar::FromElement(made.view.dtype(), &bytes[i * item])
              .Value<double>()));
    }
    return values;
  }

 private:
  std::mt19937 random_;
};

// Which element of the memory that is.
size_t PlaceOf(const Made& made, const Array& view, const Dims& index) {
  int64_t at = static_cast<char*>(view.data()) - made.base;
  for (size_t k = 0; k < index.size(); ++k) {
    at += index[k] * view.strides()[k];
  }
  return static_cast<size_t>(at) / view.item_size();
}

template <typename F>
void ForEachIndex(DimSpan shape, F f) {
  Dims index(shape.size(), 0);
  for (const int64_t extent : shape) {
    if (extent == 0) return;
  }
  for (;;) {
    f(index);
    size_t k = shape.size();
    while (k > 0 && ++index[k - 1] == shape[k - 1]) index[--k] = 0;
    if (k == 0) return;
  }
}

std::string Describe(const Array& a) {
  return a.place().name() + " " + a.dtype().name() + ShapeText(a.shape()) +
         " strides " + ShapeText(a.strides());
}

void RunCase(uint32_t seed) {
  Case c(seed);
  const Dims shape = c.Shape();
  const Made dst = c.Make(c.AnyPlace(), shape, c.AnyDType());
  const bool same = c.Sometimes(2);
  const Made src = c.Make(c.Sometimes(3) ? dst.view.place() : c.AnyPlace(),
                          c.Sometimes(3) ? c.Narrowed(shape) : shape,
                          same ? dst.view.dtype() : c.AnyDType());
  SCOPED_TRACE("seed " + std::to_string(seed) + ": " + Describe(dst.view) +
               " := " + Describe(src.view));
  std::vector<int> expected = dst.before;
  const Array from = Must(src.view.BroadcastTo(shape));
  ForEachIndex(shape, [&](const Dims& index) {
    expected[PlaceOf(dst, dst.view, index)] =
        ValueOf(dst.view.dtype(), src.before[PlaceOf(src, from, index)]);
  });
  CopyOptions options;
  options.non_blocking = c.Sometimes(2);
  ASSERT_OK(CopyArray(dst.view, src.view, options));
  ASSERT_OK(dst.view.Ready());
  EXPECT_EQ(Case::Load(dst), expected);
  EXPECT_EQ(Case::Load(src), src.before) << "the source changed";
}

void RunCases(uint32_t first, int count) {
  for (int i = 0; i < count; ++i) {
    RunCase(first + static_cast<uint32_t>(i));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST_F(CopyProperty, ViewsOfAnyKind) {
  Reset("memory=64MiB");
  RunCases(1, 16'000);
}

TEST_F(CopyProperty, ViewsOfAnyKindInAdverseSchedules) {
  uint32_t seed = 1'000'000;
  for (const char* strategy : {"alap", "lifo", "hw", "random,seed=3"}) {
    Reset(std::string("memory=64MiB,strategy=") + strategy);
    RunCases(seed += 100'000, 1'500);
  }
}

// A backend that cannot compute, nor copy from device to device.
TEST_F(CopyProperty, ViewsOfAnyKindByTheHost) {
  Reset("memory=64MiB");
  internal::BackendRecord* const backend = dev().record()->backend;
  const uint64_t capabilities = backend->capabilities;
  std::vector<internal::ExtensionOf<devrt_elementwise_v0>> kernels;
  for (int i = 0; i < 2; ++i) {
    auto* const streams = internal::DeviceStreams::Of(dev(i).record());
    kernels.push_back(std::exchange(streams->elementwise, {}));
  }
  RunCases(2'000'000, 1'500);
  backend->capabilities &= ~uint64_t{DEVRT_CAP_PEER_COPY};
  RunCases(3'000'000, 500);
  backend->capabilities = capabilities;
  for (int i = 0; i < 2; ++i) {
    internal::DeviceStreams::Of(dev(i).record())->elementwise =
        kernels[static_cast<size_t>(i)];
  }
}

// Within one array: as if the source were copied first.
TEST_F(CopyProperty, OverlappingViews) {
  Reset("memory=64MiB");
  for (uint32_t seed = 1; seed <= 1'500; ++seed) {
    Case c(seed);
    const int64_t n = 2 + c.Below(12);
    const Dims extents = {n, n};
    const Made all = c.Make(c.AnyPlace(), extents, c.AnyDType());
    const auto part = [&] {
      Array view = all.view;
      if (c.Sometimes(2)) view = view.Transpose();
      for (int axis = 0; axis < 2; ++axis) {
        const int64_t first = c.Below(2);
        Slice slice{first, first + n - 1, 1};
        if (c.Sometimes(3)) {
          slice.begin = first + n - 2;
          slice.end = first == 0 ? std::optional<int64_t>() : first - 1;
          slice.step = -1;
        }
        view = Must(view.SliceAxis(axis, slice));
      }
      return view;
    };
    const Array to = part();
    const Array from = part();
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + Describe(to) +
                 " := " + Describe(from));
    std::vector<int> expected = all.before;
    ForEachIndex(to.shape(), [&](const Dims& index) {
      expected[PlaceOf(all, to, index)] = all.before[PlaceOf(all, from, index)];
    });
    ASSERT_OK(to.CopyFrom(from));
    ASSERT_OK(to.Ready());
    ASSERT_EQ(Case::Load(all), expected);
  }
}

// All pairs of dtypes: any bits give the same on the host and on the device,
// but for the bits of NaNs.
TEST_F(CopyProperty, HostAndDeviceConvertAlike) {
  std::mt19937_64 random(7);
  constexpr int64_t kCount = 192;
  for (const DType from : DType::All()) {
    const Array bits = NewArray(Place::Host(), kCount, from);
    for (uint64_t i = 0; i < bits.nbytes(); ++i) {
      bits.data_as<unsigned char>()[i] = static_cast<unsigned char>(random());
    }
    const Array on_device = Must(bits.To(dev()));
    for (const DType to : DType::All()) {
      SCOPED_TRACE(std::string(from.name()) + " to " + to.name());
      const Array by_host = NewArray(Place::Host(), kCount, to);
      internal::CopyOnHost(by_host, bits);
      const Array by_device = Must(Must(on_device.Cast(to)).To(Place::Host()));
      for (int64_t i = 0; i < kCount; ++i) {
        const char* const a =
            by_host.data_as<char>() + i * by_host.strides()[0];
        const char* const b =
            by_device.data_as<char>() + i * by_device.strides()[0];
        if (std::memcmp(a, b, to.size()) == 0) continue;
        const auto x = Scalar::FromElement(to, a).Value<std::complex<double>>();
        const auto y = Scalar::FromElement(to, b).Value<std::complex<double>>();
        const auto alike = [](double p, double q) {
          return p == q || (std::isnan(p) && std::isnan(q));
        };
        EXPECT_TRUE(alike(x.real(), y.real()) && alike(x.imag(), y.imag()))
            << "element " << i << ": " << x << " and " << y;
      }
    }
  }
}

}  // namespace
}  // namespace devrt::testing
