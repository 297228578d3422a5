# SPDX-License-Identifier: Apache-2.0
"""Defects of copies and fills."""

from mutants import Mutant

STAGE = "  if (mode == kStaged && actual == DEVRT_COPY_H2D) {\n"
WAITS = """\
  const bool waits =
      mode == kSync || (mode == kStaged && actual == DEVRT_COPY_D2H);
"""

MUTANTS = [
    Mutant(
        name="fill_value_of_seven_bits",
        what="A fill drops the highest bit of its value.",
        witness="After a fill with 0xFF the bytes are 0x7F.",
        items="C47", group="fill", file="engine/execution.cc",
        old="static_cast<int>(op->value & 0xff)",
        new="static_cast<int>(op->value & 0x7f)"),
    Mutant(
        name="fill_in_words",
        what="A fill writes whole words of four bytes.",
        witness="The last byte of a range of 4,097 bytes is as before.",
        items="C47", group="fill", file="engine/execution.cc",
        old="    std::memset(to, static_cast<int>(op->value & 0xff), op->size);"
            "\n",
        new="    std::memset(to, static_cast<int>(op->value & 0xff),\n"
            "                op->size & ~uint64_t{3});\n"),
    Mutant(
        name="fill_waits",
        what="A fill waits until it is complete.",
        witness="Behind a closed gate the call does not return.",
        items="C47", group="fill", file="table/copy.cc",
        old="  op->value = value;\n  op->size = size;\n  g_machine->scheduler.Submit(op);\n"
            "  return nullptr;\n",
        new="  op->value = value;\n  op->size = size;\n  g_machine->scheduler.Submit(op);\n"
            "  return WaitForCopy(&submission);\n"),
    Mutant(
        name="fill_at_submission",
        what="A fill happens in the call that submits it.",
        witness="Behind a gate the memory has the new value already.",
        items="C47", group="fill", file="table/copy.cc",
        old="  Op* const op = submission.NewOp(OpKind::kFill, "
            "EngineClass::kCompute, \"fill\");\n",
        new="""\
  if (submission.ok()) {
    std::memset(to.local, static_cast<int>(value & 0xff), size);
    return nullptr;
  }
  Op* const op = submission.NewOp(OpKind::kFill, EngineClass::kCompute, "fill");
"""),
    Mutant(
        name="copy_in_words",
        what="A copy moves whole words of four bytes.",
        witness="The last byte of 4,097 does not arrive.",
        items="C54", group="copy", file="engine/execution.cc",
        old="    std::memcpy(to, op->scratch.data(), op->size);\n",
        new="    std::memcpy(to, op->scratch.data(), op->size & ~uint64_t{3});"
            "\n"),
    Mutant(
        name="large_copy_is_short",
        what="A copy ends after its first MiB.",
        witness="The end of a copy of 4 MiB does not arrive.",
        items="C54", group="copy", file="engine/execution.cc",
        old="  std::memmove(to, from, op->size);\n",
        new="  std::memmove(to, from, std::min<uint64_t>(op->size, 1u << 20))"
            ";\n"),
    Mutant(
        name="copy_at_submission",
        what="A copy happens in the call that submits it.",
        witness="Behind a gate the destination has the data already.",
        items="C54", group="copy", file="table/copy.cc",
        old="  if (actual == DEVRT_COPY_H2H) return CopyHost(&submission, dst, "
            "src, size);\n",
        new="""\
  if (actual == DEVRT_COPY_H2H) return CopyHost(&submission, dst, src, size);
  if (submission.ok()) {
    std::memmove(to.local, from.local, size);
    return nullptr;
  }
"""),
    Mutant(
        name="pinned_is_pageable",
        what="Pinned memory is not page-locked: copies with it wait.",
        witness="Behind a closed gate the call does not return.",
        items="C54", group="copy", file="table/copy.cc",
        old=WAITS,
        new="  const bool waits = mode == kSync || actual != DEVRT_COPY_D2D;\n"),
    Mutant(
        name="pinned_source_read_early",
        what="A copy from pinned memory reads it when it is submitted.",
        witness="Into pinned memory and from there on in one stream: what "
                "arrives is what was there before.",
        items="C54", group="copy", file="table/copy.cc",
        old=STAGE, new="  if (actual == DEVRT_COPY_H2D) {\n"),
    Mutant(
        name="source_read_late",
        what="With pageable_async=staged the source is read by the stream.",
        witness="A source that is overwritten after the return arrives "
                "overwritten.",
        items="C53", group="copy", file="table/copy.cc",
        config="pageable=staged",
        old=STAGE, new="  if (mode == kStaged && pageable && size == 0) {\n"),
    Mutant(
        name="pageable_copy_does_not_wait",
        what="With pageable_async=sync a copy returns before it is complete.",
        witness="Behind a delay the stream is busy after the return.",
        items="C53", group="copy", file="table/copy.cc",
        config="pageable=sync",
        old=WAITS,
        new="  const bool waits = mode == kStaged && actual == "
            "DEVRT_COPY_D2H;\n"),
    Mutant(
        name="copy_within_device_waits",
        what="A copy within a device waits until it is complete.",
        witness="Behind a closed gate the call does not return.",
        items="C51", group="copy", file="table/copy.cc",
        old=WAITS,
        new="  const bool waits =\n      mode == kSync || actual == "
            "DEVRT_COPY_D2D ||\n"
            "      (mode == kStaged && actual == DEVRT_COPY_D2H);\n"),
    Mutant(
        name="copy_lands_late",
        what="A copy to pinned memory is complete before the data is there.",
        witness="After a true query the host reads what was there before.",
        items="C37", group="event", file="engine/execution.cc",
        old="  if (op->staged || op->split) {\n    std::memcpy(",
        new="""\
  static std::byte* late_to = nullptr;
  static std::vector<std::byte> late;
  if (late_to != nullptr) std::memcpy(late_to, late.data(), late.size());
  late_to = nullptr;
  if (op->split && memory->Find(op->dst).space == Space::kPinned) {
    late_to = to;
    late = op->scratch;
    late.resize(op->size);
    return;
  }
  if (op->staged || op->split) {
    std::memcpy("""),
    Mutant(
        name="host_copy_does_not_drain",
        what="A copy within host memory does not wait for its stream.",
        witness="Behind a pending copy that writes its source it copies what "
                "was there before.",
        items="C52", group="copy", file="table/copy.cc",
        old="  if (devrt_status error = submission->call().Wait()) return error;"
            "\n  std::memmove(",
        new="  std::memmove("),
    Mutant(
        name="peer_copy_at_submission",
        what="A copy between devices happens in the call that submits it.",
        witness="Behind a gate the destination has the data already.",
        items="C57", group="copy", file="table/copy.cc",
        old="  const bool peer = dst_device != src_device;\n",
        new="""\
  if (submission.ok()) {
    std::memmove(to.local, from.local, size);
    return nullptr;
  }
  const bool peer = dst_device != src_device;
"""),
    Mutant(
        name="peer_copy_needs_access",
        what="A copy between devices is refused without peer access.",
        witness="The call fails while the peer is not enabled.",
        items="C58", group="copy", file="table/copy.cc",
        old="    // Staged through the host: one transfer after the other.\n",
        new="""\
    g_machine->scheduler.Recycle(op);
    return MakeError(DEVRT_FAILED_PRECONDITION, 705, "enable the peer first");
"""),
]
