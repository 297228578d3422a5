// SPDX-License-Identifier: Apache-2.0
//
// For each join of the array layer a copy of it without that join, and the
// program that shows it.  This program has the array layer's ordering and
// copies compiled with DEVRT_ARRAYS_MUTANTS.

#include "arrays/storage/mutants.h"

#include <string>

#include "tests/arrays/order/arrays_fixture.h"
#include "tests/arrays/order/litmus.h"

namespace devrt::internal {
Mutant g_mutant = Mutant::kNone;
}  // namespace devrt::internal

namespace devrt::testing {
namespace {

using internal::Mutant;

struct Kill {
  const char* mutant;
  Mutant value;
  const char* program;
};

constexpr Kill kKills[] = {
    {"ReadIgnoresWrites", Mutant::kReadIgnoresWrites, "ReadAfterWrite"},
    {"ReadIgnoresWrites", Mutant::kReadIgnoresWrites, "KernelReadsAfterWrite"},
    {"ReadIgnoresWrites", Mutant::kReadIgnoresWrites, "NotedUseIsJoined"},
    {"ReadIgnoresWrites", Mutant::kReadIgnoresWrites, "EndedStreamIsJoined"},
    {"WriteIgnoresWrites", Mutant::kWriteIgnoresWrites, "WriteAfterWrite"},
    {"WriteIgnoresReads", Mutant::kWriteIgnoresReads, "WriteAfterRead"},
    {"WriteIgnoresReads", Mutant::kWriteIgnoresReads, "PeerCopyJoinsBothSides"},
    {"ReadsAreForgotten", Mutant::kReadsAreForgotten, "WriteAfterRead"},
    {"ReadsAreForgotten", Mutant::kReadsAreForgotten,
     "HostWritesPinnedAfterRead"},
    {"WritesAreForgotten", Mutant::kWritesAreForgotten, "ReadAfterWrite"},
    {"WritesAreForgotten", Mutant::kWritesAreForgotten, "OrderBeforeIsOrder"},
    {"AllocationIsNoUse", Mutant::kAllocationIsNoUse,
     "AllocationComesAfterItsStream"},
    {"ImportIsNoUse", Mutant::kImportIsNoUse, "ImportComesAfterItsStream"},
    {"UsesEndWithTheStorage", Mutant::kUsesEndWithTheStorage,
     "MemoryOutlivesItsUses"},
    {"UsesEndWithTheStorage", Mutant::kUsesEndWithTheStorage,
     "PinnedMemoryOutlivesItsUses"},
    {"OwnerGoesAtOnce", Mutant::kOwnerGoesAtOnce, "OwnerOutlivesItsUses"},
    {"HostDoesNotWait", Mutant::kHostDoesNotWait, "HostReadsPinnedAfterWrite"},
    {"HostDoesNotWait", Mutant::kHostDoesNotWait, "HostWritesPinnedAfterRead"},
    {"PeerCopyIgnoresTarget", Mutant::kPeerCopyIgnoresTarget,
     "PeerCopyComesAfterTheTarget"},
    {"PeerCopyIsNotAwaited", Mutant::kPeerCopyIsNotAwaited,
     "PeerCopyComesBeforeTheTarget"},
    {"CopyReturnsEarly", Mutant::kCopyReturnsEarly, "CopyToHostHasArrived"},
    // Of exchanges, and of what the end of memory comes after.
    {"ExportDoesNotJoin", Mutant::kExportDoesNotJoin, "ConsumerComesAfterUses"},
    {"ExportDoesNotJoin", Mutant::kExportDoesNotJoin,
     "NoSyncConsumerComesAfterUses"},
    {"ExportDoesNotJoin", Mutant::kExportDoesNotJoin, "BorrowerComesAfterUses"},
    {"ExportDoesNotJoin", Mutant::kExportDoesNotJoin,
     "CaiConsumerComesAfterUses"},
    {"HostConsumerDoesNotWait", Mutant::kHostConsumerDoesNotWait,
     "HostConsumerComesAfterUses"},
    {"ConsumersUseIsNotTold", Mutant::kConsumersUseIsNotTold,
     "ConsumersWriteIsJoined"},
    {"ConsumersUseIsNotTold", Mutant::kConsumersUseIsNotTold,
     "NoSyncConsumersWriteIsJoined"},
    {"ConsumersUseIsNotTold", Mutant::kConsumersUseIsNotTold,
     "MemoryOutlivesItsConsumer"},
    {"ConsumersUseIsNotTold", Mutant::kConsumersUseIsNotTold,
     "MemoryOutlivesUnknownConsumers"},
    {"HomeConsumersAreForgotten", Mutant::kHomeConsumersAreForgotten,
     "HomeConsumersWriteIsJoined"},
    {"HomeConsumersAreForgotten", Mutant::kHomeConsumersAreForgotten,
     "NoSyncHomeConsumersWriteIsJoined"},
    {"HomeConsumersAreForgotten", Mutant::kHomeConsumersAreForgotten,
     "OwnerOutlivesHomeConsumers"},
    {"EndedConsumersAreForgotten", Mutant::kEndedConsumersAreForgotten,
     "EndedConsumersWriteIsJoined"},
    {"ConsumersStreamsAreNotKept", Mutant::kConsumersStreamsAreNotKept,
     "EndedAdoptedConsumersWriteIsJoined"},
    {"ConsumersStreamsAreNotKept", Mutant::kConsumersStreamsAreNotKept,
     "MemoryOutlivesEndedAdoptedConsumers"},
    {"ConsumersStreamsAreNotKept", Mutant::kConsumersStreamsAreNotKept,
     "MemoryOutlivesEndedAdoptedBorrowers"},
    {"ConsumersStreamsAreNotKept", Mutant::kConsumersStreamsAreNotKept,
     "MemoryOutlivesEndedAdoptedCaiConsumers"},
    {"ConsumersStreamsAreNotKept", Mutant::kConsumersStreamsAreNotKept,
     "HomeMemoryOutlivesEndedAdoptedConsumers"},
    {"ConsumersStreamsAreNotKept", Mutant::kConsumersStreamsAreNotKept,
     "HomeMemoryOutlivesEndedAdoptedBorrowers"},
    {"LostConsumersAreTrusted", Mutant::kLostConsumersAreTrusted,
     "MemoryOutlivesEndedUnownedConsumers"},
    {"LostConsumersAreTrusted", Mutant::kLostConsumersAreTrusted,
     "MemoryOutlivesEndedUnownedBorrowers"},
    {"BorrowIsNoUse", Mutant::kBorrowIsNoUse, "MemoryOutlivesBorrowers"},
    {"BorrowIsNoUse", Mutant::kBorrowIsNoUse, "MemoryOutlivesCaiConsumers"},
    {"BorrowIsNoUse", Mutant::kBorrowIsNoUse,
     "MemoryOutlivesUnnamedCaiConsumers"},
    {"HomeBorrowsAreNoUse", Mutant::kHomeBorrowsAreNoUse,
     "OwnerOutlivesHomeBorrowers"},
    {"CaiImportDoesNotJoin", Mutant::kCaiImportDoesNotJoin,
     "CaiImportComesAfterItsStream"},
    {"OwnImportIsNoUse", Mutant::kOwnImportIsNoUse,
     "OwnTensorComesAfterItsStream"},
    {"OwnImportForgetsItsConsumer", Mutant::kOwnImportForgetsItsConsumer,
     "OwnTensorComesAfterItsConsumer"},
    {"LenderDoesNotWait", Mutant::kLenderDoesNotWait, "LenderComesAfterUses"},
    {"RecordedUsesEndAtOnce", Mutant::kRecordedUsesEndAtOnce,
     "RecordedUseLastsUpToTheEnd"},
    {"DeallocationStreamDoesNotWait", Mutant::kDeallocationStreamDoesNotWait,
     "DeallocationStreamComesAfterHome"},
    {"DeallocationStreamIgnoresHome", Mutant::kDeallocationStreamIgnoresHome,
     "DeallocationStreamComesAfterBorrowers"},
    {"EndedDeallocationStreamsAreForgotten",
     Mutant::kEndedDeallocationStreamsAreForgotten,
     "EndedDeallocationStreamComesFirst"},
    {"CapturesHaveNoEdges", Mutant::kCapturesHaveNoEdges,
     "CapturedUsesAreEdges"},
    {"GraphsKeepNothing", Mutant::kGraphsKeepNothing, "MemoryOutlivesGraphs"},
    {"AdoptedStreamsGetNoCheckpoint", Mutant::kAdoptedStreamsGetNoCheckpoint,
     "AdoptedStreamsAreJoinedByEvents"},
};

class ArrayMutants : public ArraysTest {};

// Whether the program is wrong in some schedule.
bool IsCaught(const Kill& kill) {
  const Litmus* program = nullptr;
  for (const Litmus& litmus : AllLitmus()) {
    if (std::string(litmus.name) == kill.program) program = &litmus;
  }
  if (program == nullptr) return false;
  bool caught = false;
  internal::g_mutant = kill.value;
  for (const char* schedule : {"hw", "alap", "lifo", "asap", "random,seed=1",
                               "random,seed=2", "random,seed=3"}) {
    MtiaTest::Reset(std::string("strategy=") + schedule);
    caught = !program->run();
    for (int i = 0; i < MtiaTest::kDevices; ++i) {
      Must(MtiaTest::dev(i).Synchronize());
    }
    if (caught) break;
  }
  internal::g_mutant = Mutant::kNone;
  return caught;
}

TEST_F(ArrayMutants, EachIsCaught) {
  for (const Kill& kill : kKills) {
    EXPECT_TRUE(IsCaught(kill)) << kill.mutant << " by " << kill.program;
  }
}

TEST_F(ArrayMutants, NoneIsNone) {
  for (const Litmus& litmus : AllLitmus()) {
    EXPECT_TRUE(litmus.run()) << litmus.name;
  }
}

}  // namespace
}  // namespace devrt::testing
