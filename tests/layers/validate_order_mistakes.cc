// SPDX-License-Identifier: Apache-2.0
//
// Mistakes in the order of streams, events and host waits.

#include "tests/layers/validate_corpus.h"

namespace devrt::testing {

std::vector<Mistake> OrderMistakes() {
  return {
      {"AReaderDoesNotWait", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Read(p.b, p.x);
       }},
      {"AWriterDoesNotWaitForTheReader", "write-after-read",
       [](Program& p) {
         p.Read(p.a, p.x);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Write(p.b, p.x);
       }},
      {"TwoWriters", "write-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Write(p.b, p.x);
       }},
      {"TheEventIsRecordedTooEarly", "read-after-write",
       [](Program& p) {
         Event& event = p.NewEvent(p.d);
         p.Fault([&] { EXPECT_OK(event.Record(p.a)); });
         p.Write(p.a, p.x);
         p.Mend([&] { EXPECT_OK(event.Record(p.a)); });
         p.Wait(p.b, event);
         p.Read(p.b, p.x);
       }},
      {"TheWaitComesBeforeTheRecord", "read-after-write",
       [](Program& p) {
         Event& event = p.NewEvent(p.d);
         p.Write(p.a, p.x);
         p.Fault([&] { p.Wait(p.b, event); });
         EXPECT_OK(event.Record(p.a));
         p.Mend([&] { p.Wait(p.b, event); });
         p.Read(p.b, p.x);
       }},
      {"TheWaitComesBehindTheRead", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         Event& event = p.Record(p.a);
         p.Mend([&] { p.Wait(p.b, event); });
         p.Read(p.b, p.x);
         p.Fault([&] { p.Wait(p.b, event); });
       }},
      {"TheEventIsOfAnotherStream", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Wait(p.b, p.Record(p.mended() ? p.a : p.c));
         p.Read(p.b, p.x);
       }},
      {"AnotherStreamWaits", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Wait(p.mended() ? p.b : p.c, p.Record(p.a));
         p.Read(p.b, p.x);
       }},
      {"TheEventIsRecordedAgainElsewhere", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         Event& event = p.Record(p.a);
         p.Fault([&] { EXPECT_OK(event.Record(p.c)); });
         p.Wait(p.b, event);
         p.Read(p.b, p.x);
       }},
      {"ALoopWaitsForTheFirstRoundOnly", "read-after-write",
       [](Program& p) {
         Event& event = p.NewEvent(p.d);
         for (int round = 0; round < 3; ++round) {
           if (round > 0) p.Wait(p.a, p.Record(p.b));
           p.Write(p.a, p.x);
           if (round == 0 || p.mended()) {
             EXPECT_OK(event.Record(p.a));
           }
           p.Wait(p.b, event);
           p.Read(p.b, p.x);
         }
       }},
      {"ADoubleBufferIsFilledBeforeItsReader", "write-after-read",
       [](Program& p) {
         char* const buffers[] = {p.x, p.y};
         Event* read[2] = {};
         for (int round = 0; round < 4; ++round) {
           const int i = round % 2;
           if (read[i] != nullptr && p.mended()) p.Wait(p.a, *read[i]);
           p.Write(p.a, buffers[i]);
           p.Wait(p.b, p.Record(p.a));
           p.Read(p.b, buffers[i]);
           read[i] = &p.Record(p.b);
         }
       }},
      {"OneOfTwoProducersIsForgotten", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Write(p.b, p.y);
         p.Wait(p.c, p.Record(p.a));
         p.Mend([&] { p.Wait(p.c, p.Record(p.b)); });
         p.Read(p.c, p.x);
         p.Read(p.c, p.y);
       }},
      {"OneOfTwoConsumersIsForgotten", "write-after-read",
       [](Program& p) {
         p.Read(p.a, p.x);
         p.Read(p.b, p.x);
         p.Wait(p.c, p.Record(p.a));
         p.Mend([&] { p.Wait(p.c, p.Record(p.b)); });
         p.Write(p.c, p.x);
       }},
      {"OrderIsNotPassedOnBackwards", "read-after-write",
       [](Program& p) {
         // c waits for b, which did not yet wait for a.
         p.Write(p.a, p.x);
         p.Fault([&] { p.Wait(p.c, p.Record(p.b)); });
         p.Wait(p.b, p.Record(p.a));
         p.Mend([&] { p.Wait(p.c, p.Record(p.b)); });
         p.Read(p.c, p.x);
       }},
      {"OverlappingHalves", "write-after-write",
       [](Program& p) {
         p.Write(p.a, p.x, kBlock / 2 + (p.mended() ? 0 : 1));
         p.Write(p.b, p.x + kBlock / 2, kBlock / 2);
       }},
      {"AnUpdateInTwoStreams", "read-after-write",
       [](Program& p) {
         p.Update(p.a, p.x);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Update(p.b, p.x);
       }},
      {"ACopyWithinADeviceDoesNotWait", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         p.Copy(p.b, p.y, p.x);
       }},
      {"AFillDoesNotWaitForTheCopy", "write-after-read",
       [](Program& p) {
         p.Copy(p.a, p.y, p.x);
         p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
         EXPECT_OK(FillAsync(p.b, p.x, 0, kBlock));
       }},
      {"APeerCopyWithoutAnEvent", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Mend([&] { p.Wait(p.f, p.Record(p.a)); });
         p.Copy(p.f, p.far, p.x);
       }},
      {"TheTargetOfAPeerCopyIsReadTooEarly", "read-after-write",
       [](Program& p) {
         p.Copy(p.a, p.far, p.x);
         p.Mend([&] { p.Wait(p.f, p.Record(p.a)); });
         p.Read(p.f, p.far);
       }},
      {"TheSourceOfAPeerCopyIsWrittenTooEarly", "write-after-read",
       [](Program& p) {
         p.Copy(p.f, p.far, p.x);
         p.Mend([&] { p.Wait(p.a, p.Record(p.f)); });
         p.Write(p.a, p.x);
       }},
      {"ANonBlockingStreamTrustsTheDefaultStream", "read-after-write",
       [](Program& p) {
         p.Write(DefaultStream(p.d), p.x);
         p.Mend([&] { p.Wait(p.a, p.Record(DefaultStream(p.d))); });
         p.Read(p.a, p.x);
       }},
      {"TheDefaultStreamTrustsANonBlockingStream", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Mend([&] { p.Wait(DefaultStream(p.d), p.Record(p.a)); });
         p.Read(DefaultStream(p.d), p.x);
       }},
      {"TwoBlockingStreamsWithoutLegacyWork", "read-after-write",
       [](Program& p) {
         const Stream s = Program::Blocking(p.d);
         const Stream t = Program::Blocking(p.d);
         p.Write(s, p.x);
         p.Mend([&] { p.Read(DefaultStream(p.d), p.y); });
         p.Read(t, p.x);
         p.Sync(t);
       }},
      {"DefaultStreamsOfTwoDevices", "read-after-write",
       [](Program& p) {
         p.Copy(DefaultStream(p.d), p.far, p.x);
         p.Mend(
             [&] { p.Wait(DefaultStream(p.e), p.Record(DefaultStream(p.d))); });
         p.Read(DefaultStream(p.e), p.far);
       }},
      {"TheHostWaitsForAnotherStream", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Sync(p.mended() ? p.a : p.c);
         p.Read(p.b, p.x);
       }},
      {"TheHostWaitsForAnotherDevice", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         EXPECT_OK((p.mended() ? p.d : p.e).Synchronize());
         p.Read(p.b, p.x);
       }},
      {"AnAnswerOfNotReadyIsIgnored", "read-after-write",
       [](Program& p) {
         EXPECT_OK(Spin(p.a, 1'000'000'000));
         p.Write(p.a, p.x);
         const Event& event = p.Record(p.a);
         if (p.mended()) {
           while (!Must(event.Query())) {
           }
         } else {
           EXPECT_OK(event.Query());
         }
         p.Read(p.b, p.x);
       }},
      {"AHostFunctionIsNoWait", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         EXPECT_OK(LaunchHostFunc(p.a, [](absl::Status) {}));
         p.Mend([&] { p.Sync(p.a); });
         p.Read(p.b, p.x);
       }},
      {"AStreamThatIsGoneIsNotComplete", "read-after-write",
       [](Program& p) {
         {
           const Stream gone = Must(Stream::Create(p.d));
           p.Write(gone, p.x);
           p.Mend([&] { p.Wait(p.b, p.Record(gone)); });
         }
         p.Read(p.b, p.x);
       }},
      {"AnEventThatIsGoneBeforeTheWait", "read-after-write",
       [](Program& p) {
         p.Write(p.a, p.x);
         {
           const Event event = Must(Event::Create(p.d));
           EXPECT_OK(event.Record(p.a));
           p.Mend([&] { p.Wait(p.b, event); });
         }
         p.Read(p.b, p.x);
       }},
  };
}

}  // namespace devrt::testing
