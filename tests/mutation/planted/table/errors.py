# SPDX-License-Identifier: Apache-2.0
"""Defects of what happens after a fault."""

from mutants import Mutant

DEVICE_ERROR = """\
  if (!fault) return nullptr;
  return MakeFaultStatus(fault, entry);
"""

MUTANTS = [
    Mutant(
        name="sticky_error_forgotten",
        what="A device's error is returned once and then forgotten.",
        witness="The second device_sync after a fault succeeds.",
        items="C93", group="error", file="engine/faults.cc",
        old=DEVICE_ERROR,
        new="""\
  if (!fault) return nullptr;
  static uint64_t told = 0;
  if ((told >> device & 1) != 0) return nullptr;
  told |= uint64_t{1} << device;
  return MakeFaultStatus(fault, entry);
"""),
    Mutant(
        name="fault_on_all_devices",
        what="A fault of one device is one of all, though fault_scope says "
             "device.",
        witness="Work on another device fails.",
        items="C95", group="error", file="engine/faults.cc",
        old="    if ((i != device && !fault.process) || devices_[i]) continue;\n",
        new="    if (devices_[i]) continue;\n"),
    Mutant(
        name="sync_swallows_fault",
        what="A wait that is released by a fault returns OK.",
        witness="Synchronising the stream of a fault that happens meanwhile "
                "succeeds.",
        items="C92", group="error", file="table/call.cc",
        old="  return g_machine->faults.PointsError(me_->want, entry());\n",
        new="  return nullptr;\n"),
    Mutant(
        name="query_never_ready_after_fault",
        what="Queries of a failed device answer that work still runs.",
        witness="The stream's query neither fails nor becomes true.",
        items="C92", group="error", file="engine/faults.cc",
        old="  if (fault) return MakeFaultStatus(fault, entry);\n"
            "  if (s->failed_from == kNever) return nullptr;\n",
        new="  if (fault && std::string(entry) == \"stream_query\") {\n"
            "    return nullptr;\n  }\n"
            "  if (fault) return MakeFaultStatus(fault, entry);\n"
            "  if (s->failed_from == kNever) return nullptr;\n"),
    Mutant(
        name="fault_has_wrong_code",
        what="An illegal address is reported as an unknown error.",
        witness="The code is UNKNOWN, not INTERNAL.",
        items="C92", group="error", file="common/error.cc",
        old="  {number, DEVRT_##status, lasting, #name},",
        new="  {number, number == 700 ? DEVRT_UNKNOWN : DEVRT_##status, lasting, "
            "#name},"),
    Mutant(
        name="fault_not_marked_sticky",
        what="A fault's status does not say that it is sticky.",
        witness="The error's origin lacks DEVRT_ERROR_STICKY.",
        items="C93", group="error", file="common/error.cc",
        old="  origin.flags = DEVRT_ERROR_STICKY | DEVRT_ERROR_ASYNC |\n",
        new="  origin.flags = DEVRT_ERROR_ASYNC |\n"),
    Mutant(
        name="fault_does_not_spread",
        what="Work of a healthy device that waits for an event of a failed one "
             "runs.",
        witness="Synchronising its stream succeeds.",
        items="C95", group="error", file="engine/scheduler.cc",
        old="    if (Failed(p) && op->next_dep < op->implicit) {\n",
        new="    if (Failed(p) && op->implicit == UINT32_MAX) {\n"),
    Mutant(
        name="fault_does_not_stop_the_stream",
        what="What stands behind a fault in its stream is carried out.",
        witness="Pinned memory has what a copy behind the fault wrote.",
        items="C92", group="error", file="engine/scheduler.cc",
        old="\n  if (op->kind == OpKind::kHostFunc) {\n",
        new="""
  if (op->kind == OpKind::kCopy) {
    execution_->Begin(op);
    static_cast<void>(execution_->End(op));
  }
  if (op->kind == OpKind::kHostFunc) {
"""),
]
