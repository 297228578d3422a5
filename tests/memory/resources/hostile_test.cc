// SPDX-License-Identifier: Apache-2.0
//
// Resources that throw, give nothing, or give what is not theirs: the caller
// gets an error that names the resource, and nothing else is touched.

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/registry/records.h"
#include "tests/memory/resources/resource_fixture.h"

namespace devrt {
namespace {

using testing::Address;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::InThreads;
using testing::Must;
using testing::ResourceTest;
using testing::Scripted;
using testing::StatusIs;

class HostileTest : public ResourceTest {
 protected:
  static std::shared_ptr<Scripted> Gives(std::vector<void*> blocks) {
    auto left = std::make_shared<std::vector<void*>>(std::move(blocks));
    return std::make_shared<Scripted>(
        dev(), [left](const MemoryRequest&) -> absl::StatusOr<void*> {
          void* next = left->front();
          left->erase(left->begin());
          return next;
        });
  }
};

TEST_F(HostileTest, ExceptionsBecomeErrors) {
  const auto throwing = [](auto thrower) {
    return std::make_shared<Scripted>(
        dev(), [=](const MemoryRequest&) -> absl::StatusOr<void*> {
          thrower();
          return nullptr;
        });
  };
  EXPECT_STATUS(throwing([] {
                  throw std::runtime_error("no luck");
                })->Allocate(stream(), 1),
                kInternal, "resource \"scripted\" threw an exception: no luck");
  EXPECT_STATUS(throwing([] { throw 7; })->Allocate(stream(), 1), kInternal,
                "resource \"scripted\" threw an exception");
  EXPECT_STATUS(throwing([] { throw std::bad_alloc(); })->Allocate(stream(), 1),
                kResourceExhausted, "scripted");
}

TEST_F(HostileTest, AFreeThatThrowsIsTheEndOfTheBlock) {
  const auto r = std::make_shared<Scripted>(
      dev(),
      [](const MemoryRequest&) -> absl::StatusOr<void*> { return Address(0); },
      [](const MemoryReturn&) -> absl::Status {
        throw std::runtime_error("gone");
      });
  void* block = Must(r->Allocate(stream(), 64));
  EXPECT_STATUS(r->Deallocate(stream(), block, 64), kInternal, "gone");
  EXPECT_STATUS(r->Deallocate(stream(), block, 64), kInvalidArgument,
                "scripted");
}

TEST_F(HostileTest, NullIsOutOfMemory) {
  const auto made = Gives({nullptr})->Allocate(stream(), 3 << 20);
  EXPECT_STATUS(made, kResourceExhausted,
                "MTIA out of memory. Tried to allocate 3.00 MiB. Resource "
                "\"scripted\" has no room.");
  ASSERT_TRUE(GetOutOfMemoryInfo(made.status()).has_value());
  EXPECT_EQ(GetOutOfMemoryInfo(made.status())->requested, uint64_t{3} << 20);
}

TEST_F(HostileTest, UnalignedBlocksAreRefused) {
  const auto r = Gives({Address(8), Address(256)});
  EXPECT_STATUS(r->Allocate(stream(), 64), kInternal,
                "not aligned to 256 bytes as its properties promise");
  EXPECT_STATUS(r->Allocate(stream(), 64, 512), kInternal,
                "not aligned to 512 bytes as asked for");
}

TEST_F(HostileTest, BlocksThatOverlapALiveBlockAreRefused) {
  const auto r = Gives({Address(4096), Address(4096), Address(4096 + 256),
                        Address(4096 - 256), Address(4096 - 1024),
                        Address(4096 + 512), Address(4096 - 512)});
  void* first = Must(r->Allocate(stream(), 512, 0, CallSite{"here.cc", 7}));
  for (const char* how : {"the same", "its second half", "its first half"}) {
    EXPECT_THAT(
        r->Allocate(stream(), 512),
        StatusIs(absl::StatusCode::kInternal,
                 AllOf(HasSubstr("which overlap a live block of resource "
                                 "\"scripted\", 512 bytes at "),
                       HasSubstr(" allocated at here.cc:7"))))
        << how;
  }
  EXPECT_STATUS(r->Allocate(stream(), 4096), kInternal, "overlap") << "around";
  void* after = Must(r->Allocate(stream(), 512));
  void* before = Must(r->Allocate(stream(), 512));
  for (void* block : {first, after, before}) {
    EXPECT_OK(r->Deallocate(stream(), block, 512));
  }
}

TEST_F(HostileTest, BlocksOfOthers) {
  const auto theirs = Gives({Address(0)});
  void* block = Must(theirs->Allocate(stream(), 4096));
  EXPECT_STATUS(Gives({Address(256)})->Allocate(stream(), 64), kInternal,
                "overlap");
  EXPECT_OK(theirs->Deallocate(stream(), block, 4096));
  // Not even a small part of what it holds of another, together with more.
  void* held = nullptr;
  const auto cuts = std::make_shared<Scripted>(
      dev(), [&](const MemoryRequest& r) -> absl::StatusOr<void*> {
        if (held == nullptr) held = Must(Raw()->Allocate(r.stream, 1024));
        return held;
      });
  EXPECT_STATUS(cuts->Allocate(stream(), 2048), kInternal, "overlap");
  EXPECT_OK(cuts->Allocate(stream(), 1024).status());
  EXPECT_OK(cuts->Deallocate(stream(), held, 1024));
  EXPECT_OK(Raw()->Deallocate(stream(), held, 1024));
}

// One large block of an upstream, cut up: an arena.
TEST_F(HostileTest, BlocksOfTheCachingAllocator) {
  const auto caching = CachingResource(dev());
  void* block = Must(caching->Allocate(stream(), 512));
  EXPECT_STATUS(Gives({block})->Allocate(stream(), 512), kInternal,
                "resource \"scripted\" gave 512 bytes at");
  // An adaptor holds its own, and the free finds the adaptor.
  const auto counted = StatisticsResource::Make(caching);
  void* held = Must(counted->Allocate(stream(), 512));
  EXPECT_STATUS(Gives({held})->Allocate(stream(), 512), kInternal, "overlap");
  EXPECT_OK(RecordStream(held, stream()));
  EXPECT_OK(FreeMemory(held));
  EXPECT_EQ(counted->allocations().current, 0);
  EXPECT_FALSE(FreeMemory(held).ok());
  EXPECT_OK(FreeMemory(block));
  EXPECT_OK(caching->Trim());
}

// A block that begins in nobody's memory and ends in somebody's.
TEST_F(HostileTest, ItsLaterPartCounts) {
  char* cached = static_cast<char*>(Must(AllocateMemory(stream(), 1 << 20)));
  char* raw = static_cast<char*>(Must(Allocate(dev(), 4096)));
  for (char* live : {cached, raw}) {
    EXPECT_STATUS(Gives({live - 4096})->Allocate(stream(), 8192), kInternal,
                  "which overlap")
        << (live == raw);
    EXPECT_STATUS(Gives({live - 4096})->Allocate(stream(), 4 << 20), kInternal,
                  "which overlap")
        << "around " << (live == raw);
  }
  EXPECT_STATUS(Gives({raw + 2048})->Allocate(stream(), 4096), kInternal,
                "which overlap");
  // Within memory that devrt knows as the program's own.
  const auto r = Gives({raw});
  EXPECT_OK(r->Allocate(stream(), 4096).status());
  EXPECT_OK(r->Deallocate(stream(), raw, 4096));
  EXPECT_OK(Free(dev(), raw));
  EXPECT_OK(FreeMemory(cached));
  EXPECT_OK(EmptyCache(dev()));
}

TEST_F(HostileTest, ArenaMaySplitAnUpstreamBlock) {
  const auto upstream = StatisticsResource::Make(Raw());
  char* held = nullptr;
  uint64_t next = 0;
  const auto arena = std::make_shared<Scripted>(
      dev(), [&](const MemoryRequest& r) -> absl::StatusOr<void*> {
        if (held == nullptr) {
          held = static_cast<char*>(Must(upstream->Allocate(r.stream, 4096)));
        }
        return held + 256 * next++;
      });
  const auto counted = StatisticsResource::Make(arena);
  void* a = Must(counted->Allocate(stream(), 256));
  void* b = Must(counted->Allocate(stream(), 256));
  EXPECT_EQ(a, held);
  EXPECT_EQ(b, held + 256);
  EXPECT_EQ(upstream->allocations().allocated, 1);
  EXPECT_STATUS(upstream->Deallocate(stream(), b, 256), kInvalidArgument,
                "needs a live block of its own");
  EXPECT_OK(counted->Deallocate(stream(), a, 256));
  next = 0;
  EXPECT_EQ(Must(counted->Allocate(stream(), 256)), held);
  EXPECT_OK(counted->Deallocate(stream(), a, 256));
  EXPECT_OK(counted->Deallocate(stream(), b, 256));
  EXPECT_OK(upstream->Deallocate(stream(), held, 4096));
}

// ---- Functions in C ---------------------------------------------------------

// A heap of addresses; `destroy` notes that it was called.
struct Heap {
  std::mutex mutex;
  uint64_t next = 0;
  std::map<void*, uint64_t> live;
  int destroyed = 0;
  int device = -1;
  void* stream = nullptr;

  static void* Allocate(void* context, uint64_t bytes, int32_t device,
                        void* stream) {
    Heap* heap = static_cast<Heap*>(context);
    std::lock_guard<std::mutex> lock(heap->mutex);
    void* block = Address(heap->next);
    heap->next += (bytes + 255) / 256 * 256;
    heap->live[block] = bytes;
    heap->device = device;
    heap->stream = stream;
    return block;
  }
  static void Free(void* context, void* pointer, uint64_t bytes, int32_t,
                   void* stream) {
    Heap* heap = static_cast<Heap*>(context);
    std::lock_guard<std::mutex> lock(heap->mutex);
    EXPECT_EQ(heap->live[pointer], bytes);
    heap->live.erase(pointer);
    heap->stream = stream;
  }
  static void Destroy(void* context) {
    ++static_cast<Heap*>(context)->destroyed;
  }
  MemoryCallbacks callbacks() { return {this, &Allocate, &Free, &Destroy}; }
};

using CallbackTest = ResourceTest;

TEST_F(CallbackTest, BothFunctionsAreNeeded) {
  Heap heap;
  MemoryCallbacks c = heap.callbacks();
  c.allocate = nullptr;
  EXPECT_STATUS(CallbackResource(dev(), c), kInvalidArgument,
                "`allocate` is null");
  c = heap.callbacks();
  c.deallocate = nullptr;
  EXPECT_STATUS(CallbackResource(dev(), c), kInvalidArgument,
                "`deallocate` is null");
  EXPECT_EQ(heap.destroyed, 0);
}

TEST_F(CallbackTest, IsAResource) {
  Heap heap;
  ExpectBasics(*Must(CallbackResource(dev(), heap.callbacks())));
  EXPECT_TRUE(heap.live.empty());
  EXPECT_EQ(heap.destroyed, 1);
}

TEST_F(CallbackTest, GetsDeviceAndNativeStream) {
  Heap heap;
  const auto r = Must(CallbackResource(dev(1), heap.callbacks()));
  Stream s = NewStream(dev(1));
  void* block = Must(r->Allocate(s, 64));
  EXPECT_EQ(heap.device, 1);
  EXPECT_EQ(heap.stream, Must(s.Native()));
  EXPECT_STATUS(r->RecordUse(block, s), kUnimplemented, "callback");
  EXPECT_STATUS(r->Allocate(s, 64, 1 << 16), kUnimplemented, "65536");
  { Stream ended = std::move(s); }
  EXPECT_OK(r->Deallocate(DefaultStream(dev(1)), block, 64));
}

// The block keeps the resource, and the resource its functions (F9).
TEST_F(CallbackTest, LivesUntilItsLastBlock) {
  Heap heap;
  auto r = Must(CallbackResource(dev(), heap.callbacks()));
  void* a = Must(r->Allocate(stream(), 64));
  void* b = Must(r->Allocate(stream(), 64));
  MemoryResource* raw = r.get();
  r.reset();
  EXPECT_OK(raw->Deallocate(stream(), a, 64));
  EXPECT_EQ(heap.destroyed, 0);
  EXPECT_OK(raw->Deallocate(stream(), b, 64));
  EXPECT_EQ(heap.destroyed, 1);
}

TEST_F(CallbackTest, StreamsThatEndedFirstDoNotCount) {
  Heap heap;
  const auto r = Must(CallbackResource(dev(), heap.callbacks()));
  std::optional<Stream> s = NewStream();
  const StreamRef ended = s->ref();
  void* block = Must(r->Allocate(*s, 64));
  s.reset();
  EXPECT_OK(r->Deallocate(ended, block, 64));
  EXPECT_EQ(heap.stream, Must(stream().Native()));
}

TEST_F(CallbackTest, ThrowsNullAndOverlap) {
  MemoryCallbacks c;
  c.deallocate = [](void*, void*, uint64_t, int32_t, void*) { throw 1; };
  c.allocate = [](void*, uint64_t bytes, int32_t, void*) -> void* {
    if (bytes == 1) throw std::runtime_error("from C++ behind C");
    if (bytes == 2) return nullptr;
    return Address(0);
  };
  c.destroy = [](void*) { throw 2; };
  {
    const auto r = Must(CallbackResource(dev(), c));
    EXPECT_STATUS(r->Allocate(stream(), 1), kInternal, "from C++ behind C");
    EXPECT_STATUS(r->Allocate(stream(), 2), kResourceExhausted, "callback");
    void* block = Must(r->Allocate(stream(), 512));
    EXPECT_STATUS(r->Allocate(stream(), 512), kInternal, "overlap");
    EXPECT_STATUS(r->Deallocate(stream(), block, 512), kInternal,
                  "threw an exception");
  }
}

// The thread is the program's, and may end in its functions; what is counted
// stays right.  A destructor cannot let it end.
TEST_F(CallbackTest, MayEndTheirThread) {
  MemoryCallbacks c;
  c.allocate = [](void*, uint64_t bytes, int32_t, void*) -> void* {
    if (bytes == 1) pthread_exit(nullptr);
    return Address(0);
  };
  c.deallocate = [](void*, void*, uint64_t, int32_t, void*) {
    pthread_exit(nullptr);
  };
  c.destroy = [](void*) { pthread_exit(nullptr); };
  auto r = Must(CallbackResource(dev(), c));
  bool returned = false;
  std::thread([&] {
    (void)r->Allocate(stream(), 1);
    returned = true;
  }).join();
  EXPECT_FALSE(returned);
  void* block = Must(r->Allocate(stream(), 512));
  const std::atomic<int64_t>& live = dev().record()->live_allocations;
  const int64_t before = live;
  std::thread([&] {
    (void)r->Deallocate(stream(), block, 512);
    returned = true;
  }).join();
  EXPECT_FALSE(returned);
  EXPECT_EQ(live, before - 1);
  std::thread([&] {
    r.reset();
    returned = true;
  }).join();
  EXPECT_TRUE(returned);
}

// Exactly one of two that free the same block does.
TEST_F(CallbackTest, ConcurrentFreesOfABlockSucceedOnce) {
  Heap heap;
  const auto r = Must(CallbackResource(dev(), heap.callbacks()));
  for (int i = 0; i < 100; ++i) {
    void* block = Must(r->Allocate(stream(), 64));
    std::atomic<int> done{0};
    InThreads(3, [&](int) {
      if (r->Deallocate(stream(), block, 64).ok()) ++done;
    });
    ASSERT_EQ(done, 1);
  }
  EXPECT_TRUE(heap.live.empty());
}

// ---- The device's resource --------------------------------------------------

class SetResourceTest : public ResourceTest {
 protected:
  ~SetResourceTest() override { EXPECT_OK(SetMemoryResource(dev(), nullptr)); }
};

TEST_F(SetResourceTest, TheDevicesOwnUntilAnother) {
  const auto at_first = GetMemoryResource(dev());
  ASSERT_NE(at_first, nullptr);
  const auto r = StatisticsResource::Make(Raw());
  EXPECT_OK(SetMemoryResource(dev(), r));
  EXPECT_EQ(GetMemoryResource(dev()), r);
  EXPECT_NE(GetMemoryResource(dev(1)), r);
  EXPECT_OK(SetMemoryResource(dev(), nullptr));
  EXPECT_EQ(GetMemoryResource(dev()), at_first);
  EXPECT_STATUS(SetMemoryResource(dev(1), r), kInvalidArgument,
                "a resource of mtia:0 cannot serve mtia:1");
}

// F9, F26: the end of the former resource comes with its last block.
TEST_F(SetResourceTest, BlocksReturnToTheFormerResource) {
  bool ended = false;
  int freed = 0;
  auto former = std::make_shared<Scripted>(
      dev(),
      [](const MemoryRequest&) -> absl::StatusOr<void*> { return Address(0); },
      [&](const MemoryReturn&) {
        ++freed;
        return absl::OkStatus();
      });
  former->on_end = [&] { ended = true; };
  EXPECT_OK(SetMemoryResource(dev(), former));
  Buffer buffer =
      Must(Buffer::Allocate(GetMemoryResource(dev()), stream(), 64));
  former.reset();
  EXPECT_OK(SetMemoryResource(dev(), nullptr));
  EXPECT_FALSE(ended);
  buffer.Reset();
  EXPECT_EQ(freed, 1);
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace devrt
