// SPDX-License-Identifier: Apache-2.0
//
// Programs without a mistake, near to what the layer finds: memory that changes
// its stream, order through threads, and the host's use of pinned memory.

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/layers/validate_corpus.h"

namespace devrt::testing {
namespace {

constexpr int kRightRounds = 10;

Array Column(Program& p, int64_t elements, int64_t first) {
  PointerOptions options;
  options.strides = {2 * sizeof(float)};
  return Must(Array::FromPointer(p.x + first * sizeof(float), {elements},
                                 kFloat32, options));
}

std::vector<RightProgram> Allocators() {
  return {
      {"CachedBlocksOnTwoStreams",
       [](Program& p) {
         for (int i = 0; i < kRightRounds; ++i) {
           void* const block = Must(AllocateMemory(p.a, kBlock));
           p.Write(p.a, block);
           p.Wait(p.b, p.Record(p.a));
           p.Copy(p.b, p.y, block);  // devrt notes the use
           EXPECT_OK(FreeMemory(block));
           const StreamRef s = i % 2 == 0 ? p.a : p.b;
           void* const next = Must(AllocateMemory(s, kBlock));
           p.Write(s, next);
           EXPECT_OK(FreeMemory(next));
         }
       }},
      {"BlocksFreedOnAnotherStream",
       [](Program& p) {
         for (int i = 0; i < kRightRounds; ++i) {
           Buffer buffer = Must(Buffer::Allocate(p.a, kBlock));
           p.Write(p.a, buffer.data());
           p.Wait(p.b, p.Record(p.a));
           p.Read(p.b, buffer.data());
           EXPECT_OK(buffer.SetStream(p.b));
         }
       }},
      {"AStreamEndsBeforeItsBlockIsFreed",
       [](Program& p) {
         for (int i = 0; i < kRightRounds; ++i) {
           void* block = nullptr;
           {
             const Stream s = Must(Stream::Create(p.d));
             block = Must(AllocateMemory(s, kBlock));
             p.Write(s, block);
           }
           EXPECT_OK(FreeMemory(block));
           const Stream t = Must(Stream::Create(p.d));
           void* const next = Must(AllocateMemory(t, kBlock));
           p.Write(t, next);
           EXPECT_OK(FreeMemory(next));
         }
       }},
      {"BlocksOfTheDriverChangeTheirStream",
       [](Program& p) {
         const auto driver = Must(DriverResource(p.d));
         for (int i = 0; i < kRightRounds; ++i) {
           const StreamRef s = i % 2 == 0 ? p.a : p.b;
           void* const block = Must(driver->Allocate(s, kBlock));
           p.Write(s, block);
           p.Wait(p.c, p.Record(s));
           p.Write(p.c, block);
           EXPECT_OK(driver->RecordUse(block, p.c));
           EXPECT_OK(driver->Deallocate(s, block, kBlock));
         }
       }},
      {"BlocksOfThePinnedCache",
       [](Program& p) {
         for (int i = 0; i < kRightRounds; ++i) {
           void* const block = Must(AllocatePinned(p.d, kBlock));
           std::memset(block, i, kBlock);
           p.Copy(i % 2 == 0 ? p.a : p.b, i % 2 == 0 ? p.x : p.y, block);
           EXPECT_OK(FreePinned(block));
         }
       }},
      {"ArraysOfManyPlaces",
       [](Program& p) {
         const Array base = Must(Array::Zeros({32, 32}, kFloat32, p.d));
         const Array column =
             Must(base.SliceAxis(1, {std::nullopt, std::nullopt, 2}));
         for (int i = 0; i < kRightRounds; ++i) {
           const StreamGuard on_stream(i % 2 == 0 ? p.a : p.b);
           EXPECT_OK(column.Fill(i));
           const Array far = Must(Must(Add(base, 1.0F)).To(p.e));
           const Array host =
               Must(far.To(Place::Pinned(p.e), /*non_blocking=*/true));
           static_cast<void>(Must(Must(Sum(column)).Item()));
           EXPECT_OK(CopyArray(base, far));
           static_cast<void>(Must(column.To(Place::Host())));
           static_cast<void>(Must(host.To(p.d, /*non_blocking=*/true)));
         }
       }},
      {"OddAndEvenElements",
       [](Program& p) {
         constexpr int64_t kElements = 200;
         const Array even = Column(p, kElements, 0);
         const Array odd = Column(p, kElements, 1);
         {
           const StreamGuard on_stream(p.a);
           EXPECT_OK(AddInto(even, even, 1.0F));
         }
         const StreamGuard on_stream(p.b);
         EXPECT_OK(AddInto(odd, odd, 1.0F));
       }},
  };
}

std::vector<RightProgram> RightThreads() {
  return {
      {"ThreadsTakeTurns",
       [](Program& p) {
         std::mutex turn;
         const auto work = [&](StreamRef s) {
           for (int i = 0; i < kRightRounds; ++i) {
             const std::lock_guard<std::mutex> lock(turn);
             p.Write(s, p.x);
             p.Sync(s);
           }
         };
         std::thread other([&] { work(p.a); });
         work(p.b);
         other.join();
       }},
      {"AThreadWaitsForTheOthers",
       [](Program& p) {
         char* const host = p.NewPinned();
         p.Copy(p.a, host, p.x);
         std::thread waits([&] { p.Sync(p.a); });
         waits.join();
         std::memset(host, 1, kBlock);
         p.Write(p.b, p.x);
       }},
      {"DefaultStreamsOfTwoThreads",
       [](Program& p) {
         p.Write(DefaultStream(p.d), p.x);
         std::thread other(
             [&] { p.Write(Must(PerThreadDefaultStream(p.d)), p.x); });
         other.join();
         p.Write(DefaultStream(p.d), p.x);
         p.Write(Must(PerThreadDefaultStream(p.d)), p.x);
       }},
      {"AHostFunctionTellsTheHost",
       [](Program& p) {
         const Simulator simulator = Must(Simulator::Get());
         std::atomic<bool> complete = false;
         p.Write(p.a, p.x);
         EXPECT_OK(LaunchHostFunc(p.a, [&](absl::Status) { complete = true; }));
         while (!complete) EXPECT_OK(simulator.Yield());
         p.Write(p.b, p.x);
       }},
      {"AnAdoptedStreamIsTheOriginal",
       [](Program& p) {
         p.Write(p.a, p.x);
         {
           const Stream adopted =
               Must(Stream::FromNative(p.d, Must(p.a.Native())));
           p.Write(adopted, p.x);
         }
         p.Write(p.a, p.x);
       }},
  };
}

std::vector<RightProgram> PinnedMemory() {
  return {
      {"AHostFunctionUsesWhatItsStreamCopies",
       [](Program& p) {
         char* const host = p.NewPinned();
         p.Copy(p.a, host, p.x);
         EXPECT_OK(LaunchHostFunc(
             p.a, [host](absl::Status) { std::memset(host, 1, kBlock); }));
         p.Copy(p.a, p.y, host);
         p.Sync(p.a);
         std::memset(host, 2, kBlock);
       }},
      {"AKernelUsesWhatItsStreamCopies",
       [](Program& p) {
         char* const host = p.NewPinned();
         p.Copy(p.a, host, p.x);
         EXPECT_OK(Launch(p.a, {ReadWrite(host, kBlock)},
                          [host](const LaunchContext& kernel) {
                            std::memset(kernel.Local(host, kBlock), 1, kBlock);
                          }));
         p.Sync(p.a);
         std::memset(host, 2, kBlock);
       }},
      {"TheHostReadsASource",
       [](Program& p) {
         char* const host = p.NewPinned();
         std::memset(host, 1, kBlock);
         p.Copy(p.a, p.x, host);
         EXPECT_EQ(host[0], 1);
         p.Sync(p.a);
         std::memset(host, 2, kBlock);
       }},
      {"TheHostUsesTheOtherHalf",
       [](Program& p) {
         char* const host = p.NewPinned();
         p.Copy(p.a, host, p.x, kBlock / 2);
         std::memset(host + kBlock / 2, 1, kBlock / 2);
         p.Sync(p.a);
         std::memset(host, 1, kBlock);
       }},
      {"BlocksThatShareAPage",
       [](Program& p) {
         constexpr uint64_t kSmall = 512;
         void* const first = Must(AllocatePinned(p.d, kSmall));
         void* const second = Must(AllocatePinned(p.d, kSmall));
         p.Copy(p.a, first, p.x, kSmall);
         std::memset(second, 1, kSmall);
         EXPECT_OK(FreePinned(first));
         EXPECT_OK(FreePinned(second));
       }},
      {"TheHostHasWaitedInEachWay",
       [](Program& p) {
         char* const host = p.NewPinned();
         p.Copy(p.a, host, p.x);
         EXPECT_OK(p.Record(p.a).Synchronize());
         std::memset(host, 1, kBlock);
         p.Copy(p.a, p.x, host);
         while (!Must(p.a.Query())) {
         }
         std::memset(host, 2, kBlock);
         p.Copy(p.a, host, p.x);
         p.Wait(p.f, p.Record(p.a));
         p.Sync(p.f);
         std::memset(host, 3, kBlock);
         p.Copy(p.a, p.x, host);
         EXPECT_OK(p.d.Synchronize());
         std::memset(host, 4, kBlock);
       }},
  };
}

}  // namespace

std::vector<RightProgram> RightPrograms() {
  std::vector<RightProgram> all;
  for (const auto& some : {Allocators(), RightThreads(), PinnedMemory()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace devrt::testing
