// SPDX-License-Identifier: Apache-2.0
//
// The ring of calls: lines are whole and in order, whoever writes.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cts/call_ring.h"

namespace devrt::cts {
namespace {

// A line as wide as they get, of its number and a letter.
struct Text {
  char bytes[CallRing::kWidth] = {};
  Text(uint64_t number, char letter) {
    const int n = std::snprintf(bytes, sizeof bytes, "%llu ",
                                static_cast<unsigned long long>(number));
    std::memset(bytes + n, letter, sizeof bytes - 1 - static_cast<size_t>(n));
  }
};

TEST(CallRing, KeepsTheLastLinesInOrder) {
  const auto ring = std::make_unique<CallRing>();
  EXPECT_TRUE(ring->Lines().empty());
  for (uint64_t i = 1; i <= CallRing::kLines + 10; ++i) {
    ASSERT_EQ(ring->ReserveLine(), i);
    ring->Write(i, Text(i, 'a').bytes);
  }
  const std::vector<std::string> lines = ring->Lines();
  ASSERT_EQ(lines.size(), CallRing::kLines);
  EXPECT_EQ(lines.front(), Text(11, 'a').bytes);
  EXPECT_EQ(lines.back(), Text(CallRing::kLines + 10, 'a').bytes);
  ring->Clear();
  EXPECT_TRUE(ring->Lines().empty());
}

TEST(CallRing, OldLineDoesNotOverwriteANewLine) {
  const auto ring = std::make_unique<CallRing>();
  const uint64_t slow = ring->ReserveLine();  // a call that takes long
  ring->Write(slow, Text(slow, 'a').bytes);
  for (uint64_t i = 0; i < CallRing::kLines; ++i) {
    const uint64_t number = ring->ReserveLine();
    ring->Write(number, Text(number, 'b').bytes);
  }
  ring->Write(slow, Text(slow, 'c').bytes);
  EXPECT_EQ(ring->Lines().back(), Text(CallRing::kLines + 1, 'b').bytes);
}

TEST(CallRing, ALineThatWasNotWrittenIsLeftOut) {
  const auto ring = std::make_unique<CallRing>();
  ring->ReserveLine();
  const uint64_t second = ring->ReserveLine();
  ring->Write(second, Text(second, 'a').bytes);
  EXPECT_EQ(ring->Lines(), std::vector<std::string>{Text(2, 'a').bytes});
}

TEST(CallRing, RepeatedCallsTakeOneLine) {
  const auto ring = std::make_unique<CallRing>();
  const auto call = [&](const char* text) {
    const uint64_t number = ring->ReserveLine();
    ring->Write(number, Text(number, '?').bytes);
    char bytes[CallRing::kWidth] = {};
    std::strncpy(bytes, text, sizeof bytes - 1);
    ring->Finish(number, bytes);
  };
  call("record");
  for (uint64_t i = 0; i < 2 * CallRing::kLines; ++i) call("query -> 0");
  call("query -> 1");
  call("query -> 0");
  EXPECT_EQ(ring->Lines(),
            (std::vector<std::string>{"record", "query -> 0 (512 times)",
                                      "query -> 1", "query -> 0"}));
}

TEST(CallRing, RepeatsAcrossAnotherCallAreSeparateLines) {
  const auto ring = std::make_unique<CallRing>();
  const Text text(1, 'a');
  const uint64_t first = ring->ReserveLine();
  ring->Finish(first, text.bytes);
  const uint64_t second = ring->ReserveLine();
  ring->ReserveLine();  // another thread's call, which has not returned
  ring->Finish(second, text.bytes);
  EXPECT_EQ(ring->Lines(), (std::vector<std::string>{text.bytes, text.bytes}));
}

TEST(CallRing, LinesAreWholeUnderManyThreads) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 4000;
  const auto ring = std::make_unique<CallRing>();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&ring, t] {
      for (int i = 0; i < kCalls; ++i) {
        const uint64_t number = ring->ReserveLine();
        // As the recorder: before the call and after it.
        ring->Write(number, Text(number, '?').bytes);
        ring->Write(number, Text(number, static_cast<char>('a' + t)).bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> lines = ring->Lines();
  ASSERT_EQ(lines.size(), CallRing::kLines);
  uint64_t number = kThreads * kCalls - CallRing::kLines;
  for (const std::string& line : lines) {
    ++number;
    const char letter = line.back();
    EXPECT_NE(letter, '?');
    EXPECT_EQ(line, Text(number, letter).bytes);
  }
}

}  // namespace
}  // namespace devrt::cts
