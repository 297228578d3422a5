// SPDX-License-Identifier: Apache-2.0
//
// Mistakes with host memory that the host uses while a copy is in flight.  The
// host reads and writes by copies from host to host, which devrt sees, and by
// pointers.  Most are from reports of public projects, which are named.

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/layers/validate_corpus.h"

namespace devrt::testing {
namespace {

std::vector<Mistake> Reads() {
  return {
      // NVIDIA/cudf#2755
      {"AResultIsReadBeforeItArrives", "read-after-write",
       [](Program& p) {
         std::vector<char> result(kBlock);
         char* const host = p.NewPinned();
         p.Copy(p.a, host, p.x);
         p.Mend([&] { p.Sync(p.a); });
         p.HostCopy(result.data(), host);
       }},
      // pytorch/pytorch#137951
      {"AnAccumulatorReadsNonBlockingDownloads", "read-after-write",
       [](Program& p) {
         std::vector<char> sum(2 * kBlock);
         for (int i = 0; i < 2; ++i) {
           char* const host = p.NewPinned();
           p.Write(p.a, p.x);
           p.Copy(p.a, host, p.x);
           p.Mend([&] { EXPECT_OK(p.Record(p.a).Synchronize()); });
           p.HostCopy(sum.data() + i * kBlock, host);
         }
       }},
      // pytorch/pytorch#185252
      {"TheHostWaitsForAnEventBeforeTheDownload", "read-after-write",
       [](Program& p) {
         std::vector<char> item(kBlock);
         char* const host = p.NewPinned();
         p.Write(p.a, p.x);
         Event& early = p.Record(p.a);
         p.Copy(p.a, host, p.x);
         Event& late = p.Record(p.a);
         EXPECT_OK((p.mended() ? late : early).Synchronize());
         p.HostCopy(item.data(), host);
       }},
      // votca/xtp#391
      {"TheHostWaitsForTheWrongOneOfTwoDownloads", "read-after-write",
       [](Program& p) {
         std::vector<char> result(kBlock);
         char* const first = p.NewPinned();
         char* const second = p.NewPinned();
         p.Copy(p.a, first, p.x);
         p.Copy(p.b, second, p.y);
         p.Sync(p.mended() ? p.b : p.a);
         p.HostCopy(result.data(), second);
       }},
      // NVIDIA/cuda-quantum#5375
      {"APageableResultIsReadTooEarly", "read-after-write",
       [](Program& p) {
         std::vector<char> result(kBlock);
         std::vector<char> copy(kBlock);
         p.Copy(p.a, result.data(), p.x);
         p.Mend([&] { p.Sync(p.a); });
         p.HostCopy(copy.data(), result.data());
         p.Sync(p.a);
       }},
      {"AResultIsReadWhenAPollSaysNotYet", "read-after-write",
       [](Program& p) {
         std::vector<char> result(kBlock);
         char* const host = p.NewPinned();
         EXPECT_OK(Spin(p.a, 1'000'000'000));
         p.Copy(p.a, host, p.x);
         bool done = Must(p.a.Query());
         while (p.mended() && !done) done = Must(p.a.Query());
         p.HostCopy(result.data(), host);
       }},
  };
}

std::vector<Mistake> Writes() {
  return {
      // pytorch/pytorch#127612
      {"ASourceIsChangedDuringItsUpload", "write-after-read",
       [](Program& p) {
         const std::vector<char> next(kBlock);
         char* const host = p.NewPinned();
         p.Copy(p.a, p.x, host);
         p.Mend([&] { p.Sync(p.a); });
         p.HostCopy(host, next.data());
       }},
      // NVIDIA/TensorRT-LLM#15546
      {"AStagingBufferServesTheNextStepTooEarly", "write-after-read",
       [](Program& p) {
         char* const staging = p.NewPinned();
         for (int step = 0; step < 3; ++step) {
           const std::vector<char> table(kBlock, p.NextValue());
           p.HostCopy(staging, table.data());
           p.Copy(p.a, p.x, staging);
           p.Read(p.a, p.x);
           p.Mend([&] { p.Sync(p.a); });
         }
       }},
      // LuisaGroup/LuisaCompute#248
      {"StagingIsRecycledBeforeTheUploadIsComplete", "write-after-read",
       [](Program& p) {
         const std::vector<char> next(kBlock);
         char* const staging = p.NewPinned();
         Event& ticket = p.NewEvent(p.d);
         p.Fault([&] { EXPECT_OK(ticket.Record(p.a)); });
         p.Copy(p.a, p.x, staging);
         p.Mend([&] { EXPECT_OK(ticket.Record(p.a)); });
         EXPECT_OK(ticket.Synchronize());
         p.HostCopy(staging, next.data());
       }},
      // NVIDIA/cuopt#1759
      {"ASecondPublishOverwritesTheFirst", "write-after-read",
       [](Program& p) {
         char* const staging = p.NewPinned();
         const auto publish = [&](char* to) {
           const std::vector<char> routes(kBlock, p.NextValue());
           p.HostCopy(staging, routes.data());
           p.Copy(p.a, to, staging);
           p.Mend([&] { p.Sync(p.a); });
         };
         publish(p.x);
         publish(p.y);
       }},
      // cupy/cupy#5155
      {"AKernelWritesTheSourceOfADownload", "write-after-read",
       [](Program& p) {
         p.Copy(p.a, p.NewPinned(), p.x);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Write(p.b, p.x);
       }},
      {"AKernelReadsPinnedMemoryThatTheHostWrites", "write-after-read",
       [](Program& p) {
         const std::vector<char> next(kBlock);
         char* const host = p.NewPinned();
         p.Read(p.a, host);  // over the bus
         p.Mend([&] { p.Sync(p.a); });
         p.HostCopy(host, next.data());
       }},
  };
}

// The host uses pinned memory by a pointer, or declares its use of other
// memory.
std::vector<Mistake> Pointers() {
  return {
      // NVIDIA/cudf#2755
      {"AValueIsReturnedBeforeItArrives", "host-access-in-flight",
       [](Program& p) {
         volatile char* const value = p.NewPinned();
         p.Copy(p.a, const_cast<char*>(value), p.x);
         p.Mend([&] { p.Sync(p.a); });
         static_cast<void>(value[0]);
         p.Sync(p.a);
       }},
      // pytorch/pytorch#127612
      {"AnElementOfTheSourceChanges", "host-access-in-flight",
       [](Program& p) {
         volatile char* const source = p.NewPinned();
         p.Copy(p.a, p.x, const_cast<char*>(source));
         p.Mend([&] { EXPECT_OK(p.Record(p.a).Synchronize()); });
         source[kBlock - 1] = 1;
         p.Sync(p.a);
       }},
      // rapidsai/rapidsmpf#270
      {"AHostBufferIsCopiedBeforeItsEvent", "host-access-in-flight",
       [](Program& p) {
         char* const host = p.NewPinned();
         p.Write(p.a, p.x);
         Event& early = p.Record(p.a);
         p.Copy(p.a, host, p.x);
         Event& late = p.Record(p.a);
         EXPECT_OK((p.mended() ? late : early).Synchronize());
         const std::vector<char> copy(host, host + kBlock);
         p.Sync(p.a);
       }},
      {"TheNextBatchIsFilledInDuringTheUpload", "host-access-in-flight",
       [](Program& p) {
         char* const buffers[] = {p.NewPinned(), p.NewPinned()};
         Event* uploaded[2] = {};
         for (int batch = 0; batch < 4; ++batch) {
           const int i = batch % 2;
           if (uploaded[i] != nullptr && p.mended()) {
             EXPECT_OK(uploaded[i]->Synchronize());
           }
           std::memset(buffers[i], batch, kBlock);
           p.Copy(p.a, p.x, buffers[i]);
           p.Read(p.a, p.x);  // trains
           uploaded[i] = &p.Record(p.a);
         }
         p.Sync(p.a);
       }},
      {"AKernelWritesPinnedMemoryThatTheHostPolls", "host-access-in-flight",
       [](Program& p) {
         auto* const flag = static_cast<char*>(Must(AllocateHost(p.d, 1)));
         p.Write(p.a, flag, 1);
         p.Mend([&] { p.Sync(p.a); });
         static_cast<void>(*static_cast<volatile char*>(flag));
         p.Sync(p.a);
         EXPECT_OK(FreeHost(flag));
       }},
      // NVIDIA/cuda-quantum#5375
      {"AVectorIsReadBeforeItArrives", "host-access-in-flight",
       [](Program& p) {
         std::vector<char> result(kBlock);
         p.Copy(p.a, result.data(), p.x);
         p.Mend([&] { p.Sync(p.a); });
         EXPECT_OK(validate::UseOnHost({Read(result.data(), kBlock)}));
         p.Sync(p.a);
       }},
      // NVIDIA/cudf#17149
      {"ATemporaryVectorEndsDuringItsUpload", "host-access-in-flight",
       [](Program& p) {
         std::vector<char> items(kBlock);
         p.Copy(p.a, p.x, items.data());
         p.Mend([&] { p.Sync(p.a); });
         // Its memory goes to another vector.
         EXPECT_OK(validate::UseOnHost({Write(items.data(), kBlock)}));
         std::fill(items.begin(), items.end(), p.NextValue());
         p.Sync(p.a);
       }},
      {"AHostFunctionReadsWhatAnotherStreamCopies", "read-after-write",
       [](Program& p) {
         char* const host = p.NewPinned();
         p.Copy(p.a, host, p.x);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         const Access access = Read(host, kBlock);
         char* const answer = p.NewPinned();
         EXPECT_OK(validate::AnnotateWork(p.b, {access}, "host function"));
         EXPECT_OK(LaunchHostFunc(
             p.b, [=](absl::Status) { std::memcpy(answer, host, kBlock); }));
         p.Copy(p.b, p.y, answer);
         p.Sync(p.b);
       }},
  };
}

std::vector<Mistake> Lives() {
  return {
      // cupy/cupy#8789
      {"ThePinnedSourceOfAnUploadIsFreed", "free-while-used",
       [](Program& p) {
         void* const host = Must(AllocateHost(p.d, kBlock));
         p.Copy(p.a, p.x, host);
         p.Mend([&] { EXPECT_OK(p.Record(p.a).Synchronize()); });
         EXPECT_OK(FreeHost(host));
         p.Sync(p.a);
       }},
      // rapidsai/rapidsmpf#1160
      {"AVectorIsUnregisteredDuringItsUpload", "host-access-in-flight",
       [](Program& p) {
         std::vector<char> host(kBlock);
         EXPECT_OK(RegisterHost(p.d, host.data(), kBlock));
         p.Copy(p.a, p.x, host.data());
         p.Mend([&] { p.Sync(p.a); });
         EXPECT_OK(UnregisterHost(p.d, host.data()));
         std::fill(host.begin(), host.end(), p.NextValue());
         p.Sync(p.a);
       }},
      // cupy/cupy#8845
      {"APinnedBlockGoesToTheNextDownload", "use-after-free",
       [](Program& p) {
         const std::vector<char> next(kBlock);
         void* const source = Must(AllocatePinned(p.d, kBlock));
         p.Copy(p.a, p.x, source);
         // The faulty program frees the block and goes on with its pointer.
         EXPECT_OK(FreePinned(source));
         void* const other = Must(AllocatePinned(p.d, kBlock));
         p.HostCopy(p.mended() ? other : source, next.data());
         p.Sync(p.a);
         EXPECT_OK(FreePinned(other));
       }},
      {"PinnedMemoryIsUsedAfterItsFree", "use-after-free",
       [](Program& p) {
         void* const host = Must(AllocateHost(p.d, kBlock));
         p.Mend([&] {
           p.Read(p.a, host);
           p.Sync(p.a);
         });
         EXPECT_OK(FreeHost(host));
         p.Fault([&] { p.Read(p.a, host); });
       }},
  };
}

}  // namespace

std::vector<Mistake> HostMistakes() {
  std::vector<Mistake> all;
  for (const auto& some : {Reads(), Writes(), Pointers(), Lives()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace devrt::testing
