// SPDX-License-Identifier: Apache-2.0
//
// Events whose context another library has destroyed or made again: their
// native events went with it, and the driver would crash on them.

#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "devrt/devrt.h"
#include "tests/fakes/common/alone.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using test::Alone;
using ::testing::HasSubstr;
using testing::Must;
using testing::StatusIs;

std::atomic<int> warnings{0};

// The errors of a destruction are in the log only.
void CountWarnings() {
  SetLogSink([](LogLevel level, const char*, int, std::string_view) {
    if (level >= LogLevel::kWarning) ++warnings;
  });
}

const auto kGone = StatusIs(absl::StatusCode::kFailedPrecondition,
                            HasSubstr("CUDA_ERROR_CONTEXT_IS_DESTROYED"));

// A context of another library, with a stream; current until it is made.
struct Foreign {
  Foreign() {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
#if CUDA_VERSION >= 13000
    EXPECT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
#else
    EXPECT_EQ(cuCtxCreate(&context, 0, 0), CUDA_SUCCESS);
#endif
    EXPECT_EQ(cuStreamCreateWithPriority(&stream, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  }
  void Destroy() const { EXPECT_EQ(cuCtxDestroy(context), CUDA_SUCCESS); }

  CUcontext context = nullptr;
  CUstream stream = nullptr;
};

// As the other library goes on after it has reset the device: a context at the
// address of the former one.
void MakePrimaryAgain() {
  ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  CUcontext again = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
}

TEST(EventsOfGoneContexts, AreRefusedAndLeftAlone) {
  Alone([] {
    CountWarnings();
    const Device device = Must(GetDevice("cuda:0"));
    const Foreign foreign;
    {
      std::optional<Stream> theirs =
          Must(Stream::FromNative(device, foreign.stream));
      const Event event = Must(Event::Create(device));
      EXPECT_OK(event.Record(*theirs));
      foreign.Destroy();
      EXPECT_THAT(event.Query(), kGone);
      EXPECT_THAT(event.Synchronize(), kGone);
      theirs.reset();
      // The next record makes a native event in the context of its stream.
      const Stream own = Must(Stream::Create(device));
      EXPECT_OK(event.Record(own));
      EXPECT_OK(event.Synchronize());
      EXPECT_TRUE(Must(event.Query()));
    }
    warnings = 0;
    EXPECT_OK(Shutdown());
    EXPECT_EQ(warnings, 0);
  });
}

TEST(EventsOfGoneContexts, ElapsedTimeIsRefused) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:0"));
    EventOptions options;
    options.timing = true;
    const Stream stream = Must(Stream::Create(device));
    const Event begin = Must(Event::Create(device, options));
    const Event end = Must(Event::Create(device, options));
    EXPECT_OK(begin.Record(stream));
    EXPECT_OK(end.Record(stream));
    EXPECT_OK(end.Synchronize());
    EXPECT_OK(begin.Synchronize());
    MakePrimaryAgain();
    EXPECT_THAT(ElapsedMilliseconds(begin, end), kGone);
  });
}

// The fake driver ends the process where it would crash.
TEST(EventsOfGoneContexts, AreNotDestroyedInANewContextAtTheirAddress) {
  Alone([] {
    CountWarnings();
    const Device device = Must(GetDevice("cuda:0"));
    {
      const Stream own = Must(Stream::Create(device));
      const Event event = Must(Event::Create(device));
      EXPECT_OK(event.Record(own));
      EXPECT_OK(event.Synchronize());
    }
    MakePrimaryAgain();
    EXPECT_OK(Shutdown());
  });
}

TEST(EventsOfGoneContexts, ThoseLeftThereAreNotDestroyedEither) {
  Alone([] {
    CountWarnings();
    const Device device = Must(GetDevice("cuda:0"));
    const Foreign foreign;
    {
      const Stream own = Must(Stream::Create(device));
      const Stream theirs = Must(Stream::FromNative(device, foreign.stream));
      const Event event = Must(Event::Create(device));
      EXPECT_OK(event.Record(own));
      EXPECT_OK(event.Synchronize());
      EXPECT_OK(event.Record(theirs));
      EXPECT_OK(event.Synchronize());
    }
    MakePrimaryAgain();
    EXPECT_OK(Shutdown());
  });
}

// Two native events, of two contexts that are there. The driver destroys three:
// one that devrt recorded itself, the one of the former context, whose failure
// nobody is told of, and at last the one of the latter.
TEST(EventsOfTwoContexts, AreBothDestroyed) {
  for (const int call : {1, 2, 3}) {
    SCOPED_TRACE(call);
    Alone([call] {
      setenv("DEVRT_FAKE_CUDA",
             ("fail=cuEventDestroy@" + std::to_string(call) + ":1").c_str(), 1);
      CountWarnings();
      const Device device = Must(GetDevice("cuda:0"));
      const Foreign foreign;
      {
        const Event event = Must(Event::Create(device));
        const Stream own = Must(Stream::Create(device));
        const Stream theirs = Must(Stream::FromNative(device, foreign.stream));
        EXPECT_OK(event.Record(own));
        EXPECT_OK(own.Synchronize());
        EXPECT_OK(event.Record(theirs));
        EXPECT_OK(theirs.Synchronize());
      }
      warnings = 0;
      EXPECT_OK(Shutdown());
      EXPECT_EQ(warnings, call == 3 ? 1 : 0);
    });
  }
}

// Another process may have recorded it: the driver is asked, though this one
// never recorded it.
TEST(InterprocessEvents, ExportedEventIsQueried) {
  Alone([] {
    setenv("DEVRT_FAKE_CUDA", "fail=cuEventQuery@1:1", 1);
    const Device device = Must(GetDevice("cuda:0"));
    EventOptions options;
    options.interprocess = true;
    const Event event = Must(Event::Create(device, options));
    EXPECT_TRUE(Must(event.Query()));
    EXPECT_OK(event.Export().status());
    EXPECT_THAT(event.Query(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("CUDA_ERROR")));
    EXPECT_TRUE(Must(event.Query()));
  });
}

// An event of another process is one of the device's primary context.
TEST(InterprocessEvents, OpenedEventEndsWithItsContext) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:0"));
    EventHandle handle{};
    std::memset(handle.bytes, 0xff, sizeof(pid_t));  // see stream.cc
    const Event event = Must(Event::Open(device, handle));
    const Stream stream = Must(Stream::Create(device));
    EXPECT_TRUE(Must(event.Query()));
    EXPECT_OK(event.Record(stream));
    EXPECT_OK(event.Synchronize());
    EXPECT_TRUE(Must(event.Query()));
    MakePrimaryAgain();
    EXPECT_THAT(event.Query(), kGone);
  });
}

// Returns true if the kernels of arrays load although call `n` of `name` fails.
bool KernelsLoad(const char* name, int n) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string failure =
        std::string("fail=") + name + "@" + std::to_string(n) + ":1";
    setenv("DEVRT_FAKE_CUDA", failure.c_str(), 1);
    const absl::Status made =
        Array::Full({4}, kInt32, 1, Must(GetDevice("cuda:0"))).status();
    _exit(made.message().find("kernel loading") != absl::string_view::npos);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == 0;
}

// How many calls of `name` there are while kernels load.
int CallsOfLoading(const char* name) {
  int some = 1, too_many = 1024;
  EXPECT_FALSE(KernelsLoad(name, some));
  EXPECT_TRUE(KernelsLoad(name, too_many));
  while (too_many - some > 1) {
    const int middle = (some + too_many) / 2;
    (KernelsLoad(name, middle) ? too_many : some) = middle;
  }
  return some;
}

// The first launch of a kernel may wait for those that run: none is left for
// later (F40).
TEST(Kernels, EachIsLaunchedOnceAsTheyLoad) {
  EXPECT_EQ(CallsOfLoading("cuLaunchKernel"),
            CallsOfLoading("cuModuleGetFunction"));
}

}  // namespace
}  // namespace devrt
