# SPDX-License-Identifier: Apache-2.0
"""Defects of host functions."""

from mutants import Mutant

APPEND = "void Scheduler::Append(Op* op, StreamCore* s) {\n"
# Puts `op` in front of the stream's last operation, which has not begun.
IN_FRONT_OF_LAST = """\
    Op* before = s->head;
    while (before->next != last) before = before->next;
    before->next = op;
    op->next = last;
    op->seq = last->seq;
    op->id = ++last_op_id_;
    last->seq = ++s->issued;
    if (IsWork(op)) ++s->queued_work;
    ++history_->pending_ops;
    ++history_->progress;
    return;
  }
"""

MUTANTS = [
    Mutant(
        name="host_func_twice",
        what="A host function is called twice.",
        witness="A counter that it increments is 2.",
        items="C41", group="hostfunc", file="drivers/host_executor.cc",
        old="      op->host_func(op->arg, nullptr);\n    }\n    lock.lock();\n",
        new="      op->host_func(op->arg, nullptr);\n"
            "      op->host_func(op->arg, nullptr);\n    }\n    lock.lock();\n"),
    Mutant(
        name="host_func_at_submission",
        what="A host function is called by the call that submits it.",
        witness="It has run while its stream is behind a gate.",
        items="C41", group="hostfunc", file="table/stream.cc",
        old="  Op* const op =\n"
            "      submission.NewOp(OpKind::kHostFunc, EngineClass::kHost, "
            "\"host function\");\n",
        new="""\
  if (submission.ok()) {
    const UserCodeScope scope("a host function");
    fn(arg, nullptr);
    return nullptr;
  }
  Op* const op =
      submission.NewOp(OpKind::kHostFunc, EngineClass::kHost, "host function");
"""),
    Mutant(
        name="host_func_overtakes",
        what="A host function runs before the operation in front of it.",
        witness="Behind a gate and a copy it does not see what was copied.",
        items="C41", group="hostfunc", file="engine/scheduler.cc",
        old=APPEND,
        new=APPEND + """\
  Op* const last = s->tail;
  if (op->kind == OpKind::kHostFunc && last != s->head && IsWork(last)) {
""" + IN_FRONT_OF_LAST),
    Mutant(
        name="host_func_is_overtaken",
        what="An operation runs before the host function in front of it.",
        witness="Behind a gate the function sees what was copied behind it.",
        items="C41", group="hostfunc", file="engine/scheduler.cc",
        old=APPEND,
        new=APPEND + """\
  Op* const last = s->tail;
  if (IsWork(op) && last != s->head && last->kind == OpKind::kHostFunc) {
""" + IN_FRONT_OF_LAST),
    Mutant(
        name="host_func_dies_with_its_stream",
        what="Host functions of a stream that is destroyed never run.",
        witness="Behind a gate in a destroyed stream the count of calls stays "
                "0.",
        items="C41 C17", group="hostfunc", file="engine/scheduler.cc",
        old="  core->destroyed = true;\n",
        new="""\
  for (Op* op = core->head; op != nullptr; op = op->next) {
    if (op->kind == OpKind::kHostFunc) {
      op->host_func = [](void*, devrt_status) {};
    }
  }
  core->destroyed = true;
"""),
    Mutant(
        name="host_func_lost_by_fault",
        what="Host functions behind a fault never run.",
        witness="After the fault the count of calls stays 0.",
        items="C45", group="hostfunc", file="engine/scheduler.cc",
        old="\n  if (op->kind == OpKind::kHostFunc) {\n",
        new="\n  if (op->kind == OpKind::kHostFunc && fault.native_code == 0) {\n"),
    Mutant(
        name="host_func_not_told_of_fault",
        what="Host functions behind a fault run as if nothing had happened.",
        witness="The status that they get is OK.",
        items="C45", group="hostfunc", file="engine/deferred.cc",
        old="call.fault ? MakeFaultStatus(call.fault, \"host_func\")\n",
        new="call.fault ? nullptr\n"),
    Mutant(
        name="host_func_claimed",
        what="HOST_FUNC is claimed and not there.",
        witness="host_func is UNIMPLEMENTED.",
        items="C41", group="hostfunc", file="table/stream.cc",
        old="  op->host_func = fn;\n  op->arg = arg;\n  g_machine->scheduler.Submit(op);\n",
        new="  op->host_func = fn;\n  op->arg = arg;\n"
            "  g_machine->scheduler.Recycle(op);\n"
            "  return MakeError(DEVRT_UNIMPLEMENTED, 801, \"no host functions\")"
            ";\n"),
]
