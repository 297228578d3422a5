// SPDX-License-Identifier: Apache-2.0
//
// Mistakes with memory that an allocator gives out again, or that is freed in
// the order of a stream.  Most are from reports of public projects, which are
// named.

#include <memory>
#include <utility>
#include <vector>

#include "tests/layers/validate_corpus.h"

namespace devrt::testing {
namespace {

// A pool that forgets on which stream a block was freed.  `waits`: it records
// an event at each free, and the next owner's stream waits for the event.
class Pool final : public MemoryResource {
 public:
  Pool(Program* program, bool waits)
      : MemoryResource(program->d), program_(program), waits_(waits) {}

  MemoryProperties properties() const override { return {"pool"}; }

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& request) override {
    if (free_.empty()) return program_->NewBlock(device());
    const auto [block, freed] = free_.back();
    free_.pop_back();
    if (freed != nullptr) Program::Wait(request.stream, *freed);
    return block;
  }
  absl::Status DoDeallocate(const MemoryReturn& block) override {
    free_.emplace_back(block.pointer,
                       waits_ ? &program_->Record(block.stream) : nullptr);
    return absl::OkStatus();
  }

  Program* const program_;
  const bool waits_;
  std::vector<std::pair<void*, const Event*>> free_;
};

void* Taken(MemoryResource& from, StreamRef s) {
  return Must(from.Allocate(s, kBlock));
}

std::vector<Mistake> Pools() {
  return {
      // rapidsai/rmm#510
      {"APoolTakesABlockOfAnotherStream", "write-after-write",
       [](Program& p) {
         const auto pool = std::make_shared<Pool>(&p, p.mended());
         void* const first = Taken(*pool, p.a);
         p.Write(p.a, first);
         EXPECT_OK(pool->Deallocate(p.a, first, kBlock));
         void* const second = Taken(*pool, p.b);
         p.Write(p.b, second);
         EXPECT_OK(pool->Deallocate(p.b, second, kBlock));
       }},
      // rapidsai/rmm#649
      {"ANewStreamGetsTheBlocksOfTheOldOne", "write-after-write",
       [](Program& p) {
         const auto pool = std::make_shared<Pool>(&p, p.mended());
         const Flag gate = Must(Flag::Create(p.d));
         {
           const Stream old = Must(Stream::Create(p.d));
           void* const block = Taken(*pool, old);
           EXPECT_OK(gate.WaitOn(old));  // an allocation might wait for it
           p.Write(old, block);
           EXPECT_OK(pool->Deallocate(old, block, kBlock));
         }
         const Stream fresh = Must(Stream::Create(p.d));
         void* const block = Taken(*pool, fresh);
         p.Write(fresh, block);
         EXPECT_OK(pool->Deallocate(fresh, block, kBlock));
         EXPECT_OK(gate.Set());
         EXPECT_OK(p.d.Synchronize());
       }},
      // NVIDIA/Megatron-LM#5788
      {"ABucketIsFreedWithoutTheStreamThatComputes", "write-after-read",
       [](Program& p) {
         const auto pool = std::make_shared<Pool>(&p, true);
         void* const bucket = Taken(*pool, p.a);
         p.Write(p.a, bucket);  // gathers
         p.Wait(p.b, p.Record(p.a));
         p.Read(p.b, bucket);  // computes
         p.Mend([&] { p.Wait(p.a, p.Record(p.b)); });
         EXPECT_OK(pool->Deallocate(p.a, bucket, kBlock));
         void* const next = Taken(*pool, p.a);
         p.Write(p.a, next);
         EXPECT_OK(pool->Deallocate(p.a, next, kBlock));
       }},
      // meta-pytorch/torchrec#4231
      {"AStashedTensorIsGivenUpDuringItsDownload", "write-after-read",
       [](Program& p) {
         const auto pool = std::make_shared<Pool>(&p, true);
         void* const tensor = Taken(*pool, p.a);
         p.Write(p.a, tensor);
         p.Wait(p.b, p.Record(p.a));
         p.Copy(p.b, p.NewPinned(), tensor);
         // Freed on the stream that uses it last, in the mended program.
         EXPECT_OK(pool->Deallocate(p.mended() ? p.b : p.a, tensor, kBlock));
         void* const next = Taken(*pool, p.a);
         p.Write(p.a, next);
         EXPECT_OK(pool->Deallocate(p.a, next, kBlock));
       }},
      // tracel-ai/cubecl#1612
      {"ABackupLiesInTheSlabOfAReplay", "write-after-write",
       [](Program& p) {
         char* const slab = p.x;
         char* const backup = slab + (p.mended() ? kBlock / 2 : kBlock / 4);
         p.Copy(p.a, backup, p.y, kBlock / 4);
         p.Write(p.b, slab, kBlock / 2);  // a replay, with its own memory
       }},
      // pytorch/pytorch#23729
      {"AnOldPointerIsOfTheNewOwner", "read-after-write",
       [](Program& p) {
         void* const old = Must(AllocateMemory(p.a, kBlock));
         p.Write(p.a, old);
         p.Wait(p.b, p.Record(p.a));
         p.Mend([&] { p.Read(p.b, old); });
         EXPECT_OK(FreeMemory(old));
         void* const fresh = Must(AllocateMemory(p.a, kBlock));
         p.Write(p.a, fresh);
         p.Fault([&] { p.Read(p.b, old); });
         EXPECT_OK(FreeMemory(fresh));
       }},
  };
}

// Kernels that devrt does not enqueue: the allocator has to be told of them.
std::vector<Mistake> NativeKernels() {
  return {
      // pytorch/pytorch#18465
      {"ACollectiveIsNotRecorded", "free-while-used",
       [](Program& p) {
         void* const bucket = Must(AllocateMemory(p.a, kBlock));
         p.Write(p.a, bucket);
         p.Wait(p.b, p.Record(p.a));
         p.Native(p.b, ReadWrite(bucket, kBlock));
         p.Mend([&] { EXPECT_OK(RecordStream(bucket, p.b)); });
         EXPECT_OK(FreeMemory(bucket));
       }},
      // pytorch/pytorch#27366
      {"TheStreamIsRecordedForAnotherBlock", "free-while-used",
       [](Program& p) {
         char* const base =
             static_cast<char*>(Must(AllocateMemory(p.a, kBlock)));
         char* const other =
             static_cast<char*>(Must(AllocateMemory(p.a, kBlock)));
         p.Wait(p.b, p.Record(p.a));
         p.Native(p.b, Read(base + kBlock / 2, kBlock / 2));
         EXPECT_OK(RecordStream((p.mended() ? base : other) + kBlock / 2, p.b));
         EXPECT_OK(FreeMemory(base));
         EXPECT_OK(FreeMemory(other));
       }},
      // pytorch/pytorch#91096
      {"AnotherStreamIsRecorded", "free-while-used",
       [](Program& p) {
         void* const shard = Must(AllocateMemory(p.a, kBlock));
         p.Write(p.a, shard);
         p.Wait(p.b, p.Record(p.a));
         p.Native(p.b, Read(shard, kBlock));
         EXPECT_OK(RecordStream(shard, p.mended() ? p.b : p.c));
         EXPECT_OK(FreeMemory(shard));
       }},
      {"AFreedBlockIsUsedWhileTheAllocatorWaits", "use-after-free",
       [](Program& p) {
         void* const block = Must(AllocateMemory(p.a, kBlock));
         p.Wait(p.b, p.Record(p.a));
         EXPECT_OK(RecordStream(block, p.b));
         p.Native(p.b, Read(block, kBlock));
         p.Fault([&] { EXPECT_OK(FreeMemory(block)); });
         p.Native(p.a, Read(block, kBlock));
         p.Mend([&] { EXPECT_OK(FreeMemory(block)); });
       }},
      // pytorch/pytorch#168061
      {"TheFreeNamesAStreamThatHasNotWaited", "free-while-used",
       [](Program& p) {
         void* const gradient = Must(AllocateMemory(p.a, kBlock));
         p.Wait(p.b, p.Record(p.a));
         p.Native(p.b, Write(gradient, kBlock));
         p.Mend([&] { p.Wait(p.a, p.Record(p.b)); });
         EXPECT_OK(FreeMemory(gradient, p.a));
       }},
      // cupy/cupy#8068
      {"AnArrayEndsUnderAKernel", "free-while-used",
       [](Program& p) {
         const StreamGuard on_stream(p.a);
         const Array array = Must(Array::Zeros({1024}, kFloat32, p.d));
         EXPECT_OK(array.OrderBefore(p.b));
         p.Native(p.b, Read(array.data(), array.nbytes()));
         p.Mend([&] { EXPECT_OK(array.NoteUse(p.b, /*writes=*/false)); });
       }},
      // dmlc/dlpack#176
      {"AConsumerReleasesATensorTooEarly", "free-while-used",
       [](Program& p) {
         DLManagedTensorVersioned* tensor = nullptr;
         {
           const StreamGuard on_stream(p.a);
           const Array array = Must(Array::Zeros({1024}, kFloat32, p.d));
           EXPECT_OK(array.OrderBefore(p.b));
           DLPackExport how;
           how.stream =
               p.mended() ? reinterpret_cast<intptr_t>(Must(p.b.Native())) : -1;
           tensor = Must(ToDLPack(array, how));
         }
         p.Native(p.b, Write(tensor->dl_tensor.data, kBlock));
         tensor->deleter(tensor);
         // The next use of arrays frees the memory.
         static_cast<void>(Must(Array::Zeros({1}, kFloat32, p.d)));
       }},
      // cupy/cupy#8845
      {"APinnedBlockIsFreedUnderAKernel", "write-after-read",
       [](Program& p) {
         const std::vector<char> next(kBlock);
         void* const block = Must(AllocatePinned(p.d, kBlock));
         p.Native(p.b, Read(block, kBlock));
         p.Mend([&] { EXPECT_OK(RecordPinnedUse(block, p.b)); });
         EXPECT_OK(FreePinned(block));
         void* const fresh = Must(AllocatePinned(p.d, kBlock));
         p.HostCopy(fresh, next.data());
         EXPECT_OK(FreePinned(fresh));
       }},
  };
}

std::vector<Mistake> StreamOrder() {
  return {
      // rapidsai/rmm#2448
      {"AnAllocationThatSeemsSynchronousIsNot", "use-before-allocation",
       [](Program& p) {
         const auto driver = Must(DriverResource(p.d));
         void* const block = Taken(*driver, DefaultStream(p.d));
         p.Mend([&] { p.Sync(DefaultStream(p.d)); });
         p.Write(p.a, block);
         p.Sync(p.a);
         EXPECT_OK(driver->Deallocate(DefaultStream(p.d), block, kBlock));
       }},
      // NVIDIA/cudf#17074
      {"AReaderOfFilesTakesAStreamOfItsOwn", "use-before-allocation",
       [](Program& p) {
         const auto driver = Must(DriverResource(p.d));
         void* const block = Taken(*driver, p.a);
         p.Mend([&] { p.Sync(p.a); });
         p.Copy(p.b, block, p.NewPinned());
         p.Sync(p.b);
         EXPECT_OK(driver->Deallocate(p.a, block, kBlock));
       }},
      // rapidsai/rmm#2080
      {"ABufferChangesItsStreamTooEarly", "free-while-used",
       [](Program& p) {
         Buffer buffer =
             Must(Buffer::Allocate(Must(DriverResource(p.d)), p.a, kBlock));
         p.Write(p.a, buffer.data());
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         EXPECT_OK(buffer.SetStream(p.b));
       }},
      // rapidsai/rmm#370
      {"AFreeOnTheDefaultStream", "free-while-used",
       [](Program& p) {
         const auto driver = Must(DriverResource(p.d));
         void* const block = Taken(*driver, p.a);
         p.Read(p.a, block);
         EXPECT_OK(driver->Deallocate(
             p.mended() ? p.a.ref() : DefaultStream(p.d), block, kBlock));
       }},
      {"ABlockIsUsedAfterItsAsyncFree", "use-after-free",
       [](Program& p) {
         const auto driver = Must(DriverResource(p.d));
         void* const block = Taken(*driver, p.a);
         p.Mend([&] { p.Write(p.a, block); });
         EXPECT_OK(driver->Deallocate(p.a, block, kBlock));
         p.Fault([&] { p.Write(p.a, block); });
       }},
      {"ABlockIsUsedAfterAFreeThatTheHostHasSeen", "use-after-free",
       [](Program& p) {
         const auto driver = Must(DriverResource(p.d));
         void* const block = Taken(*driver, p.a);
         p.Sync(p.a);
         p.Mend([&] { p.Write(p.b, block); });
         p.Mend([&] { p.Sync(p.b); });
         EXPECT_OK(driver->Deallocate(p.a, block, kBlock));
         p.Sync(p.a);
         p.Fault([&] { p.Write(p.b, block); });
       }},
      // NVIDIA/warp#1419
      {"AFreeDoesNotComeAfterTheForkedStream", "free-while-used",
       [](Program& p) {
         const auto driver = Must(DriverResource(p.d));
         p.Wait(p.b, p.Record(p.a));  // forks
         void* const block = Taken(*driver, p.b);
         p.Write(p.b, block);
         EXPECT_OK(driver->Deallocate(p.mended() ? p.b : p.a, block, kBlock));
         p.Wait(p.a, p.Record(p.b));  // joins
         p.Sync(p.a);
       }},
      // rapidsai/rmm#1655
      {"TheMemoryOfACallIsFreedUnderItsKernel", "free-while-used",
       [](Program& p) {
         const auto call = [&] {
           void* const scratch = Must(Allocate(p.d, kBlock));
           p.Write(p.a, scratch);
           p.Copy(p.a, p.x, scratch);
           p.Mend([&] { p.Sync(p.a); });
           EXPECT_OK(Free(p.d, scratch));
         };
         call();
         call();
       }},
      {"ADeviceReadsMemoryThatItsPeerFrees", "free-while-used",
       [](Program& p) {
         void* const block = Must(Allocate(p.d, kBlock));
         p.Write(p.a, block);
         p.Wait(p.f, p.Record(p.a));
         p.Copy(p.f, p.far, block);
         p.Sync(p.a);  // not the stream that copies
         p.Mend([&] { p.Sync(p.f); });
         EXPECT_OK(Free(p.d, block));
       }},
  };
}

}  // namespace

std::vector<Mistake> AllocatorMistakes() {
  std::vector<Mistake> all;
  for (const auto& some : {Pools(), NativeKernels(), StreamOrder()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace devrt::testing
