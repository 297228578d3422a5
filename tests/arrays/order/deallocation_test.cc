// SPDX-License-Identifier: Apache-2.0
//
// SetDeallocationStream, and streams that end before the array (E21).

#include <memory>
#include <optional>
#include <utility>

#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

class Deallocation : public ArraysTest {};

// E21: it comes back behind what its stream was given, whoever has that.
TEST_F(Deallocation, ADeallocationStreamMayEndBefore) {
  enum Kind { kHidden, kExposed, kAdopted };
  for (const Kind kind : {kHidden, kExposed, kAdopted}) {
    SCOPED_TRACE(kind);
    Reset("");
    bool gone = false;
    Stream home = NewStream();
    std::optional<Stream> theirs = NewStream();
    std::optional<Stream> s;
    if (kind == kAdopted) {
      s = Must(Stream::FromNative(dev(), Must(theirs->Native()), Owner(&gone)));
    } else {
      s = std::move(theirs);
    }
    if (kind == kExposed) Must(s->Native());
    const StreamGuard guard(home);
    std::optional<Array> x = NewArray(dev());
    const void* const block = x->data();
    Flag gate = NewFlag();
    ASSERT_OK(gate.WaitOn(*s));  // devrt knows of nothing that uses x there
    ASSERT_OK(x->SetDeallocationStream(*s));
    s.reset();
    EXPECT_FALSE(gone) << "E37";
    x.reset();
    {
      const Array next = NewArray(dev());
      EXPECT_NE(next.data(), block) << "still used";
    }
    ASSERT_OK(gate.Set());
    ASSERT_OK(dev().Synchronize());
    internal::RunPendingReleases();
    EXPECT_EQ(gone, kind == kAdopted);
    const Array one = NewArray(dev()), two = NewArray(dev());
    EXPECT_TRUE(one.data() == block || two.data() == block);
  }
}

// Only the one that was chosen last.
TEST_F(Deallocation, ADeallocationStreamThatWasReplacedIsNotKept) {
  bool gone = false;
  const Array x = NewArray(dev());
  const Stream theirs = NewStream();
  std::optional<Stream> s =
      Must(Stream::FromNative(dev(), Must(theirs.Native()), Owner(&gone)));
  ASSERT_OK(x.SetDeallocationStream(*s));
  s.reset();
  EXPECT_FALSE(gone);
  ASSERT_OK(x.SetDeallocationStream(DefaultStream(dev())));
  EXPECT_TRUE(gone);
}

// E36: borrowed memory goes back on no stream, and its owner waits for that
// one.
TEST_F(Deallocation, TheOwnerOfBorrowedMemoryWaits) {
  const Array memory = Filled(dev(), 1);
  ASSERT_OK(memory.Ready());
  Stream lender = NewStream();
  for (const bool home : {false, true}) {
    for (const bool ends : {false, true}) {
      SCOPED_TRACE(::testing::Message() << home << ends);
      bool gone = false;
      PointerOptions options;
      options.owner = Owner(&gone);
      if (home) options.stream = lender;
      std::optional<Array> x = Must(Array::FromPointer(
          memory.data(), memory.shape(), kInt32, std::move(options)));
      std::optional<Stream> s = NewStream();
      Flag gate = NewFlag();
      ASSERT_OK(gate.WaitOn(*s));
      ASSERT_OK(x->SetDeallocationStream(*s));
      if (ends) s.reset();
      x.reset();
      EXPECT_FALSE(gone);
      ASSERT_OK(gate.Set());
      ASSERT_OK(dev().Synchronize());
      internal::RunPendingReleases();
      EXPECT_TRUE(gone);
    }
  }
}

}  // namespace
}  // namespace devrt::testing
