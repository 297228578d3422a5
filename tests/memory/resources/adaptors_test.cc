// SPDX-License-Identifier: Apache-2.0
//
// The adaptors of resources.h, alone and over each other.

#include <pthread.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/memory/resources/resource_fixture.h"

namespace devrt {
namespace {

using testing::Address;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::InThreads;
using testing::Must;
using testing::ResourceTest;
using testing::Scripted;
using ::testing::SizeIs;
using ::testing::StartsWith;

using AdaptorTest = ResourceTest;

TEST_F(AdaptorTest, NullUpstreamIsNull) {
  EXPECT_EQ(LoggingResource(nullptr), nullptr);
  EXPECT_EQ(StatisticsResource::Make(nullptr), nullptr);
  EXPECT_EQ(LimitResource(nullptr, 1), nullptr);
  EXPECT_EQ(FailureResource(nullptr, {}), nullptr);
  EXPECT_EQ(ThreadSafeResource(nullptr), nullptr);
}

TEST_F(AdaptorTest, EachIsAResource) {
  ExpectBasics(*LoggingResource(Raw(), [](std::string_view) {}));
  ExpectBasics(*StatisticsResource::Make(Raw()));
  ExpectBasics(*LimitResource(Raw(), 1 << 20));
  ExpectBasics(*FailureResource(Raw(), {}));
  ExpectBasics(*ThreadSafeResource(Raw()));
}

// A program's sink may end the thread.
TEST_F(AdaptorTest, ASinkThatEndsItsThreadLosesNoBlock) {
  const auto counted = StatisticsResource::Make(Raw());
  const auto logging =
      LoggingResource(counted, [](std::string_view) { pthread_exit(nullptr); });
  std::thread([&] { (void)logging->Allocate(stream(), 64); }).join();
  EXPECT_EQ(counted->bytes().allocated, 64);
  EXPECT_EQ(counted->bytes().current, 0);
}

TEST_F(AdaptorTest, ComposeInAnyOrder) {
  using Make =
      std::shared_ptr<MemoryResource> (*)(std::shared_ptr<MemoryResource>);
  std::vector<std::pair<std::string, Make>> makers = {
      {"failure", [](auto r) { return FailureResource(r, {}); }},
      {"limit", [](auto r) { return LimitResource(r, 1 << 20); }},
      {"logging",
       [](auto r) { return LoggingResource(r, [](std::string_view) {}); }},
      {"statistics",
       [](auto r) -> std::shared_ptr<MemoryResource> {
         return StatisticsResource::Make(r);
       }},
      {"thread_safe", [](auto r) { return ThreadSafeResource(r); }},
  };
  do {
    std::shared_ptr<MemoryResource> r = Raw();
    std::string name = "raw";
    for (const auto& [part, make] : makers) {
      r = make(std::move(r));
      name = part + "(" + name + ")";
    }
    EXPECT_EQ(r->properties().name, name);
    EXPECT_EQ(r->device(), dev());
    EXPECT_TRUE(r->properties().tracks_uses);
    void* block = Must(r->Allocate(stream(), 4096));
    EXPECT_OK(r->RecordUse(static_cast<char*>(block) + 4096, stream()));
    EXPECT_OK(r->Deallocate(stream(), block, 4096));
  } while (std::next_permutation(
      makers.begin(), makers.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; }));
}

TEST_F(AdaptorTest, TheLogNamesEveryCall) {
  std::vector<std::string> lines;
  const auto r = LoggingResource(
      Raw(), [&](std::string_view line) { lines.emplace_back(line); });
  void* block = Must(r->Allocate(stream(), 512));
  EXPECT_OK(r->RecordUse(block, stream()));
  EXPECT_OK(r->Deallocate(stream(), block, 512));
  EXPECT_OK(r->Trim());
  EXPECT_FALSE(r->Allocate(stream(), uint64_t{1} << 50).ok());
  EXPECT_THAT(
      lines,
      ElementsAre(
          StartsWith("logging(raw): allocate 512 bytes on default stream of "
                     "mtia:0: 0x"),
          StartsWith("logging(raw): record use of 0x"),
          StartsWith("logging(raw): deallocate 512 bytes at 0x"),
          "logging(raw): trim: OK", HasSubstr(": RESOURCE_EXHAUSTED: ")));
}

TEST_F(AdaptorTest, ASinkThatThrowsLosesNothing) {
  const auto r = LoggingResource(Raw(), [](std::string_view) { throw 1; });
  testing::LogCapture log;
  void* block = Must(r->Allocate(stream(), 512));
  EXPECT_OK(r->Deallocate(stream(), block, 512));
  EXPECT_EQ(log.Count(), 2);
}

TEST_F(AdaptorTest, StatisticsAreExact) {
  const auto r = StatisticsResource::Make(LimitResource(Raw(), 2048));
  void* a = Must(r->Allocate(stream(), 1000));
  void* b = Must(r->Allocate(stream(), 24));
  EXPECT_OK(r->Deallocate(stream(), a, 1000));
  EXPECT_FALSE(r->Allocate(stream(), 4096).ok());
  EXPECT_EQ(r->allocations().current, 1);
  EXPECT_EQ(r->allocations().peak, 2);
  EXPECT_EQ(r->allocations().allocated, 2);
  EXPECT_EQ(r->allocations().freed, 1);
  EXPECT_EQ(r->bytes().current, 24);
  EXPECT_EQ(r->bytes().peak, 1024);
  EXPECT_EQ(r->bytes().allocated - r->bytes().freed, 24);
  EXPECT_EQ(r->failures(), 1u);
  EXPECT_OK(r->Deallocate(stream(), b, 24));
  EXPECT_EQ(r->bytes().current, 0);
}

// Wrong frees reach neither the figures nor the upstream.
TEST_F(AdaptorTest, RefusedFreesAreNotCounted) {
  const auto r = StatisticsResource::Make(Raw());
  void* a = Must(r->Allocate(stream(), 1000));
  EXPECT_STATUS(r->Deallocate(stream(), a, 999), kInvalidArgument,
                "1000 bytes");
  EXPECT_FALSE(r->Deallocate(stream(), Address(0), 1000).ok());
  EXPECT_EQ(r->allocations().current, 1);
  EXPECT_OK(r->Deallocate(stream(), a, 1000));
  EXPECT_FALSE(r->Deallocate(stream(), a, 1000).ok());
  EXPECT_EQ(r->allocations().freed, 1);
}

TEST_F(AdaptorTest, TheLimitIsExact) {
  const auto seen = StatisticsResource::Make(Raw());
  const auto r = LimitResource(seen, 1000);
  void* a = Must(r->Allocate(stream(), 600));
  const auto refused = r->Allocate(stream(), 401);
  EXPECT_STATUS(refused, kResourceExhausted,
                "Resource \"limit(statistics(raw))\" may hand out 1000 bytes, "
                "of which 600 are in use.");
  ASSERT_TRUE(GetOutOfMemoryInfo(refused.status()).has_value());
  EXPECT_EQ(GetOutOfMemoryInfo(refused.status())->requested, 401u);
  EXPECT_EQ(seen->allocations().allocated, 1) << "the upstream was not asked";
  void* b = Must(r->Allocate(stream(), 400));
  EXPECT_OK(r->Deallocate(stream(), a, 600));
  void* c = Must(r->Allocate(stream(), 600));
  EXPECT_OK(r->Deallocate(stream(), b, 400));
  EXPECT_OK(r->Deallocate(stream(), c, 600));
  EXPECT_EQ(Must(LimitResource(Raw(), 0)->Allocate(stream(), 0)), nullptr);
  EXPECT_FALSE(LimitResource(Raw(), 0)->Allocate(stream(), 1).ok());
}

TEST_F(AdaptorTest, LimitDoesNotCountRefusedBytes) {
  const auto r = LimitResource(FailureResource(Raw(), {/*fail_at=*/1}), 1000);
  EXPECT_FALSE(r->Allocate(stream(), 1000).ok());
  void* a = Must(r->Allocate(stream(), 1000));
  EXPECT_OK(r->Deallocate(stream(), a, 1000));
}

TEST_F(AdaptorTest, ThreadsTogetherKeepToTheLimit) {
  const auto seen = StatisticsResource::Make(Raw());
  const auto r = LimitResource(seen, 4096);
  InThreads(4, [&](int) {
    for (int i = 0; i < 200; ++i) {
      const auto block = r->Allocate(stream(), 1024 + i % 3 * 512);
      if (!block.ok()) continue;
      EXPECT_OK(r->Deallocate(stream(), *block, 1024 + i % 3 * 512));
    }
  });
  EXPECT_EQ(seen->allocations().current, 0);
  EXPECT_LE(seen->bytes().peak, 4096);
  EXPECT_GT(seen->bytes().allocated, 0);
}

std::string Failures(MemoryResource& r, int count, uint64_t bytes = 512) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const auto block = r.Allocate(DefaultStream(r.device()), bytes);
    text += block.ok() ? '.' : 'x';
    if (block.ok()) {
      EXPECT_OK(r.Deallocate(DefaultStream(r.device()), *block, bytes));
    }
  }
  return text;
}

TEST_F(AdaptorTest, FailuresComeAtTheSetCalls) {
  FailureInjection when;
  when.fail_at = 3;
  EXPECT_EQ(Failures(*FailureResource(Raw(), when), 6), "..x...");
  when = {};
  when.fail_every = 2;
  EXPECT_EQ(Failures(*FailureResource(Raw(), when), 6), ".x.x.x");
  when = {};
  when.fail_above = 512;
  EXPECT_EQ(Failures(*FailureResource(Raw(), when), 2, 512), "..");
  EXPECT_EQ(Failures(*FailureResource(Raw(), when), 2, 513), "xx");
  when = {};
  when.probability = 1;
  EXPECT_EQ(Failures(*FailureResource(Raw(), when), 3), "xxx");
  when.probability = 0.5;
  const std::string half = Failures(*FailureResource(Raw(), when), 200);
  EXPECT_EQ(half, Failures(*FailureResource(Raw(), when), 200)) << "by seed";
  const auto failed = std::count(half.begin(), half.end(), 'x');
  EXPECT_GT(failed, 70);
  EXPECT_LT(failed, 130);
  when.seed = 2;
  EXPECT_NE(half, Failures(*FailureResource(Raw(), when), 200));
}

TEST_F(AdaptorTest, FailuresHaveTheCodeAndTheReason) {
  FailureInjection when;
  when.fail_every = 1;
  EXPECT_STATUS(FailureResource(Raw(), when)->Allocate(stream(), 512),
                kResourceExhausted, "MTIA out of memory");
  when.code = absl::StatusCode::kUnavailable;
  EXPECT_STATUS(FailureResource(Raw(), when)->Allocate(stream(), 512),
                kUnavailable,
                "Allocation 1 of resource \"failure(raw)\" fails because it "
                "was told to (fail_every).");
}

// docs/reference/semantics.md 2.6: out-of-memory callbacks may free, also what
// comes from the resource that is under way.
TEST_F(AdaptorTest, ThreadSafeIsRecursive) {
  const auto caching = ThreadSafeResource(CachingResource(dev()));
  MemoryResource* adaptor = nullptr;
  void* spare = nullptr;
  const auto upstream = std::make_shared<Scripted>(
      dev(), [&](const MemoryRequest&) -> absl::StatusOr<void*> {
        if (spare != nullptr) {
          EXPECT_OK(
              adaptor->Deallocate(stream(), std::exchange(spare, nullptr), 64));
        }
        return Address(4096);
      });
  const auto r = ThreadSafeResource(upstream);
  adaptor = r.get();
  void* first = Must(r->Allocate(stream(), 64));
  spare = first;
  EXPECT_EQ(Must(r->Allocate(stream(), 64)), first);
  EXPECT_OK(r->Deallocate(stream(), first, 64));
}

// Nothing is held where there is nothing to guard.
TEST_F(AdaptorTest, ThreadSafeOverASafeResourceTakesNoLock) {
  std::shared_ptr<MemoryResource> r;
  const auto logged = LoggingResource(Raw(), [&](std::string_view line) {
    if (line.find("allocate") == std::string_view::npos) return;
    std::thread([&] { EXPECT_OK(r->Trim()); }).join();
  });
  r = ThreadSafeResource(logged);
  void* block = Must(r->Allocate(stream(), 64));
  EXPECT_OK(r->Deallocate(stream(), block, 64));
}

// An upstream that counts who is inside it.
TEST_F(AdaptorTest, ThreadSafeSerializesCalls) {
  std::atomic<int> inside{0};
  std::atomic<int> together{0};
  std::atomic<uint64_t> next{0};
  const auto enter = [&] {
    if (inside.fetch_add(1) != 0) ++together;
    std::this_thread::yield();
    inside.fetch_sub(1);
  };
  const auto upstream = std::make_shared<Scripted>(
      dev(),
      [&](const MemoryRequest&) -> absl::StatusOr<void*> {
        enter();
        return Address(4096 * ++next);
      },
      [&](const MemoryReturn&) {
        enter();
        return absl::OkStatus();
      });
  const auto r = ThreadSafeResource(upstream);
  EXPECT_FALSE(upstream->properties().thread_safe);
  EXPECT_TRUE(r->properties().thread_safe);
  InThreads(4, [&](int) {
    for (int i = 0; i < 200; ++i) {
      void* block = Must(r->Allocate(stream(), 64));
      EXPECT_OK(r->Deallocate(stream(), block, 64));
    }
  });
  EXPECT_EQ(together, 0);
}

}  // namespace
}  // namespace devrt
