// SPDX-License-Identifier: Apache-2.0
//
// Every operation on one stream, while another stream is not done with its
// operands: in a schedule that lets the other one be late, an operation that
// does not wait for it gives a wrong value.  The mutants of mutants_test.cc are
// each without one of these waits.

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

using Values = std::vector<float>;

constexpr int64_t kCount = 6;

class Litmus : public ArraysTest {
 protected:
  static Array Filled(float value, DType dtype = kFloat32) {
    const Values values(kCount, value);
    Array array = Must(Array::Empty({2, 3}, dtype, dev()));
    const Array from =
        Must(Array::FromHost(values.data(), {2, 3}, kFloat32, dev()));
    Must(array.CopyFrom(from));
    Must(array.Ready());
    return array;
  }
  static Values Read(const Array& array) {
    const Array host =
        Must(Must(array.To(Place::Host(), kFloat32)).Contiguous());
    const float* data = host.data_as<float>();
    return Values(data, data + host.size());
  }
  // Work of the stream that is long in coming to an end.
  static void Delay(StreamRef stream) { Must(Spin(stream, kLong)); }

  // Every schedule begins with nothing left of the one before.
  static void Everywhere(const std::function<void()>& body) {
    InEverySchedule([&] {
      body();
      for (int i = 0; i < kDevices; ++i) {
        Must(dev(i).Synchronize());
        Must(EmptyCache(dev(i)));
      }
    });
  }

  using Operation = std::function<Array(const Array& x)>;
  // Operations that read x.
  static std::vector<std::pair<std::string, Operation>> Operations() {
    std::vector<std::pair<std::string, Operation>> all;
    for (UnaryOp op : {UnaryOp::kNegate, UnaryOp::kAbs, UnaryOp::kLogicalNot}) {
      all.emplace_back(ToString(op),
                       [op](const Array& x) { return Must(Apply(op, x)); });
    }
    for (int i = 0; i <= static_cast<int>(BinaryOp::kMinimum); ++i) {
      const auto op = static_cast<BinaryOp>(i);
      if (op == BinaryOp::kDivTruncated) continue;
      all.emplace_back(std::string(ToString(op)) + ", left",
                       [op](const Array& x) { return Must(Apply(op, x, 3)); });
      all.emplace_back(std::string(ToString(op)) + ", right",
                       [op](const Array& x) { return Must(Apply(op, 3, x)); });
    }
    for (int i = 0; i <= static_cast<int>(ReduceOp::kAll); ++i) {
      const auto op = static_cast<ReduceOp>(i);
      all.emplace_back(ToString(op), [op](const Array& x) {
        ReduceOptions options;
        options.axes = {1};
        return Must(Reduce(op, x, options));
      });
    }
    all.emplace_back("where, condition",
                     [](const Array& x) { return Must(Where(x, 5.0, 7.0)); });
    all.emplace_back("where, a", [](const Array& x) {
      return Must(Where(Must(NotEqual(x, 77)), x, 7.0));
    });
    all.emplace_back("cast", [](const Array& x) {
      return Must(Apply(BinaryOp::kAdd, x, Filled(1, kFloat64)));
    });
    return all;
  }
};

// Read after write.  x is 0 until the late stream makes it 4.
TEST_F(Litmus, ReadsFollowEarlierWrites) {
  for (const auto& [name, operation] : Operations()) {
    SCOPED_TRACE(name);
    Values wanted;
    Everywhere([&, &operation = operation] {
      const Array x = Filled(0);
      wanted = Read(operation(Filled(4)));
      const Array four = Filled(4);
      Must(CurrentStream(dev()).Synchronize());
      const Stream late = NewStream();
      const Stream now = NewStream();
      {
        const StreamGuard on(late);
        Delay(late);
        Must(AddInto(x, x, four));
      }
      const StreamGuard on(now);
      const Array got = operation(x);
      EXPECT_EQ(Read(got), wanted);
    });
  }
}

// Its result is what others wait for: the operation is late.
TEST_F(Litmus, ReadsFollowTheOperationsWrite) {
  for (const auto& [name, operation] : Operations()) {
    SCOPED_TRACE(name);
    Everywhere([&, &operation = operation] {
      const Array x = Filled(4);
      const Values wanted = Read(operation(x));
      Must(CurrentStream(dev()).Synchronize());
      const Stream late = NewStream();
      const Stream now = NewStream();
      std::optional<Array> result;
      {
        const StreamGuard on(late);
        Delay(late);
        result = operation(x);
      }
      const StreamGuard on(now);
      EXPECT_EQ(Read(Must(Apply(BinaryOp::kMaximum, *result, *result))),
                wanted);
      EXPECT_EQ(Read(*result), wanted);
    });
  }
}

// Write after read: who reads x is late, and reads what it was.
TEST_F(Litmus, WritesFollowEarlierReads) {
  Everywhere([&] {
    const Array x = Filled(4);
    const Array one = Filled(1);
    const Stream late = NewStream();
    const Stream now = NewStream();
    std::optional<Array> before;
    {
      const StreamGuard on(late);
      Delay(late);
      before = Must(Add(x, one));
    }
    {
      const StreamGuard on(now);
      Must(ApplyInto(BinaryOp::kMul, x, one, one));
    }
    EXPECT_EQ(Read(*before), Values(kCount, 5));
    EXPECT_EQ(Read(x), Values(kCount, 1));
  });
}

// Write after write, also where the result is computed apart.
TEST_F(Litmus, WritesFollowEarlierWrites) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    Everywhere([&] {
      const Array x = Filled(4, dtype);
      const Array one = Filled(1);
      const Stream late = NewStream();
      const Stream now = NewStream();
      {
        const StreamGuard on(late);
        Delay(late);
        Must(AddInto(x, one, one));
      }
      {
        const StreamGuard on(now);
        Must(ApplyInto(BinaryOp::kMul, x, one, one));
      }
      EXPECT_EQ(Read(x), Values(kCount, 1));
    });
  }
}

// Memory that is freed while a stream still reads it is not given to another
// stream before the read.
TEST_F(Litmus, TemporariesLiveUntilTheirLastRead) {
  Everywhere([&] {
    const Array x = Filled(2);
    const Array wide = Filled(3, kFloat64);
    const Stream late = NewStream();
    const Stream now = NewStream();
    std::optional<Array> sum;
    {
      const StreamGuard on(late);
      Delay(late);
      sum = Must(Add(x, wide));  // x is cast to a temporary array
    }
    {
      const StreamGuard on(now);
      std::vector<Array> others;
      for (int i = 0; i < 8; ++i) others.push_back(Must(Add(wide, 100.0)));
      for (const Array& other : others) {
        EXPECT_EQ(Read(other), Values(kCount, 103));
      }
    }
    EXPECT_EQ(Read(*sum), Values(kCount, 5));
  });
}

}  // namespace
}  // namespace devrt::testing
