// SPDX-License-Identifier: Apache-2.0
//
// Contents of memory, the state after a reset, and random use of everything.
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/mtia/memory/memory.h"
#include "tests/mtia/memory_fixture.h"

namespace devrt::mtia {
namespace {

using test::OwnedStatus;
using testing::HasSubstr;

// ---- poison -----------------------------------------------------------------

TEST_F(MemoryTest, SmallBlocksArePoisonedWhole) {
  Make();
  std::byte* a = Alloc(0, 64 * kKiB);
  std::byte* local = Local(0, a, 64 * kKiB);
  EXPECT_TRUE(All(local, 64 * kKiB, 0xFF));
  std::memset(local, 5, 64 * kKiB);
  EXPECT_TRUE(Free(0, a).ok());
  EXPECT_TRUE(All(local, 64 * kKiB, 0xDD));
}

TEST_F(MemoryTest, LargeBlocksArePoisonedAtTheEdges) {
  Make();
  constexpr uint64_t kSize = kMiB + 300;
  std::byte* a = Alloc(0, kSize);
  std::byte* local = Local(0, a, kSize);
  EXPECT_TRUE(All(local, 4 * kKiB, 0xFF));
  EXPECT_TRUE(All(local + kSize - 4 * kKiB, 4 * kKiB, 0xFF));
  EXPECT_TRUE(All(local + 16 * kKiB, kSize - 32 * kKiB, 0));
  std::memset(local, 5, kSize);
  EXPECT_TRUE(Free(0, a).ok());
  EXPECT_TRUE(All(local, 4 * kKiB, 0xDD));
  EXPECT_TRUE(All(local + kSize - 4 * kKiB, 4 * kKiB, 0xDD));
}

TEST_F(MemoryTest, PoisonFullAndOff) {
  Make("memory=4MiB,poison=full");
  std::byte* a = Alloc(0, kMiB);
  std::byte* local = Local(0, a, kMiB);
  EXPECT_TRUE(All(local, kMiB, 0xFF));
  EXPECT_TRUE(Free(0, a).ok());
  EXPECT_TRUE(All(local, kMiB, 0xDD));

  memory_->Reset(Parse("memory=4MiB,poison=off"));
  for (const uint64_t size : {uint64_t{3}, 5000 * uint64_t{1}, kMiB}) {
    std::byte* b = Alloc(0, size);
    local = Local(0, b, size);
    EXPECT_TRUE(All(local, size, 0)) << size;
    std::memset(local, 7, size);
    EXPECT_TRUE(Free(0, b).ok());
    EXPECT_TRUE(All(local, size, 7)) << size;
  }
}

TEST_F(MemoryTest, FreshMemoryDoesNotShowTheRunBefore) {
  for (const char* poison : {"full", "edges", "off"}) {
    const std::string text = std::string("memory=8MiB,poison=") + poison;
    Make(text);
    std::vector<std::vector<std::byte>> runs;
    for (int run = 0; run < 3; ++run) {
      memory_->Reset(Parse(text));
      std::vector<std::byte> seen;
      for (const uint64_t size :
           {uint64_t{100}, 64 * kKiB + 1, uint64_t{513}, 2 * kMiB + 12345}) {
        std::byte* local = Local(0, Alloc(0, size), size);
        seen.insert(seen.end(), local, local + size);
        std::memset(local, 0x11 * (run + 1), size);
      }
      runs.push_back(std::move(seen));
    }
    EXPECT_TRUE(runs[0] == runs[1] && runs[1] == runs[2]) << poison;
  }
}

// ---- reset ------------------------------------------------------------------

TEST_F(MemoryTest, ResetForgetsEverything) {
  Make();
  std::byte* a = Alloc(0, 100);
  std::byte* pinned = HostAlloc(0, 100);
  std::vector<std::byte> buffer(100);
  ASSERT_TRUE(
      OwnedStatus(memory_->Register(0, buffer.data(), 100, Site(1))).ok());
  ASSERT_TRUE(OwnedStatus(memory_->EnablePeer(0, 1)).ok());
  ASSERT_TRUE(memory_->Reset(Parse("memory=8MiB,peers=none")));
  EXPECT_EQ(memory_->live_blocks(), 0u);
  EXPECT_EQ(memory_->live_pinned(), 0u);
  EXPECT_EQ(memory_->live_registered(), 0u);
  EXPECT_FALSE(memory_->PeerEnabled(0, 1));
  EXPECT_FALSE(memory_->CanAccessPeer(0, 1));
  EXPECT_EQ(memory_->Find(a).local, nullptr);
  EXPECT_EQ(memory_->Find(pinned).local, nullptr);
  EXPECT_EQ(FreeBytes(0), 7 * kMiB);
}

TEST_F(MemoryTest, ResetCanChangeTheNumberOfDevices) {
  Make();
  ASSERT_TRUE(memory_->Reset(Parse("devices=5,memory=4MiB")));
  EXPECT_EQ(memory_->Find(Alloc(4, 8)).device, 4u);
}

TEST_F(MemoryTest, ResetThatTheSystemRefusesLeavesAnEmptyMemory) {
  Make();
  Alloc(0, 8);
  std::string error;
  Config huge = Parse("memory=1TiB");
  huge.memory = 1ull << 50;
  EXPECT_FALSE(memory_->Reset(huge, &error));
  EXPECT_THAT(error, HasSubstr("addresses"));
  EXPECT_EQ(memory_->live_blocks(), 0u);
  EXPECT_EQ(FreeBytes(0), 3 * kMiB);
  Alloc(0, 8);
}

TEST_F(MemoryTest, ManyDevicesAndSeveralMachinesAtOnce) {
  Make("devices=64");
  std::byte* a = Alloc(63, 100);
  std::unique_ptr<Memory> first = std::move(memory_);
  Make("devices=8,memory=2GiB");
  std::byte* b = Alloc(7, 100);
  EXPECT_EQ(first->Find(a).device, 63u);
  EXPECT_EQ(memory_->Find(b).device, 7u);
  EXPECT_NE(memory_->Find(a).space, Space::kDevice);
}

// ---- against a model, and from many threads ---------------------------------

TEST_F(MemoryTest, AgreesWithAModelOverRandomCalls) {
  constexpr unsigned kModelSeed = 4711;
  SCOPED_TRACE("seed " + std::to_string(kModelSeed));
  std::mt19937 random(kModelSeed);
  Make("memory=8MiB,overhead=1MiB,granularity=256,gap=256");
  std::map<std::byte*, uint64_t> model;
  uint64_t used = 0;
  const auto rounded = [](uint64_t n) { return (n + 255) / 256 * 256; };
  for (int i = 0; i < 3000; ++i) {
    if (random() % 2 == 0 || model.empty()) {
      const uint64_t size = 1 + random() % (random() % 4 == 0 ? kMiB : 3000);
      void* ptr = nullptr;
      const OwnedStatus status = TryAlloc(0, size, &ptr);
      if (!status.ok()) {
        const bool fits = size <= 7 * kMiB - used;
        EXPECT_EQ(status.text().find("fragmented") != std::string::npos, fits);
        continue;
      }
      auto* p = static_cast<std::byte*>(ptr);
      const auto next = model.lower_bound(p);
      if (next != model.end()) {
        EXPECT_LE(p + size + 256, next->first);
      }
      if (next != model.begin()) {
        const auto before = std::prev(next);
        EXPECT_GE(p, before->first + before->second + 256);
      }
      model[p] = size;
      used += rounded(size);
    } else {
      auto victim = model.begin();
      std::advance(victim, random() % model.size());
      EXPECT_TRUE(Free(0, victim->first).ok());
      used -= rounded(victim->second);
      model.erase(victim);
    }
    EXPECT_EQ(FreeBytes(0), 7 * kMiB - used);
  }
  for (const auto& [p, size] : model) {
    EXPECT_EQ(memory_->Find(p + size - 1).base, p);
  }
}

TEST_F(MemoryTest, ServesManyThreads) {
  Make();
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::byte buffer[64];
      for (int i = 0; i < 200; ++i) {
        const uint32_t device = (t + static_cast<uint32_t>(i)) % 2;
        std::byte* a = Alloc(device, 512 + t);
        std::memset(Local(device, a, 512), static_cast<int>(t), 512);
        std::byte* pinned = HostAlloc(device, 8);
        EXPECT_TRUE(
            OwnedStatus(memory_->Register(0, buffer, 64, Site(1))).ok());
        EXPECT_EQ(memory_->Find(buffer + 63).space, Space::kRegistered);
        EXPECT_EQ(memory_->Find(pinned).space, Space::kPinned);
        EXPECT_TRUE(All(Local(device, a, 512), 512, static_cast<int>(t)));
        const OwnedStatus peer =
            t == 0 ? memory_->EnablePeer(0, 1) : OwnedStatus(nullptr);
        EXPECT_TRUE(OwnedStatus(memory_->Unregister(buffer)).ok());
        EXPECT_TRUE(HostFree(pinned).ok());
        EXPECT_TRUE(Free(device, a).ok());
        memory_->CloseOpenedPages();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_->live_blocks(), 0u);
  EXPECT_EQ(memory_->live_pinned(), 0u);
}

}  // namespace
}  // namespace devrt::mtia
