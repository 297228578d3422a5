// SPDX-License-Identifier: Apache-2.0
//
// Streams that another library made, the special handles, and forged values
// (C14, C104, F5, F6).

#include <memory>
#include <optional>
#include <thread>

#include "runtime/plugins/host_table.h"
#include "runtime/registry/records.h"
#include "streams/objects/stream_record.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using NativeHandle = MtiaTest;
using ExternalStreamTest = MtiaTest;

void* NativeValue(uintptr_t value) { return reinterpret_cast<void*>(value); }

// A native stream of another library.
class ForeignStream {
 public:
  explicit ForeignStream(Device device) : device_(device.record()) {
    devrt_stream_desc_v0 desc{};
    desc.struct_size = sizeof desc;
    EXPECT_EQ(device_->ops->stream_create(device_->self, device_->ordinal,
                                          &desc, &handle_),
              nullptr);
  }
  ~ForeignStream() { Destroy(); }
  void Destroy() {
    if (handle_ == nullptr) return;
    EXPECT_EQ(device_->ops->stream_destroy(device_->self, handle_), nullptr);
    handle_ = nullptr;
  }
  void* native() const {
    void* native = nullptr;
    EXPECT_EQ(device_->ops->stream_native(device_->self, handle_, &native),
              nullptr);
    return native;
  }

 private:
  internal::DeviceRecord* device_;
  devrt_stream handle_ = nullptr;
};

// C14
TEST_F(NativeHandle, SpecialHandlesAreValidWhereverAStreamIs) {
  InEverySchedule([] {
    for (StreamRef s :
         {DefaultStream(dev(1)), Must(PerThreadDefaultStream(dev(1)))}) {
      Cell x(dev(1)), y(dev(1));
      Event e = NewEvent(dev(1));
      Stream other = NewStream(dev(1));
      std::atomic<int> calls{0};
      ASSERT_OK(Put(s, x, 4));
      ASSERT_OK(CopyAsync(s, y.ptr(), x.ptr(), 8));
      ASSERT_OK(FillAsync(s, x.ptr(), 0, 8));
      ASSERT_OK(LaunchHostFunc(s, [&](absl::Status) { ++calls; }));
      ASSERT_OK(e.Record(s));
      ASSERT_OK(other.Wait(e));
      ASSERT_OK(s.Wait(e));
      ASSERT_OK(s.Wait(other.ref()));
      ASSERT_OK(s.Synchronize());
      EXPECT_THAT(s.Query(), IsOkAndHolds(true));
      EXPECT_EQ(y.Peek(), 4);
      EXPECT_EQ(calls, 1);
    }
  });
}

// The table's destroy refuses them, and they stay usable.
// C14
TEST_F(NativeHandle, SpecialHandlesCannotBeDestroyed) {
  for (StreamRef s :
       {DefaultStream(dev()), Must(PerThreadDefaultStream(dev()))}) {
    ASSERT_OK(Spin(s, 1));
    internal::DeviceRecord* device = dev().record();
    devrt_status error =
        device->ops->stream_destroy(device->self, s.record()->handle.load());
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->code, DEVRT_INVALID_ARGUMENT);
    EXPECT_EQ(error->native_code, 400);
    delete error;
    EXPECT_OK(Spin(s, 1));
    EXPECT_OK(s.Synchronize());
  }
}

// C14
TEST_F(NativeHandle, MadeUpHandlesAreRefused) {
  for (uintptr_t value : {uintptr_t{3}, uintptr_t{0xdeadbeef}, ~uintptr_t{0},
                          uintptr_t{1} << 40}) {
    EXPECT_THAT(Stream::FromNative(dev(), NativeValue(value)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0x")))
        << value;
  }
}

// C104
TEST_F(ExternalStreamTest, AdoptedStreamIsNotDestroyed) {
  ForeignStream foreign(dev(1));
  InThreads(1, [&](int) {
    Stream s = Must(Stream::FromNative(dev(1), foreign.native()));
    EXPECT_EQ(s.ref().kind(), StreamKind::kExternal);
    EXPECT_EQ(s.device(), dev(1));
    EXPECT_NE(s.id(), 0u);
    EXPECT_EQ(Must(s.Native()), foreign.native());
  });
  Stream again = Must(Stream::FromNative(dev(1), foreign.native()));
  EXPECT_OK(Spin(again, 1));
  EXPECT_OK(again.Synchronize());
}

// C104
TEST_F(ExternalStreamTest, IsTheSameStream) {
  InEverySchedule([] {
    OpLog log;
    Stream owner = NewStream();
    Stream borrowed = Must(Stream::FromNative(dev(), Must(owner.Native())));
    EXPECT_NE(owner.ref(), borrowed.ref());
    ASSERT_OK(Spin(owner, kLong));
    ASSERT_OK(log.Mark(owner, 'a'));
    ASSERT_OK(log.Mark(borrowed, 'b'));
    ASSERT_OK(log.Mark(owner, 'c'));
    ASSERT_OK(borrowed.Synchronize());
    EXPECT_EQ(log.text(), "abc");
  });
}

// C104
TEST_F(ExternalStreamTest, WrongDeviceIsRefused) {
  ForeignStream foreign(dev(1));
  EXPECT_THAT(Stream::FromNative(dev(0), foreign.native()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("mtia:0"), HasSubstr("mtia:1"))));
}

// C104
TEST_F(ExternalStreamTest, OwnerIsKeptUntilTheStreamIsGone) {
  struct Owner {
    explicit Owner(Device device) : stream(device) {}
    ForeignStream stream;
  };
  auto owner = std::make_shared<Owner>(dev());
  std::weak_ptr<Owner> watch = owner;
  void* native = owner->stream.native();
  std::optional<Stream> s =
      Must(Stream::FromNative(dev(), native, std::move(owner)));
  EXPECT_FALSE(watch.expired());
  EXPECT_OK(Spin(*s, 1));
  Stream moved = *std::move(s);
  s.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_OK(moved.Synchronize());
  { Stream last = std::move(moved); }
  EXPECT_TRUE(watch.expired());
}

// C104
TEST_F(ExternalStreamTest, RefusedAdoptionDropsTheOwner) {
  auto owner = std::make_shared<int>(1);
  std::weak_ptr<int> watch = owner;
  EXPECT_FALSE(
      Stream::FromNative(dev(), NativeValue(77), std::move(owner)).ok());
  EXPECT_TRUE(watch.expired());
}

// 0 and 1 are the legacy stream, 2 is the calling thread's per-thread stream.
// F5
TEST_F(NativeHandle, SpecialHandlesKeepTheirMeaning) {
  for (uintptr_t value : {uintptr_t{0}, uintptr_t{1}, uintptr_t{2}}) {
    SCOPED_TRACE(value);
    InEverySchedule([&] {
      OpLog log;
      Stream adopted = Must(Stream::FromNative(dev(), NativeValue(value)));
      Stream blocking = NewBlocking();
      StreamRef meant = value == 2 ? Must(PerThreadDefaultStream(dev()))
                                   : DefaultStream(dev());
      ASSERT_OK(Spin(adopted, kLong));
      ASSERT_OK(log.Mark(adopted, 'a'));
      ASSERT_OK(log.Mark(meant, 'b'));
      if (value != 2) {
        ASSERT_OK(log.Mark(blocking, 'c'));
      }
      ASSERT_OK(adopted.Synchronize());
      ASSERT_OK(dev().Synchronize());
      EXPECT_EQ(log.text(), value == 2 ? "ab" : "abc");
    });
  }
}

// F5
TEST_F(NativeHandle, AdoptedPerThreadStreamsDoNotAlias) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream mine = Must(Stream::FromNative(dev(), NativeValue(2)));
    ASSERT_OK(gate.WaitOn(mine));
    std::thread([&] {
      Stream theirs = Must(Stream::FromNative(dev(), NativeValue(2)));
      EXPECT_NE(theirs.ref(), mine.ref());
      EXPECT_NE(theirs.id(), mine.id());
      Must(Spin(theirs, 1));
      Must(theirs.Synchronize());  // not behind the gate
    }).join();
    EXPECT_THAT(mine.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(mine.Synchronize());
  });
}

// F5
TEST_F(NativeHandle, DeadHandleIsRefused) {
  ForeignStream foreign(dev());
  void* const native = foreign.native();
  Stream adopted = Must(Stream::FromNative(dev(), native));
  foreign.Destroy();
  EXPECT_THAT(Spin(adopted, 1), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("destroyed")));
  EXPECT_THAT(
      Stream::FromNative(dev(), native),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("destroyed")));
}

// A stream value carries no index; what can be forged is its serial number.
// F6
TEST_F(NativeHandle, ForgedStreamValuesAreRefused) {
  Stream s = NewStream();
  const StreamRef ref = s;
  const auto refused =
      StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_);
  for (uint64_t serial : {ref.serial() + 1, ref.serial() - 1, uint64_t{0},
                          ~uint64_t{0}, ~uint64_t{0} - 1}) {
    const StreamRef forged(ref.record(), serial);
    EXPECT_THAT(SetCurrentStream(forged), refused) << serial;
    EXPECT_THAT(Spin(forged, 1), refused) << serial;
    StreamGuard guard(forged);
    EXPECT_THAT(guard.status(), refused) << serial;
    MultiStreamGuard multi({ref, forged});
    EXPECT_THAT(multi.status(), refused) << serial;
    EXPECT_EQ(CurrentStream(dev()), DefaultStream(dev()));
  }
}

}  // namespace
}  // namespace devrt::testing
