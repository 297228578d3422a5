// SPDX-License-Identifier: Apache-2.0
//
// A copy on one device is one step for other users of the memory: none of their
// operations comes between two kernels of the copy.

#include <functional>
#include <optional>

#include "devrt/arrays/operations.h"
#include "tests/arrays/arrays_fixture.h"
#include "tests/arrays/copy/probe.h"

namespace devrt::testing {
namespace {

// An operation that others may interrupt after `calls` calls of the backend.
class WholeTest : public ArraysTest {
 protected:
  static void Expose(StreamRef stream) { Must(stream.Native()); }

  // Runs `operation`, and `other` on another stream wherever it can come in
  // after the first of the calls.
  static void Interrupt(const std::function<void()>& operation,
                        const std::function<void()>& other) {
    Stream a = NewStream();
    Stream b = NewStream();
    Expose(a);
    Expose(b);
    bool done = false;
    {
      BackendProbe probe;
      probe.between = [&] {
        if (done || probe.calls().find_first_of("cfk") == std::string::npos)
          return;
        done = true;
        const StreamGuard on(b);
        other();
      };
      const StreamGuard on(a);
      operation();
    }
    const StreamGuard on(b);
    if (!done) other();
    ASSERT_OK(dev().Synchronize());
  }
};

TEST_F(WholeTest, OverlappingCopies) {
  const Array x = Filled(dev(), 1, 100);
  const auto part = [&x](int64_t begin, int64_t end, int64_t step) {
    return Must(x.SliceAxis(0, {begin, end, step}));
  };
  const auto fill = [&] { ASSERT_OK(x.Fill(2)); };
  // As blocks, and by kernels.
  Interrupt([&] { ASSERT_OK(part(1, 100, 1).CopyFrom(part(0, 99, 1))); }, fill);
  EXPECT_TRUE(IsAll(x, 2));
  ASSERT_OK(x.Fill(1));
  ASSERT_OK(x.Ready());
  Interrupt([&] { ASSERT_OK(part(0, 98, 2).CopyFrom(part(1, 99, 2))); }, [] {});
  EXPECT_TRUE(IsAll(x, 1));
  Interrupt([&] { ASSERT_OK(part(2, 98, 2).CopyFrom(part(1, 49, 1))); }, fill);
  EXPECT_TRUE(IsAll(x, 2));
}

// a < b before and after, and not between.
TEST_F(WholeTest, ComparisonsOfMixedSigns) {
  const Array a = Must(Array::Full({16}, kInt64, 5, dev()));
  const Array b = Must(Array::Full({16}, kUInt64, 10, dev()));
  ASSERT_OK(a.Ready());
  ASSERT_OK(b.Ready());
  std::optional<Array> less;
  Interrupt([&] { less = Must(Less(a, b)); }, [&] { ASSERT_OK(a.Fill(-1)); });
  EXPECT_TRUE(Must(Must(Reduce(ReduceOp::kAll, *less)).Item()).Value<bool>());
  std::optional<Array> greater;
  ASSERT_OK(a.Fill(5));
  ASSERT_OK(a.Ready());
  Interrupt([&] { greater = Must(Greater(b, a)); },
            [&] { ASSERT_OK(a.Fill(-1)); });
  EXPECT_TRUE(
      Must(Must(Reduce(ReduceOp::kAll, *greater)).Item()).Value<bool>());
}

// A comparison does not see later writes to its operands.
TEST_F(WholeTest, OperandsOfComparisonsAreUsed) {
  const Array a = Must(Array::Full({16}, kInt64, 5, dev()));
  const Array b = Must(Array::Full({16}, kUInt64, 5, dev()));
  ASSERT_OK(a.Ready());
  ASSERT_OK(b.Ready());
  for (const Array& later : {a, b}) {
    std::optional<Array> equal;
    Interrupt(
        [&] {
          ASSERT_OK(Spin(CurrentStream(dev()), kLong));
          equal = Must(Equal(a, b));
        },
        [&] { ASSERT_OK(later.Fill(7)); });
    EXPECT_TRUE(
        Must(Must(Reduce(ReduceOp::kAll, *equal)).Item()).Value<bool>());
    ASSERT_OK(later.Fill(5));
    ASSERT_OK(later.Ready());
  }
}

// One after the other both are the same; in between they would change places.
TEST_F(WholeTest, CastsOnTheWayFromAndToTheHost) {
  const Place pinned = Place::Pinned(dev());
  for (const bool to_host : {true, false}) {
    SCOPED_TRACE(to_host);
    const Array x = Filled(to_host ? Place(dev()) : pinned, 1);
    const Array y = Must(Filled(to_host ? pinned : Place(dev()), 2)
                             .To(to_host ? pinned : Place(dev()), kFloat32));
    ASSERT_OK(y.Ready());
    Interrupt([&] { ASSERT_OK(y.CopyFrom(x, true)); },
              [&] { ASSERT_OK(x.CopyFrom(y, true)); });
    EXPECT_TRUE(IsAll(x, 1)) << Peek(x)[0];
  }
}

}  // namespace
}  // namespace devrt::testing
