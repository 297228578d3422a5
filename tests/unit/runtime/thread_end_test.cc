// SPDX-License-Identifier: Apache-2.0
//
// pthread_exit and pthread_cancel in code that devrt calls: where it must not
// end the thread, and where it may.

#include "runtime/common/thread_end.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "devrt/runtime/log.h"
#include "runtime/registry/open.h"

namespace devrt {
namespace {

using internal::DropCancellation;
using internal::NoCancel;
using internal::PassThreadEnd;
using internal::RunToItsEnd;

// Runs `body` on a thread; whether it returned.
template <typename Body>
bool Returns(Body body) {
  bool returned = false;
  std::thread([&] {
    body();
    returned = true;
  }).join();
  return returned;
}

TEST(ThreadEndTest, TheStackIsUnwoundAndTheThreadGoesOn) {
  EXPECT_TRUE(Returns([] {
    for (int i = 0; i < 3; ++i) {
      struct Unwound {
        bool* done;
        ~Unwound() { *done = true; }
      };
      bool unwound = false;
      EXPECT_FALSE(RunToItsEnd([&] {
        const Unwound frame{&unwound};
        try {
          pthread_exit(nullptr);
        } catch (...) {
          throw;  // counts as an exception
        }
      }));
      EXPECT_TRUE(unwound);
      EXPECT_EQ(std::uncaught_exceptions(), 0);
    }
    EXPECT_TRUE(RunToItsEnd([] {}));
    EXPECT_THROW(RunToItsEnd([] { throw std::runtime_error("x"); }),
                 std::runtime_error);
    EXPECT_EQ(std::uncaught_exceptions(), 0);
  }));
}

TEST(ThreadEndTest, InsideAHandlerOfAnException) {
  EXPECT_TRUE(Returns([] {
    try {
      throw std::runtime_error("outer");
    } catch (const std::runtime_error&) {
      EXPECT_FALSE(RunToItsEnd([] { pthread_exit(nullptr); }));
      EXPECT_THROW(RunToItsEnd([] { throw 1; }), int);
      EXPECT_NE(std::current_exception(), nullptr);
      EXPECT_THROW(throw, std::runtime_error);
    }
    EXPECT_EQ(std::current_exception(), nullptr);
  }));
}

TEST(ThreadEndTest, CancellationWaitsForTheEndOfTheScope) {
  bool inside = false;
  EXPECT_FALSE(Returns([&] {
    pthread_cancel(pthread_self());
    {
      const NoCancel no_cancel;
      pthread_testcancel();
      inside = true;
    }
    pthread_testcancel();
  }));
  EXPECT_TRUE(inside);
}

TEST(ThreadEndTest, CancellationIsDropped) {
  EXPECT_TRUE(Returns([] {
    pthread_cancel(pthread_self());
    DropCancellation();
    pthread_testcancel();
    pthread_cancel(pthread_self());
    pthread_testcancel();
  }));
}

TEST(ThreadEndTest, CatchAllHandlersPassThreadEndOn) {
  bool handled = false;
  EXPECT_FALSE(Returns([&] {
    try {
      pthread_exit(nullptr);
    } catch (...) {
      PassThreadEnd();
      handled = true;
    }
  }));
  EXPECT_FALSE(handled);
  EXPECT_TRUE(Returns([&] {
    try {
      throw 1;
    } catch (...) {
      PassThreadEnd();
      handled = true;
    }
  }));
  EXPECT_TRUE(handled);
}

// A plugin that ends the thread at its open, which is the program's.
TEST(ThreadEndTest, LeavesThePluginAtItsOpen) {
  EXPECT_FALSE(Returns([] {
    (void)internal::CallPlugin("acme", "open",
                               []() -> devrt_status { pthread_exit(nullptr); });
  }));
}

void SinkThatEndsItsThread(LogLevel, const char*, int, std::string_view) {
  pthread_exit(nullptr);
}
void SinkThatThrows(LogLevel, const char*, int, std::string_view) { throw 1; }

TEST(ThreadEndTest, NothingLeavesALogSink) {
  for (const auto& [sink, how] :
       {std::pair{&SinkThatEndsItsThread, "called pthread_exit"},
        std::pair{&SinkThatThrows, "threw an exception"}}) {
    SetLogSink(sink);
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(Returns([] { DEVRT_LOG(kError, "a line"); }));
    const std::string text = ::testing::internal::GetCapturedStderr();
    SetLogSink(nullptr);
    EXPECT_NE(text.find("devrt error: a line ["), std::string::npos) << text;
    EXPECT_NE(text.find(std::string("the log sink of the program ") + how),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace devrt
