// SPDX-License-Identifier: Apache-2.0
//
// Mistakes with the life of memory and with memory of the host.

#include <vector>

#include "tests/layers/validate_corpus.h"

namespace devrt::testing {
namespace {

char* Cached(StreamRef s, uint64_t bytes = kBlock) {
  return static_cast<char*>(Must(AllocateMemory(s, bytes)));
}

}  // namespace

std::vector<Mistake> MemoryMistakes() {
  return {
      {"ANewBlockIsUsedOnAnotherStreamAtOnce", "write-after-write",
       [](Program& p) {
         // The block's addresses were used on its stream, and are again.
         char* const before = Cached(p.a);
         p.Write(p.a, before);
         EXPECT_OK(FreeMemory(before));
         char* const block = Cached(p.a);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Write(p.b, block);
         p.Sync(p.a);
         p.Read(p.b, block);
         p.Sync(p.b);
         EXPECT_OK(FreeMemory(block));
       }},
      {"ABlockOfAnAsyncAllocationIsUsedTooEarly", "use-before-allocation",
       [](Program& p) {
         const auto driver = Must(DriverResource(p.d));
         void* const block = Must(driver->Allocate(p.a, kBlock));
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Write(p.b, block);
         p.Wait(p.a, p.Record(p.b));
         EXPECT_OK(driver->Deallocate(p.a, block, kBlock));
       }},
      {"AnAsyncFreeDoesNotWait", "free-while-used",
       [](Program& p) {
         const auto driver = Must(DriverResource(p.d));
         void* const block = Must(driver->Allocate(p.a, kBlock));
         p.Wait(p.b, p.Record(p.a));
         p.Write(p.b, block);
         p.Mend([&] { p.Wait(p.a, p.Record(p.b)); });
         EXPECT_OK(driver->Deallocate(p.a, block, kBlock));
         p.Sync(p.b);
       }},
      {"RawMemoryIsFreedWhileAStreamUsesIt", "free-while-used",
       [](Program& p) {
         void* const block = Must(Allocate(p.d, kBlock));
         p.Write(p.a, block);
         p.Mend([&] { p.Sync(p.a); });
         EXPECT_OK(Free(p.d, block));
       }},
      {"PinnedMemoryIsCopiedIntoTwice", "write-after-write",
       [](Program& p) {
         void* const host = Must(AllocateHost(p.d, kBlock));
         p.Copy(p.a, host, p.x);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Copy(p.b, host, p.y);
         p.Sync(p.a);
         p.Sync(p.b);
         std::vector<char> result(kBlock);
         p.HostCopy(result.data(), host);
         EXPECT_OK(FreeHost(host));
       }},
      {"AStagingBufferIsFilledBeforeItsUpload", "write-after-read",
       [](Program& p) {
         void* const host = Must(AllocateHost(p.d, kBlock));
         p.Copy(p.a, p.x, host);  // uploads
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Copy(p.b, host, p.y);  // downloads into the buffer
         p.Sync(p.a);
         p.Sync(p.b);
         EXPECT_OK(FreeHost(host));
       }},
      {"PinnedMemoryIsFreedInFlight", "free-while-used",
       [](Program& p) {
         void* const host = Must(AllocateHost(p.d, kBlock));
         p.Copy(p.a, host, p.x);
         p.Mend([&] { p.Sync(p.a); });
         EXPECT_OK(FreeHost(host));
         p.Sync(p.a);
       }},
      {"AKernelUsesMemoryOfAnotherDevice", "wrong-device",
       [](Program& p) {
         p.Mend([&] { EXPECT_OK(EnablePeerAccess(p.d, p.e)); });
         p.Read(p.a, p.far);
         p.Mend([&] { p.Sync(p.a); });
       }},
      {"PeerAccessEndsBeforeTheKernel", "wrong-device",
       [](Program& p) {
         EXPECT_OK(EnablePeerAccess(p.d, p.e));
         p.Read(p.a, p.far);
         p.Sync(p.a);
         p.Fault([&] { EXPECT_OK(DisablePeerAccess(p.d, p.e)); });
         p.Write(p.a, p.far);
         p.Mend([&] { p.Sync(p.a); });
       }},
      {"PeerAccessOfTheOtherDirection", "wrong-device",
       [](Program& p) {
         EXPECT_OK(EnablePeerAccess(p.e, p.d));
         p.Mend([&] { EXPECT_OK(EnablePeerAccess(p.d, p.e)); });
         p.Read(p.a, p.far);
         p.Mend([&] { p.Sync(p.a); });
       }},
      {"PageableMemoryOfTwoCopies", "write-after-write",
       [](Program& p) {
         std::vector<char> host(kBlock);
         p.Copy(p.a, host.data(), p.x);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Copy(p.b, host.data(), p.y);
         p.Sync(p.a);
         p.Sync(p.b);
         std::vector<char> result(kBlock);
         p.HostCopy(result.data(), host.data());
       }},
  };
}

}  // namespace devrt::testing
