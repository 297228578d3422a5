// SPDX-License-Identifier: Apache-2.0
//
// Mistakes that users and authors of public projects have reported, in the
// order of streams and events.  Each names its report.

#include <thread>

#include "tests/layers/validate_corpus.h"

namespace devrt::testing {
namespace {

constexpr uint64_t kLongTime = 1'000'000'000;  // nanoseconds

std::vector<Mistake> Events() {
  return {
      // torch/cutorch#222
      {"OneEventIsRecordedOnEachProducer", "read-after-write",
       [](Program& p) {
         Event& event = p.NewEvent(p.d);
         p.Write(p.a, p.x);
         EXPECT_OK(event.Record(p.a));
         p.Mend([&] { p.Wait(p.c, event); });
         p.Write(p.b, p.y);
         EXPECT_OK(event.Record(p.b));
         p.Wait(p.c, event);
         p.Read(p.c, p.x);
         p.Read(p.c, p.y);
       }},
      // cms-patatrack/pixeltrack-standalone#202
      {"TheFirstUserForgetsToRecord", "read-after-write",
       [](Program& p) {
         Event& uploaded = p.NewEvent(p.d);
         p.Copy(p.a, p.x, p.NewPinned());
         p.Mend([&] { EXPECT_OK(uploaded.Record(p.a)); });
         for (const StreamRef s : {p.b.ref(), p.c.ref()}) {
           p.Wait(s, uploaded);
           p.Read(s, p.x);
         }
       }},
      // chelsea0x3b/cudarc#561
      {"ThePeerCopyWaitsForItsOwnStream", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Wait(p.f, p.Record(p.mended() ? p.a : p.f));
         p.Copy(p.f, p.far, p.x);
       }},
      // Theano/libgpuarray#222
      {"AWriterWaitsForWritersOnly", "write-after-read",
       [](Program& p) {
         p.Write(p.a, p.x);
         Event& written = p.Record(p.a);
         p.Wait(p.b, written);
         p.Read(p.b, p.x);
         Event& read = p.Record(p.b);
         p.Wait(p.c, p.mended() ? read : written);
         p.Write(p.c, p.x);
       }},
      // rapidsai/rapidsmpf#519
      {"TheSourcesStreamDoesNotWaitForTheCopy", "write-after-read",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Wait(p.b, p.Record(p.a));
         p.Copy(p.b, p.y, p.x);
         p.Mend([&] { p.Wait(p.a, p.Record(p.b)); });
         p.Write(p.a, p.x);
       }},
      // vllm-project/vllm#46278
      {"AnOffloadReadsABlockThatIsBeingWritten", "read-after-write",
       [](Program& p) {
         char* const host = p.NewPinned();
         Event& computed = p.NewEvent(p.d);
         for (int step = 0; step < 3; ++step) {
           p.Write(p.a, p.x);
           // One event serves all steps.
           if (step == 0 || p.mended()) {
             EXPECT_OK(computed.Record(p.a));
           }
           p.Wait(p.b, computed);
           p.Copy(p.b, host, p.x);
           p.Wait(p.a, p.Record(p.b));
         }
       }},
      // smol-machines/smolvm#932
      {"APollThatIsAlwaysDone", "write-after-write",
       [](Program& p) {
         EXPECT_OK(Spin(p.a, kLongTime));
         p.Write(p.a, p.x);
         Event& done = p.Record(p.a);
         p.Mend([&] {
           while (!Must(done.Query())) {
           }
         });
         p.Write(p.b, p.x);
       }},
      // eyalroz/cuda-api-wrappers#226
      {"AnEventThatWasNeverRecordedIsDone", "read-after-write",
       [](Program& p) {
         Event& done = p.NewEvent(p.d);
         p.Write(p.a, p.x);
         p.Mend([&] { EXPECT_OK(done.Record(p.a)); });
         while (!Must(done.Query())) {
         }
         p.Read(p.b, p.x);
       }},
      // rapidsai/rapidsmpf#225
      {"TheBufferIsReadyWhenItsAllocationIs", "read-after-write",
       [](Program& p) {
         char* const host = p.NewPinned();
         Event& ready = p.NewEvent(p.d);
         p.Fault([&] { EXPECT_OK(ready.Record(p.a)); });
         p.Copy(p.a, p.x, host);
         p.Mend([&] { EXPECT_OK(ready.Record(p.a)); });
         while (!Must(ready.Query())) {
         }
         p.Copy(p.f, p.far, p.x);  // sends the buffer
       }},
      // NVIDIA/TransformerEngine#188
      {"TheMainStreamJoinsOneOfTheHelpers", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Wait(p.b, p.Record(p.a));
         p.Wait(p.c, p.Record(p.a));
         p.Update(p.b, p.x, kBlock / 2);
         p.Update(p.c, p.x + kBlock / 2, kBlock / 2);
         p.Wait(p.a, p.Record(p.b));
         p.Mend([&] { p.Wait(p.a, p.Record(p.c)); });
         p.Read(p.a, p.x);
       }},
      // facebookincubator/velox#16572
      {"TheLastDriverDoesNotJoinTheOthers", "read-after-write",
       [](Program& p) {
         StreamPool pool = Must(StreamPool::Create(p.d, 4));
         constexpr uint64_t kPart = kBlock / 4;
         for (uint64_t i = 0; i < pool.size(); ++i) {
           const StreamRef s = pool.Next();
           p.Write(s, p.x + i * kPart, kPart);
           if (i + 1 < pool.size() || p.mended()) p.Wait(p.a, p.Record(s));
         }
         p.Read(p.a, p.x);
       }},
  };
}

std::vector<Mistake> Pipelines() {
  return {
      // huggingface/pytorch-image-models#2784
      {"APrefetcherOverwritesTheBatchInUse", "write-after-read",
       [](Program& p) {
         for (int step = 0; step < 3; ++step) {
           p.Copy(p.b, p.x, p.NewPinned());  // prefetches
           p.Wait(p.a, p.Record(p.b));
           p.Read(p.a, p.x);  // trains
           p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         }
       }},
      // ByteDance-Seed/VeOmni#936
      {"ABatchIsUsedBeforeItsPrefetchIsComplete", "read-after-write",
       [](Program& p) {
         p.Copy(p.b, p.x, p.NewPinned());
         p.Mend([&] { EXPECT_OK(p.a.Wait(p.b)); });
         p.Update(p.a, p.x);
       }},
      // huggingface/blog#3372
      {"UploadComputeAndDownloadRunAtOnce", "read-after-write",
       [](Program& p) {
         char* const host = p.NewPinned();
         p.Copy(p.a, p.x, host);
         p.Wait(p.b, p.Record(p.a));
         p.Read(p.b, p.x);
         p.Write(p.b, p.y);
         p.Mend([&] { p.Wait(p.c, p.Record(p.b)); });
         p.Copy(p.c, p.NewPinned(), p.y);
       }},
      // pytorch/pytorch#106705
      {"APingPongBufferWaitsForTheOtherBuffer", "write-after-read",
       [](Program& p) {
         char* const buffers[] = {p.x, p.y};
         const StreamRef readers[] = {p.b, p.c};
         Event* used[2] = {};
         for (int layer = 0; layer < 4; ++layer) {
           const int i = layer % 2;
           if (layer >= 2) p.Wait(p.a, *used[p.mended() ? i : 1 - i]);
           p.Write(p.a, buffers[i]);  // gathers
           p.Wait(readers[i], p.Record(p.a));
           p.Read(readers[i], buffers[i]);  // computes
           used[i] = &p.Record(readers[i]);
         }
       }},
      // ExtremeFLOW/neko#2010
      {"SeveralStreamsUnpackBeforeTheGather", "read-after-write",
       [](Program& p) {
         p.Update(p.a, p.x);  // the local gather and scatter
         Event& local = p.Record(p.a);
         uint64_t part = 0;
         for (const StreamRef s : {p.b.ref(), p.c.ref()}) {
           p.Mend([&] { p.Wait(s, local); });
           p.Update(s, p.x + part * (kBlock / 2), kBlock / 2);
           ++part;
         }
       }},
      // NVIDIA/cudf#21094
      {"AReadOfTheHostTakesAStreamOfAPool", "read-after-write",
       [](Program& p) {
         StreamPool pool = Must(StreamPool::Create(p.d, 2));
         p.Write(p.a, p.x);
         const StreamRef s = pool.Next();
         p.Mend([&] { EXPECT_OK(s.Wait(p.a)); });
         EXPECT_OK(devrt::Copy(s, p.NewPinned(), p.x, kBlock));
       }},
      // PaddlePaddle/Paddle#51454
      {"TheHostWaitsForAnotherStreamThanTheCollectives", "read-after-write",
       [](Program& p) {
         p.Update(p.c, p.x);  // the collective
         p.Sync(p.mended() ? p.c : p.a);
         EXPECT_OK(devrt::Copy(p.a, p.NewPinned(), p.x, kBlock));
       }},
      // LBANN/lbann#355
      {"ACollectiveStartsBeforeItsInputIsThere", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Write(p.f, p.far);
         p.Mend([&] {
           p.Wait(p.c, p.Record(p.a));
           p.Wait(p.c, p.Record(p.f));
         });
         p.Copy(p.c, p.y, p.far);
         p.Update(p.c, p.x);
       }},
      // ROCm/pytorch#3612
      {"OneThreadCopiesForAllRanks", "read-after-write",
       [](Program& p) {
         p.Write(p.f, p.far);  // rank 1, on a stream of its own
         p.Mend([&] { p.Wait(p.a, p.Record(p.f)); });
         p.Copy(p.a, p.x, p.far);
         p.Wait(p.f, p.Record(p.a));
         p.Write(p.f, p.far);
       }},
      // ROCm/pytorch#3612
      {"ARankReadsItsResultTooEarly", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Copy(p.a, p.far, p.x);
         p.Mend([&] { p.Wait(p.f, p.Record(p.a)); });
         p.Update(p.f, p.far);
       }},
  };
}

std::vector<Mistake> DefaultStreams() {
  return {
      // NVIDIA/cudf#6580
      {"ACallWithoutItsStreamArgument", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         const StreamRef s = p.mended() ? p.a.ref() : DefaultStream(p.d);
         EXPECT_OK(devrt::Copy(s, p.NewPinned(), p.x, kBlock));
       }},
      // paiml/aprender#2767
      {"AnUploadInTheDefaultStream", "read-after-write",
       [](Program& p) {
         const StreamRef s = DefaultStream(p.d);
         p.Copy(s, p.x, p.NewPinned());
         p.Mend([&] { p.Sync(s); });
         p.Read(p.a, p.x);
       }},
      // NVIDIA/raft#3125
      {"AGeneratorWithoutAStream", "write-after-write",
       [](Program& p) {
         EXPECT_OK(FillAsync(p.a, p.x, 0, kBlock));
         p.Mend([&] { p.Write(p.a, p.x); });
         p.Fault([&] { p.Write(DefaultStream(p.d), p.x); });
         p.Read(p.a, p.x);
       }},
      // ROCm/rocm-systems#10229
      {"APeerCopyInTheDefaultStreamOfTheTarget", "read-after-write",
       [](Program& p) {
         p.Write(DefaultStream(p.d), p.x);
         p.Mend([&] { p.Sync(DefaultStream(p.d)); });
         p.Copy(DefaultStream(p.e), p.far, p.x);
       }},
      // NVIDIA/nccl#1976
      {"TheDefaultStreamOfAnotherThread", "read-after-write",
       [](Program& p) {
         std::thread worker([&] {
           const StreamRef s = Must(PerThreadDefaultStream(p.d));
           p.Write(s, p.x);
           p.Mend([&] { p.Sync(s); });
         });
         worker.join();
         const StreamRef own = Must(PerThreadDefaultStream(p.d));
         p.Sync(own);
         p.Read(own, p.x);
       }},
      // lupinemachines/lupine#569
      {"AnEventInTheDefaultStreamCoversBlockingStreamsOnly", "read-after-write",
       [](Program& p) {
         StreamOptions options;
         options.blocking = p.mended();
         const Stream worker = Must(Stream::Create(p.d, options));
         p.Write(worker, p.x);
         EXPECT_OK(p.Record(DefaultStream(p.d)).Synchronize());
         p.Read(p.a, p.x);
       }},
  };
}

}  // namespace

std::vector<Mistake> ReportMistakes() {
  std::vector<Mistake> all;
  for (const auto& some : {Events(), Pipelines(), DefaultStreams()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace devrt::testing
