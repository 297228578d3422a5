// SPDX-License-Identifier: Apache-2.0
//
// Mistakes with arrays: devrt orders the operations on an array, and does not
// know what a program does with the array's memory by itself.  Some are from
// reports of public projects, which are named.

#include <cstdint>
#include <vector>

#include "tests/layers/validate_corpus.h"

namespace devrt::testing {
namespace {

constexpr int64_t kElements = kBlock / sizeof(float);

// An array over memory of the program.
Array Over(void* memory, DimSpan shape = {kElements}, Dims strides = {}) {
  PointerOptions options;
  options.strides = std::move(strides);
  return Must(Array::FromPointer(memory, shape, kFloat32, options));
}
Array New(const Place& place) {
  return Must(Array::Zeros({kElements}, kFloat32, place));
}
Array Ones(const Place& place) {
  return Must(Array::Full({kElements}, kFloat32, 1.0F, place));
}
// The host learns a result, so that a wrong one shows.
void Fetch(const Array& result) { EXPECT_OK(Must(Sum(result)).Item()); }
// Adds 1 on a stream.
void Increment(StreamRef s, const Array& array) {
  const StreamGuard on_stream(s);
  EXPECT_OK(AddInto(array, array, 1.0F));
}

std::vector<Mistake> Aliases() {
  return {
      {"TwoArraysOverOneMemory", "read-after-write",
       [](Program& p) {
         p.KeepBusy(p.a);
         const Array first = Over(p.x);
         const Array second = p.mended() ? first : Over(p.x);
         Increment(p.a, first);
         Increment(p.b, second);
       }},
      {"HalvesThatOverlap", "read-after-write",
       [](Program& p) {
         p.KeepBusy(p.a);
         const Array lower = Over(p.x, {kElements / 2});
         const uint64_t begin = kBlock / 2 - (p.mended() ? 0 : sizeof(float));
         const Array upper = Over(p.x + begin, {kElements / 2});
         Increment(p.a, lower);
         Increment(p.b, upper);
       }},
      {"ColumnsThatOverlap", "read-after-write",
       [](Program& p) {
         p.KeepBusy(p.a);
         constexpr int64_t kColumns = 16;
         constexpr int64_t kRow = kColumns * sizeof(float);
         const auto columns = [&](int64_t from) {
           return Over(p.x + from * static_cast<int64_t>(sizeof(float)),
                       {kElements / kColumns, kColumns / 2},
                       {kRow, sizeof(float)});
         };
         Increment(p.a, columns(0));
         Increment(p.b, columns(p.mended() ? kColumns / 2 : kColumns / 2 - 1));
       }},
      {"AViewThatADifferentArrayOwns", "write-after-read",
       [](Program& p) {
         const Array whole = Over(p.x);
         const Array even =
             Must(whole.SliceAxis(0, {std::nullopt, std::nullopt, 2}));
         const Array odd = Must((p.mended() ? whole : Over(p.x))
                                    .SliceAxis(0, {2, std::nullopt, 2}));
         const Array sum = [&] {
           const StreamGuard on_stream(p.a);
           return Must(Sum(even));
         }();
         {
           const StreamGuard on_stream(p.b);
           EXPECT_OK(odd.Fill(1.0F));
         }
         Fetch(sum);
       }},
  };
}

std::vector<Mistake> Kernels() {
  return {
      // numba/numba#5162
      {"AKernelReadsAnArrayWithoutAWait", "read-after-write",
       [](Program& p) {
         const Array array = Over(p.x);
         Increment(p.a, array);
         p.Mend([&] { EXPECT_OK(array.OrderBefore(p.b)); });
         p.Read(p.b, array.data());
       }},
      {"AKernelOverwritesWhatAnArrayReads", "write-after-read",
       [](Program& p) {
         const Array array = Over(p.x);
         const Array sum = [&] {
           const StreamGuard on_stream(p.a);
           return Must(Sum(array));
         }();
         p.Mend([&] { EXPECT_OK(array.OrderBefore(p.b)); });
         p.Write(p.b, array.data());
         Fetch(sum);
       }},
      {"AnArrayDoesNotKnowOfAKernel", "read-after-write",
       [](Program& p) {
         const Array array = Over(p.x);
         p.Write(p.b, array.data());
         p.Mend([&] { EXPECT_OK(array.NoteUse(p.b)); });
         Increment(p.a, array);
       }},
      {"AWriteIsNotedAsARead", "read-after-write",
       [](Program& p) {
         const Array array = Over(p.x);
         p.Write(p.b, array.data());
         EXPECT_OK(array.NoteUse(p.b, /*writes=*/p.mended()));
         const StreamGuard on_stream(p.a);
         Fetch(array);
       }},
      {"AnotherArrayIsToldOfTheKernel", "read-after-write",
       [](Program& p) {
         const Array array = Over(p.x);
         const Array other = Over(p.y);
         p.Write(p.b, array.data());
         EXPECT_OK((p.mended() ? array : other).NoteUse(p.b));
         Increment(p.a, array);
       }},
      {"TheGuardOfTheStreamIsTooLate", "read-after-write",
       [](Program& p) {
         const Array array = Over(p.x);
         Array sum = New(p.d);
         p.Write(p.a, p.x);
         p.Mend([&] {
           const StreamGuard on_stream(p.a);
           EXPECT_OK(AddInto(sum, array, array));
         });
         p.Fault([&] { EXPECT_OK(AddInto(sum, array, array)); });
         Fetch(sum);
       }},
  };
}

std::vector<Mistake> Exchanges() {
  return {
      // dmlc/dlpack#57
      {"AnExportWithoutOrder", "read-after-write",
       [](Program& p) {
         const Array array = New(p.d);
         Increment(p.a, array);
         DLPackExport how;
         how.stream =
             p.mended() ? reinterpret_cast<intptr_t>(Must(p.b.Native())) : -1;
         DLManagedTensorVersioned* const tensor = Must(ToDLPack(array, how));
         p.Read(p.b, tensor->dl_tensor.data);
         p.Sync(p.b);
         tensor->deleter(tensor);
       }},
      // pytorch/pytorch#57110
      {"AnImportOfAStreamThatHasNotWaited", "read-after-write",
       [](Program& p) {
         const Array theirs = Over(p.x);
         p.Write(p.b, p.x);  // the producer's work
         DLPackExport how;
         how.stream = -1;
         DLPackImport taken;
         taken.stream = p.a;
         p.Mend([&] { EXPECT_OK(p.a.Wait(p.b)); });
         const Array ours =
             Must(FromDLPack(Must(ToDLPack(theirs, how)), taken));
         Increment(p.a, ours);
       }},
      // numba/numba#5162
      {"AnInterfaceWithoutAStream", "read-after-write",
       [](Program& p) {
         p.Write(p.b, p.x);
         PointerOptions options;
         if (p.mended()) options.stream = p.b;
         const Array array =
             Must(Array::FromPointer(p.x, {kElements}, kFloat32, options));
         Increment(p.a, array);
       }},
      // pytorch/pytorch#86264
      {"ANonBlockingDownloadIsReadAtOnce", "read-after-write",
       [](Program& p) {
         std::vector<char> result(kBlock);
         const Array array = New(p.d);
         const StreamGuard on_stream(p.a);
         const Array host =
             Must(array.To(Place::Pinned(p.d), /*non_blocking=*/true));
         p.Mend([&] { EXPECT_OK(host.Ready()); });
         p.HostCopy(result.data(), host.data());
       }},
      // pytorch/pytorch#135794
      {"ANonBlockingUploadOfAnArrayThatChanges", "write-after-read",
       [](Program& p) {
         const std::vector<char> next(kBlock);
         const Array host = Ones(Place::Pinned(p.d));
         const StreamGuard on_stream(p.a);
         const Array array = Must(host.To(p.d, /*non_blocking=*/true));
         p.Mend([&] { EXPECT_OK(host.Ready()); });
         p.HostCopy(host.data(), next.data());
         Fetch(array);
       }},
      {"AKernelOfThePeerReadsACopyOfAnArray", "read-after-write",
       [](Program& p) {
         const Array array = Ones(p.d);
         const Array there = New(p.e);
         CopyOptions options;
         options.stream = p.a;
         EXPECT_OK(CopyArray(there, array, options));
         p.Mend([&] { EXPECT_OK(there.OrderBefore(p.f)); });
         p.Read(p.f, there.data());
       }},
      {"ASumIsFetchedByAnotherStream", "read-after-write",
       [](Program& p) {
         const StreamGuard on_stream(p.a);
         const Array sum = Must(Sum(Ones(p.d)));
         p.Mend([&] { EXPECT_OK(p.b.Wait(p.a)); });
         EXPECT_OK(devrt::Copy(p.b, p.NewPinned(), sum.data(), sum.nbytes()));
       }},
  };
}

}  // namespace

std::vector<Mistake> ArrayMistakes() {
  std::vector<Mistake> all;
  for (const auto& some : {Aliases(), Kernels(), Exchanges()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace devrt::testing
