// SPDX-License-Identifier: Apache-2.0
//
// Interprocess events between two processes on one device (C38): what one
// records is what the other waits for and asks.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "devrt/devrt.h"
#include "tests/hardware/driver.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::hardware {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

// One end of a line between the two processes.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  ~Line() { close(fd_); }
  Line(const Line&) = delete;

  void Say(char word) const { Send(&word, 1); }
  // Fails the test where the other process says something else, or has ended.
  bool Hear(char word) const {
    char heard = 0;
    Receive(&heard, 1);
    EXPECT_EQ(heard, word);
    return heard == word;
  }
  void Send(const void* bytes, size_t size) const {
    EXPECT_EQ(send(fd_, bytes, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }
  bool Receive(void* bytes, size_t size) const {
    return recv(fd_, bytes, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }

 private:
  const int fd_;
};

// Both processes: a device, two streams, and what holds the first one.
struct Side {
  Device device;
  Stream held, waiting;
  Flag flag;
};

Side MakeSide() {
  const Device device = testing::Must(GetDevice("cuda:0"));
  return {device, testing::Must(Stream::Create(device)),
          testing::Must(Stream::Create(device)),
          testing::Must(Flag::Create(device))};
}

// `event` is recorded behind work that does not end before Open.
void RecordHeld(const Side& side, const Event& event) {
  ASSERT_OK(side.flag.Clear());
  ASSERT_OK(side.flag.WaitOn(side.held));
  ASSERT_OK(event.Record(side.held));
}

// The other process has recorded `event`, and goes on once it is told to.
void WaitForOther(const Side& side, const Event& event, const Line& line) {
  EXPECT_FALSE(testing::Must(event.Query())) << "the other's work counts";
  ASSERT_OK(side.waiting.Wait(event));
  EXPECT_FALSE(testing::Must(side.waiting.Query()));
  line.Say('o');
  EXPECT_OK(event.Synchronize());
  EXPECT_OK(side.waiting.Synchronize());
  EXPECT_TRUE(testing::Must(event.Query()));
}

void Exporter(const Line& line) {
  const Side side = MakeSide();
  EventOptions options;
  options.interprocess = true;
  const Event event = testing::Must(Event::Create(side.device, options));
  const EventHandle handle = testing::Must(event.Export());
  EXPECT_FALSE(Event::Open(side.device, handle).ok())
      << "no process opens an event of its own";
  line.Send(&handle, sizeof handle);
  ASSERT_TRUE(line.Hear('i'));  // is open
  for (int i = 0; i < 3; ++i) {
    RecordHeld(side, event);
    line.Say('r');  // recorded
    ASSERT_TRUE(line.Hear('o'));
    EXPECT_OK(side.flag.Set());
    EXPECT_OK(side.held.Synchronize());
    ASSERT_TRUE(line.Hear('r'));
    WaitForOther(side, event, line);
  }
  line.Hear('e');  // the end: it has destroyed its event
}

void Opener(const Line& line) {
  EventHandle handle;
  ASSERT_TRUE(line.Receive(&handle, sizeof handle));
  const Side side = MakeSide();
  EXPECT_THAT(
      Event::Open(side.device, EventHandle{}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("interprocess")));
  {
    const Event event = testing::Must(Event::Open(side.device, handle));
    EXPECT_TRUE(event.options().interprocess);
    EXPECT_NE(event.id(), 0u);
    line.Say('i');
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(line.Hear('r'));
      WaitForOther(side, event, line);
      RecordHeld(side, event);
      line.Say('r');
      ASSERT_TRUE(line.Hear('o'));
      EXPECT_OK(side.flag.Set());
      EXPECT_OK(side.held.Synchronize());
    }
  }
  line.Say('e');
}

constexpr int kNoDevice = 77, kFake = 78;

// The devices are named in the children only: CUDA does not survive a fork.
TEST(Interprocess, EventOrdersWorkOfTwoProcesses) {
  const testing::ProcessResult there = testing::RunInChild([] {
    const absl::Status status = GetBackend("cuda").status();
    if (absl::IsUnavailable(status)) _exit(kNoDevice);
    const DeviceProperties device =
        testing::Must(testing::Must(GetDevice("cuda:0")).Properties());
    if (device.name.rfind("fake", 0) == 0) _exit(kFake);
  });
  if (there.exit_code == kNoDevice) GTEST_SKIP() << "there is no device";
  if (there.exit_code == kFake) {
    GTEST_SKIP() << "events of the fake driver do not leave their process";
  }
  ASSERT_EQ(there.exit_code, 0) << there;
  testing::InChild([] {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const pid_t opener = fork();
    ASSERT_GE(opener, 0);
    if (opener == 0) {
      close(ends[0]);
      {
        const Line line(ends[1]);
        Opener(line);
      }
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    close(ends[1]);
    Exporter(Line(ends[0]));
    int state = 0;
    ASSERT_EQ(waitpid(opener, &state, 0), opener);
    EXPECT_EQ(state, 0) << "the process that opened the event failed";
  });
}

}  // namespace
}  // namespace devrt::hardware
