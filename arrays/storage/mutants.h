// SPDX-License-Identifier: Apache-2.0
//
// Joins that tests leave out on purpose, to see that something fails without
// them (tests/arrays/order).  In the library itself all of this is nothing.

#ifndef DEVRT_ARRAYS_INTERNAL_MUTANTS_H_
#define DEVRT_ARRAYS_INTERNAL_MUTANTS_H_

namespace devrt::internal {

enum class Mutant {
  kNone,
  kReadIgnoresWrites,
  kWriteIgnoresWrites,
  kWriteIgnoresReads,
  kReadsAreForgotten,
  kWritesAreForgotten,
  kAllocationIsNoUse,
  kImportIsNoUse,
  kUsesEndWithTheStorage,
  kOwnerGoesAtOnce,
  kGraphsKeepNothing,
  kHostDoesNotWait,
  kPeerCopyIgnoresTarget,
  kPeerCopyIsNotAwaited,
  kCopyReturnsEarly,
  kAdoptedStreamsGetNoCheckpoint,
  kOperandsAreNotTouched,
  kResultsAreNotTouched,
  kReducedIsNotTouched,
  kExportDoesNotJoin,
  kHostConsumerDoesNotWait,
  kConsumersUseIsNotTold,
  kHomeConsumersAreForgotten,
  kEndedConsumersAreForgotten,
  kConsumersStreamsAreNotKept,
  kLostConsumersAreTrusted,
  kBorrowIsNoUse,
  kHomeBorrowsAreNoUse,
  kCaiImportDoesNotJoin,
  kOwnImportIsNoUse,
  kOwnImportForgetsItsConsumer,
  kLenderDoesNotWait,
  kRecordedUsesEndAtOnce,
  kDeallocationStreamDoesNotWait,
  kDeallocationStreamIgnoresHome,
  kEndedDeallocationStreamsAreForgotten,
  kCapturesHaveNoEdges,
};

#ifdef DEVRT_ARRAYS_MUTANTS
extern Mutant g_mutant;
inline bool Mutated(Mutant mutant) { return g_mutant == mutant; }
#else
constexpr bool Mutated(Mutant) { return false; }
#endif

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_INTERNAL_MUTANTS_H_
