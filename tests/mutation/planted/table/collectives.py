# SPDX-License-Identifier: Apache-2.0
"""Defects of devrt.collectives/0."""

from mutants import Mutant

MUTANTS = [
    Mutant(
        name="average_of_real_parts",
        what="AVG divides the real part of complex numbers only.",
        witness="The imaginary part of an average is that of the sum.",
        items="K-C1", group="collectives", file="kernels/collective.cc",
        old="    return {sum.re / parts, sum.im / parts};\n",
        new="    return {sum.re / parts, sum.im};\n"),
    Mutant(
        name="in_place_gather_refused",
        what="An all_gather in place must begin at the address of its result.",
        witness="The part of rank 1 in its result is refused as an overlap.",
        items="K-C2", group="collectives", file="table/collective_submit.cc",
        old="      return src == dst + rank * part;\n",
        new="      return src == dst;\n"),
    Mutant(
        name="zero_elements_do_not_meet",
        what="An operation of no elements is left out.",
        witness="It does not wait for a rank that is late.",
        items="K-C2", group="collectives", file="table/collective_submit.cc",
        old="      part.calls.push_back(call);\n",
        new="      if (call.count != 0) part.calls.push_back(call);\n"),
    Mutant(
        name="broadcast_reads_late",
        what="A broadcast reads the root's memory when each rank ends.",
        witness="A rank gets what the root's stream wrote afterwards.",
        items="K-C3", group="collectives", file="engine/collective_data.cc",
        old="    Buffer to = NewBuffer(size);\n"
            "    std::memcpy(to.get(), from, size);\n    return to;\n",
        new="    static_cast<void>(size);\n"
            "    return Buffer(const_cast<std::byte*>(from), "
            "[](std::byte*) {});\n"),
    Mutant(
        name="group_takes_two_slots",
        what="Each stream of a group takes a slot of the device.",
        witness="A send and a receive on two streams wait for each other.",
        items="K-C5", group="collectives", file="table/collective_submit.cc",
        old="      op->shares_slot = has_slot[op->device];\n",
        new="      op->shares_slot = false;\n"),
    Mutant(
        name="second_submission_unchecked",
        what="Only the first submission of a group is checked.",
        witness="A group with a wrong operation is not refused.",
        items="K-C5", group="collectives", file="table/collective_submit.cc",
        old="    if (devrt_status error = Check(part)) return error;\n",
        new="    if (&part != &parts_.front()) break;\n"
            "    if (devrt_status error = Check(part)) return error;\n"),
    Mutant(
        name="root_behind_the_last",
        what="The root may be the number of ranks.",
        witness="Such a root is not refused.",
        items="K-C6", group="collectives", file="table/collective_submit.cc",
        old="       static_cast<uint32_t>(call.root_or_peer) >= ranks)) {\n",
        new="       static_cast<uint32_t>(call.root_or_peer) > ranks)) {\n"),
    Mutant(
        name="streams_of_a_rank_unordered",
        what="Operations of one rank on two streams may begin in any order.",
        witness="A later one takes the slot that an earlier one needs.",
        items="K-C7", group="collectives", file="table/collective_submit.cc",
        old="        if (p.stream != op->stream && !Done(p)) AddDep(op, p);\n",
        new="        if (p.stream == nullptr && !Done(p)) AddDep(op, p);\n"),
    Mutant(
        name="split_ignores_the_key",
        what="comm_split orders ranks as they are in the parent.",
        witness="The ranks of a child are not in the order of their keys.",
        items="K-C8", group="collectives", file="engine/communicators.cc",
        old="                       return calls.calls[a].key < "
            "calls.calls[b].key;\n",
        new="                       return calls.calls[a].key < "
            "calls.calls[b].key && false;\n"),
    Mutant(
        name="ready_too_early",
        what="A communicator is READY when all ranks but one have begun.",
        witness="It is not PENDING while a rank is missing.",
        items="K-C9", group="collectives", file="engine/communicators.cc",
        header="engine/communicator.h",
        old="return begun == places.size();",
        new="return begun + 1 >= places.size();"),
    Mutant(
        name="timeout_fails_one_rank",
        what="A timeout fails the rank whose operation waits, and no other.",
        witness="The rank that did not come has a READY communicator.",
        items="K-C10", group="collectives", file="engine/collectives.cc",
        old="    FailAll(m.comm.get(), DEVRT_DEADLINE_EXCEEDED, text);\n",
        new="    m.comm->places[m.rank].failure = "
            "{DEVRT_DEADLINE_EXCEEDED, text};\n"
            "    EndRank(m.comm.get(), m.rank);\n"),
    Mutant(
        name="abort_ends_nothing",
        what="comm_abort leaves operations that wait.",
        witness="The stream does not complete after it.",
        items="K-C11", group="collectives", file="engine/communicators.cc",
        old="  EndRank(comm->group.get(), comm->rank);\n}\n\n"
            "void Collectives::Revoke",
        new="}\n\nvoid Collectives::Revoke"),
    Mutant(
        name="shrink_without_abort",
        what="comm_shrink does not abort where it is asked to.",
        witness="What waited for the rank that is gone waits on.",
        items="K-C13", group="collectives", file="engine/communicators.cc",
        old='  if (aborts) Abort(comm, "was aborted by comm_shrink");\n',
        new=""),
    Mutant(
        name="reductions_not_compared",
        what="The ranks' reductions are not compared.",
        witness="A sum and a maximum meet without an error.",
        items="K-C14", group="collectives", file="engine/collectives.cc",
        old="         a.call.reduction == b.call.reduction &&\n",
        new=""),
    Mutant(
        name="finish_does_not_wait",
        what="comm_finish does not wait for operations.",
        witness="It is READY while an operation is behind a gate.",
        items="K-C16", group="collectives", file="engine/communicators.cc",
        old="    if (p.open != 0 || (!p.finishes && !p.destroyed)) "
            "*pending = true;\n",
        new="    if (!p.finishes && !p.destroyed) *pending = true;\n"),
    Mutant(
        name="begin_changes_the_device",
        what="comm_begin leaves its device as the current one.",
        witness="The current device is another one afterwards.",
        items="K-C18", group="collectives", file="table/collectives.cc",
        old="  Comm* comm = nullptr;\n  const std::string name(",
        new="  t_device = device;\n  Comm* comm = nullptr;\n"
            "  const std::string name("),
    Mutant(
        name="all_to_all_by_sender",
        what="all_to_all takes the part of the sender's number.",
        witness="Each rank gets the parts that the senders meant for "
                "themselves.",
        items="K-C19", group="collectives", file="engine/collective_data.cc",
        old="sources_[from] + r * part_, part_);",
        new="sources_[from] + from * part_, part_);"),
]
