// SPDX-License-Identifier: Apache-2.0
//
// Reports for a program that dereferences device memory.
#include "backends/mtia/memory/host_access.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csetjmp>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "backends/mtia/system/helper_thread.h"
#include "tests/mtia/memory_fixture.h"

namespace devrt::mtia {
namespace {

using test::OwnedStatus;
using testing::HasSubstr;

// Not inlined or instrumented away: the fault must happen here.
__attribute__((noinline)) int Read(const std::byte* address) {
  return static_cast<int>(*const_cast<const volatile std::byte*>(address));
}

__attribute__((noinline)) void Write(std::byte* address, int value) {
  *const_cast<volatile std::byte*>(address) = std::byte(value);
}

// Threads of other tests must not exist in a forked child.
class HostAccessDeathTest : public MemoryTest {
 protected:
  HostAccessDeathTest() {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

TEST_F(HostAccessDeathTest, ReadNamesTheBlock) {
  Make();
  std::byte* a = Alloc(1, 4096, 40);
  EXPECT_DEATH(Read(a + 16),
               "the host read device memory: address 0x[0-9a-f]+ of mtia:1, "
               "16 bytes into block #[0-9]+ \\(4096 bytes, allocated at "
               "test.cc:40\\)");
}

TEST_F(HostAccessDeathTest, ReportsWritesAsWrites) {
  Make();
  std::byte* a = Alloc(0, 64);
  EXPECT_DEATH(Write(a, 1), "the host wrote to device memory");
}

TEST_F(HostAccessDeathTest, FreedAndForeignAddressesAreNamedToo) {
  Make();
  std::byte* a = Alloc(0, 64, 3);
  EXPECT_TRUE(Free(0, a, 4).ok());
  EXPECT_DEATH(Read(a),
               "0 bytes into freed block #[0-9]+ \\(64 bytes, allocated at "
               "test.cc:3, freed at test.cc:4\\)");
  EXPECT_DEATH(Read(a + 100), "36 bytes behind the end of freed block");
}

// Those of the backend, which run host functions.
TEST_F(HostAccessDeathTest, ReportsHelperThreads) {
  EXPECT_DEATH(
      {
        Make();
        std::byte* const a = Alloc(0, 64);
        StartHelper("test", [a] { Read(a); });
        pause();
      },
      "the host read device memory");
}

TEST_F(HostAccessDeathTest, OffIsSilent) {
  Make("host_access=off");
  std::byte* a = Alloc(0, 64);
  // A sanitizer's own handler may print, ours may not.
  EXPECT_EXIT(
      {
        signal(SIGSEGV, [](int) { _exit(7); });
        Read(a);
      },
      testing::ExitedWithCode(7), "");
}

void ExitWith9(int, siginfo_t* info, void*) {
  _exit(info->si_addr != nullptr ? 9 : 8);
}

TEST_F(HostAccessDeathTest, PreviousHandlerGetsForeignFaultsUnchanged) {
  EXPECT_EXIT(
      {
        struct sigaction action = {};
        action.sa_sigaction = ExitWith9;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, nullptr);
        Make();
        Alloc(0, 64);
        void* page =
            mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        Read(static_cast<std::byte*>(page));
      },
      testing::ExitedWithCode(9), "^$");
}

TEST_F(HostAccessDeathTest, PreviousHandlerFollowsTheReport) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, [](int) { _exit(11); });
        Make();
        Read(Alloc(0, 64));
      },
      testing::ExitedWithCode(11), "the host read device memory");
}

TEST_F(HostAccessDeathTest, DefaultActionEndsTheProcessWithTheSignal) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        Make();
        Read(Alloc(0, 64));
      },
      testing::KilledBySignal(SIGSEGV), "the host read device memory");
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        Make();
        Alloc(0, 64);
        raise(SIGSEGV);
      },
      testing::KilledBySignal(SIGSEGV), "^$");
}

sigjmp_buf g_back;
int g_jumps = 0;

TEST_F(HostAccessDeathTest, PreviousHandlerMayJumpOut) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, [](int) { siglongjmp(g_back, 1); });
        Make();
        std::byte* a = Alloc(0, 64);
        if (sigsetjmp(g_back, 1) != 0) ++g_jumps;
        if (g_jumps < 3) Read(a);
        _exit(g_jumps);
      },
      testing::ExitedWithCode(3), "the host read device memory");
}

using HostAccessTest = MemoryTest;

TEST_F(HostAccessTest, ContinueOpensThePageUntilTheNextCall) {
  Make("host_access=continue");
  constexpr uint64_t kSize = 20000;
  std::byte* a = Alloc(0, kSize, 12);
  testing::internal::CaptureStderr();
  EXPECT_EQ(Read(a), 0xFF);
  Write(a + 1, 42);
  EXPECT_EQ(memory_->host_accesses(), 1u);
  EXPECT_EQ(Local(0, a, kSize)[1], std::byte(42));
  Write(a + kSize - 1, 43);
  EXPECT_EQ(memory_->host_accesses(), 2u);

  memory_->CloseOpenedPages();
  EXPECT_EQ(Read(a + 1), 42);
  EXPECT_EQ(Read(a + kSize - 1), 43);
  EXPECT_EQ(memory_->host_accesses(), 4u);
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_THAT(report, HasSubstr("0 bytes into block #"));
  EXPECT_THAT(report, HasSubstr("allocated at test.cc:12"));

  memory_->Reset(Parse("host_access=continue"));
  EXPECT_EQ(memory_->host_accesses(), 0u);
  testing::internal::CaptureStderr();
  Read(Alloc(0, 8));
  EXPECT_EQ(memory_->host_accesses(), 1u);
  testing::internal::GetCapturedStderr();
}

TEST_F(HostAccessTest, ContinueStopsReportingAfterAWhile) {
  Make("host_access=continue");
  std::byte* a = Alloc(0, 8);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) {
    Read(a);
    memory_->CloseOpenedPages();
  }
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_EQ(memory_->host_accesses(), 100u);
  EXPECT_LT(report.size(), 20'000u);
}

TEST_F(HostAccessTest, ContinueWorksFromManyThreads) {
  Make("host_access=continue");
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(Alloc(0, 10000));
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (std::byte* block : blocks) {
    threads.emplace_back([this, block] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(Read(block + 9000), 0xFF);
        memory_->CloseOpenedPages();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  testing::internal::GetCapturedStderr();
  EXPECT_GE(memory_->host_accesses(), 50u);
}

}  // namespace
}  // namespace devrt::mtia
