# SPDX-License-Identifier: Apache-2.0
"""Joins, waits and uses of arrays' memory that are left out."""

from mutants import ArrayMutant, Edit

MUTANTS = [
    ArrayMutant(
        name="ReadIgnoresWrites",
        what="A read does not come after earlier writes of the memory.",
        programs=("ReadAfterWrite", "KernelReadsAfterWrite", "NotedUseIsJoined",
                  "EndedStreamIsJoined")),
    ArrayMutant(
        name="WriteIgnoresWrites",
        what="A write does not come after earlier writes of the memory.",
        programs=("WriteAfterWrite",)),
    ArrayMutant(
        name="WriteIgnoresReads",
        what="A write does not come after earlier reads of the memory.",
        programs=("WriteAfterRead", "PeerCopyJoinsBothSides")),
    ArrayMutant(
        name="ReadsAreForgotten",
        what="An operation does not note that it read the memory.",
        programs=("WriteAfterRead", "HostWritesPinnedAfterRead")),
    ArrayMutant(
        name="WritesAreForgotten",
        what="An operation does not note that it wrote the memory.",
        programs=("ReadAfterWrite", "OrderBeforeIsOrder")),
    ArrayMutant(
        name="AllocationIsNoUse",
        what="New memory does not come after what its stream did before.",
        programs=("AllocationComesAfterItsStream",)),
    ArrayMutant(
        name="ImportIsNoUse",
        what="Imported memory does not come after the stream that it came with.",
        programs=("ImportComesAfterItsStream",)),
    ArrayMutant(
        name="UsesEndWithTheStorage",
        what="Memory is given back before the operations that use it are over.",
        programs=("MemoryOutlivesItsUses", "PinnedMemoryOutlivesItsUses")),
    ArrayMutant(
        name="OwnerGoesAtOnce",
        what="The owner of imported memory is released before the operations "
             "that use the memory are over.",
        programs=("OwnerOutlivesItsUses",)),
    ArrayMutant(
        name="HostDoesNotWait",
        what="The host reads and writes memory that operations still use.",
        programs=("HostReadsPinnedAfterWrite", "HostWritesPinnedAfterRead")),
    ArrayMutant(
        name="PeerCopyIgnoresTarget",
        what="A copy between devices does not come after the other device's "
             "current stream.",
        programs=("PeerCopyComesAfterTheTarget",)),
    ArrayMutant(
        name="PeerCopyIsNotAwaited",
        what="The other device's current stream does not wait for a copy between "
             "devices.",
        programs=("PeerCopyComesBeforeTheTarget",)),
    ArrayMutant(
        name="CopyReturnsEarly",
        what="A copy to pageable memory returns before the bytes are there.",
        programs=("CopyToHostHasArrived",)),
    # Of exchanges, and of what the end of memory comes after.
    ArrayMutant(
        name="ExportDoesNotJoin",
        what="A consumer's stream does not come after the uses of the memory.",
        programs=("ConsumerComesAfterUses", "NoSyncConsumerComesAfterUses",
                  "BorrowerComesAfterUses", "CaiConsumerComesAfterUses")),
    ArrayMutant(
        name="HostConsumerDoesNotWait",
        what="A consumer on the host gets memory that operations still use.",
        programs=("HostConsumerComesAfterUses",)),
    ArrayMutant(
        name="ConsumersUseIsNotTold",
        what="The end of a DLPack tensor notes no use by its consumer.",
        programs=("ConsumersWriteIsJoined", "NoSyncConsumersWriteIsJoined",
                  "MemoryOutlivesItsConsumer", "MemoryOutlivesUnknownConsumers")),
    ArrayMutant(
        name="HomeConsumersAreForgotten",
        what="The end of a DLPack tensor notes no use by a consumer on the "
             "memory's own stream.",
        programs=("HomeConsumersWriteIsJoined",
                  "NoSyncHomeConsumersWriteIsJoined",
                  "OwnerOutlivesHomeConsumers")),
    ArrayMutant(
        name="EndedConsumersAreForgotten",
        what="The use by a consumer whose stream has ended is not noted.",
        programs=("EndedConsumersWriteIsJoined",)),
    ArrayMutant(
        name="ConsumersStreamsAreNotKept",
        what="An adopted stream of a consumer may end before its use is noted.",
        programs=("EndedAdoptedConsumersWriteIsJoined",
                  "MemoryOutlivesEndedAdoptedConsumers",
                  "MemoryOutlivesEndedAdoptedBorrowers",
                  "MemoryOutlivesEndedAdoptedCaiConsumers",
                  "HomeMemoryOutlivesEndedAdoptedConsumers",
                  "HomeMemoryOutlivesEndedAdoptedBorrowers")),
    ArrayMutant(
        name="LostConsumersAreTrusted",
        what="A consumer's stream that another library may have ended counts as "
             "one that lives.",
        programs=("MemoryOutlivesEndedUnownedConsumers",
                  "MemoryOutlivesEndedUnownedBorrowers")),
    ArrayMutant(
        name="BorrowIsNoUse",
        what="A stream that reads an interface is not noted as a consumer.",
        programs=("MemoryOutlivesBorrowers", "MemoryOutlivesCaiConsumers",
                  "MemoryOutlivesUnnamedCaiConsumers")),
    ArrayMutant(
        name="HomeBorrowsAreNoUse",
        what="The memory's own stream is not noted as a consumer, although the "
             "memory belongs to another library.",
        programs=("OwnerOutlivesHomeBorrowers",)),
    ArrayMutant(
        name="CaiImportDoesNotJoin",
        what="The current stream does not come after the stream of an imported "
             "CUDA Array Interface.",
        programs=("CaiImportComesAfterItsStream",)),
    ArrayMutant(
        name="OwnImportIsNoUse",
        what="A tensor of ours that comes back does not come after the stream "
             "that the caller names.",
        programs=("OwnTensorComesAfterItsStream",)),
    ArrayMutant(
        name="OwnImportForgetsItsConsumer",
        what="A tensor of ours that comes back does not come after the stream "
             "that it was exported to.",
        programs=("OwnTensorComesAfterItsConsumer",)),
    ArrayMutant(
        name="LenderDoesNotWait",
        what="The stream of a lender does not come after devrt's uses of its "
             "memory.",
        programs=("LenderComesAfterUses",)),
    ArrayMutant(
        name="RecordedUsesEndAtOnce",
        what="A recorded use ends with the call, not with the memory.",
        programs=("RecordedUseLastsUpToTheEnd",)),
    ArrayMutant(
        name="DeallocationStreamDoesNotWait",
        what="A chosen stream of deallocation does not come after the memory's "
             "own stream.",
        programs=("DeallocationStreamComesAfterHome",)),
    ArrayMutant(
        name="DeallocationStreamIgnoresHome",
        what="A chosen stream of deallocation does not come after consumers on "
             "the memory's own stream.",
        programs=("DeallocationStreamComesAfterBorrowers",)),
    ArrayMutant(
        name="EndedDeallocationStreamsAreForgotten",
        what="The work of a chosen stream of deallocation that has ended is not "
             "waited for.",
        programs=("EndedDeallocationStreamComesFirst",)),
    ArrayMutant(
        name="CapturesHaveNoEdges",
        what="Uses in one capture are not ordered by edges of its graph.",
        programs=("CapturedUsesAreEdges",)),
    ArrayMutant(
        name="GraphsKeepNothing",
        what="Memory goes back although a graph uses it.",
        programs=("MemoryOutlivesGraphs",)),
    ArrayMutant(
        name="AdoptedStreamsGetNoCheckpoint",
        what="A use on an adopted stream gets no event of its own.",
        programs=("AdoptedStreamsAreJoinedByEvents",)),
]

ORDER = "storage/storage_order.cc"
STORAGE = "storage/storage.cc"
END = "storage/storage_end.cc"
GRAPHS = "storage/storage_end_graphs.cc"
KEPT = "storage/storage_kept.cc"
KEEP = "KeptStream(stream)"

EDITS = [
    # Which uses an operation comes after, and what it notes.
    Edit(ORDER,
         old="    for (const StorageUse& use : t.storage->uses_.writes()) f(use);\n",
         new="    if (!(t.writes ? MUTATED(WriteIgnoresWrites)\n"
             "                   : MUTATED(ReadIgnoresWrites)))\n"
             "    for (const StorageUse& use : t.storage->uses_.writes()) f(use);\n"),
    Edit(ORDER,
         old="    if (!t.writes) continue;\n",
         new="    if (!t.writes || MUTATED(WriteIgnoresReads)) continue;\n"),
    Edit(ORDER,
         old="    if (after.handle() == nullptr) continue;\n",
         new="    if (after.handle() == nullptr) continue;\n"
             "    if (MUTATED(CapturesHaveNoEdges)) continue;\n"),
    Edit(ORDER,
         old="  std::optional<StorageUse> pending;\n",
         new="  std::optional<StorageUse> pending;\n"
             "  if (MUTATED(HostDoesNotWait)) return pending;\n"),
    Edit(ORDER,
         old="  if (use.timeline->NeedsEagerCheckpoints() && !use.captured()) {\n",
         new="  if (use.timeline->NeedsEagerCheckpoints() && !use.captured() &&\n"
             "      !MUTATED(AdoptedStreamsGetNoCheckpoint)) {\n"),
    Edit(ORDER,
         old="    if (ordered) {\n      t.storage->uses_.AddOrdered(",
         new="    if (t.writes ? MUTATED(WritesAreForgotten)\n"
             "                 : MUTATED(ReadsAreForgotten)) continue;\n"
             "    if (ordered) {\n      t.storage->uses_.AddOrdered("),
    # The beginning of memory.
    Edit(STORAGE,
         old="  if (base != nullptr) {\n    made->AddHomeUse(",
         new="  if (base != nullptr && !MUTATED(AllocationIsNoUse)) {\n"
             "    made->AddHomeUse("),
    Edit(STORAGE,
         old="borrowed.joined) made->AddLendersUse();",
         new="borrowed.joined &&\n"
             "      !MUTATED(ImportIsNoUse)) made->AddLendersUse();"),
    # Uses by other libraries.
    Edit(STORAGE,
         old="  MutexLock lock(&mutex_);\n  for (const OutsideUse& known : open_)",
         new="  if (MUTATED(RecordedUsesEndAtOnce)) return absl::OkStatus();\n"
             "  MutexLock lock(&mutex_);\n"
             "  for (const OutsideUse& known : open_)"),
    Edit(STORAGE,
         old=f"open_.emplace_back(stream, {KEEP})",
         new="open_.emplace_back(stream, MUTATED(ConsumersStreamsAreNotKept)\n"
             f"                                 ? KeptStream() : {KEEP})"),
    Edit(STORAGE,
         old="  if (home_ == stream && source_ == Source::kDevice &&\n"
             "      !KeptStream::MayOutlive(*stream.record())) {\n",
         new="  if (MUTATED(BorrowIsNoUse)) return absl::OkStatus();\n"
             "  if (home_ == stream && MUTATED(HomeBorrowsAreNoUse)) {\n"
             "    return absl::OkStatus();\n"
             "  }\n"
             "  if (home_ == stream && source_ == Source::kDevice &&\n"
             "      (MUTATED(ConsumersStreamsAreNotKept) ||\n"
             "       !KeptStream::MayOutlive(*stream.record()))) {\n"),
    Edit("storage/outside_use.cc",
         old="  return stream_.record()->kind == StreamKind::kExternal &&",
         new="  return !MUTATED(LostConsumersAreTrusted) &&\n"
             "         stream_.record()->kind == StreamKind::kExternal &&"),
    Edit("storage/outside_use.cc",
         old="  if (IsAnothers()) {\n",
         new="  if (IsAnothers() || MUTATED(EndedConsumersAreForgotten)) {\n"),
    Edit("exchange/dlpack_block.cc",
         old="    user_.emplace(*stream, KeptStream(*stream));\n",
         new="    user_.emplace(*stream, MUTATED(ConsumersStreamsAreNotKept)\n"
             "                               ? KeptStream()\n"
             "                               : KeptStream(*stream));\n"),
    Edit("exchange/dlpack_block.cc",
         old="  storage_->NoteOutsideUse(user_, writes_);\n",
         new="  if (MUTATED(ConsumersUseIsNotTold)) return;\n"
             "  if (MUTATED(HomeConsumersAreForgotten) &&\n"
             "      storage_->home_stream().has_value() &&\n"
             "      IsUser(*storage_->home_stream())) {\n"
             "    return;\n"
             "  }\n"
             "  storage_->NoteOutsideUse(user_, writes_);\n"),
    # Imports and exports.
    Edit("exchange/dlpack_import.cc",
         old="  if (named.has_value()) {\n"
             "    DEVRT_RETURN_IF_ERROR(storage.NoteUse(",
         new="  if (named.has_value() && !MUTATED(OwnImportIsNoUse)) {\n"
             "    DEVRT_RETURN_IF_ERROR(storage.NoteUse("),
    Edit("exchange/dlpack_import.cc",
         old="  if (!named.has_value() || !block->IsUser(*named)) block->NoteUse();\n",
         new="  if (MUTATED(OwnImportForgetsItsConsumer)) return absl::OkStatus();\n"
             "  if (!named.has_value() || !block->IsUser(*named)) block->NoteUse();\n"),
    Edit("exchange/cuda_array_interface.cc",
         old="  if (ordered) {\n",
         new="  if (ordered && !MUTATED(CaiImportDoesNotJoin)) {\n"),
    Edit("exchange/consumer_stream.cc",
         old="  if (!place.device().has_value()) return absl::OkStatus();\n"
             "  Storage& storage",
         new="  if (!place.device().has_value()) return absl::OkStatus();\n"
             "  if (MUTATED(HostConsumerDoesNotWait)) return absl::OkStatus();\n"
             "  Storage& storage"),
    Edit("exchange/consumer_stream.cc",
         old="  Storage& storage = *array.storage();\n"
             "  absl::Status ordered = storage.OrderBefore(",
         new="  if (MUTATED(ExportDoesNotJoin)) return absl::OkStatus();\n"
             "  Storage& storage = *array.storage();\n"
             "  absl::Status ordered = storage.OrderBefore("),
    # The end of memory.
    Edit(GRAPHS,
         old="  if (captured.empty()) {\n    end.GiveBack();",
         new="  if (captured.empty() || MUTATED(GraphsKeepNothing)) {\n"
             "    end.GiveBack();"),
    Edit(END,
         old="  Close(*deallocation_);\n",
         new="  if (!MUTATED(EndedDeallocationStreamsAreForgotten))\n"
             "  Close(*deallocation_);\n"),
    Edit(END,
         old="  for (const OutsideUse& open : open_) Close(open);\n",
         new="  if (MUTATED(UsesEndWithTheStorage)) {\n"
             "    uses_.clear();\n"
             "    open_.clear();\n"
             "  }\n"
             "  for (const OutsideUse& open : open_) Close(open);\n"),
    Edit(END,
         old="  if (deallocation_.has_value()) {\n    StorageUse use(",
         new="  if (deallocation_.has_value() &&\n"
             "      !MUTATED(DeallocationStreamIgnoresHome)) {\n"
             "    StorageUse use("),
    Edit(KEPT,
         old="  item.block = new Kept{std::move(release)};\n",
         new="  if (MUTATED(OwnerGoesAtOnce)) return release();\n"
             "  item.block = new Kept{std::move(release)};\n"),
    Edit(END,
         old="!use.late && !chosen.has_value()",
         new="!use.late && (!chosen.has_value() ||\n"
             "                       MUTATED(DeallocationStreamDoesNotWait))"),
    Edit(END,
         old="  OrderAfterCaptured(*home_);\n  OrderAfterUses(*home_);\n",
         new="  if (MUTATED(LenderDoesNotWait)) return;\n"
             "  OrderAfterCaptured(*home_);\n  OrderAfterUses(*home_);\n"),
    # Copies.
    Edit("copy/copy_steps.cc",
         old="  if (job.non_blocking && !step.pageable) return absl::OkStatus();\n",
         new="  if ((job.non_blocking && !step.pageable) ||\n"
             "      MUTATED(CopyReturnsEarly)) return absl::OkStatus();\n"),
    Edit("copy/copy_routes.cc",
         old="  if (!captured) step.after = WorkBefore(other);\n",
         new="  if (!captured && !MUTATED(PeerCopyIgnoresTarget))\n"
             "    step.after = WorkBefore(other);\n"),
    Edit("copy/copy_routes.cc",
         old="  if (captured) return absl::OkStatus();\n",
         new="  if (captured || MUTATED(PeerCopyIsNotAwaited)) {\n"
             "    return absl::OkStatus();\n  }\n"),
]
