// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/table/collective_submit.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "backends/mtia/engine/collective_cost.h"
#include "backends/mtia/engine/collective_data.h"
#include "backends/mtia/engine/collective_text.h"
#include "backends/mtia/engine/current_device.h"
#include "backends/mtia/engine/dependencies.h"
#include "backends/mtia/kernels/collective.h"
#include "backends/tensor/tensor.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

using internal::FaultClass;

// The element `i` of an array of structures, which may be shorter or longer
// than ours.
template <typename T>
T ReadElement(const T* first, uint32_t i) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(first);
  return devrt::plugin::ReadStruct(reinterpret_cast<const T*>(
      bytes + static_cast<size_t>(i) * first->struct_size));
}

// True if the operation is in place: src and dst begin at one address, or the
// one is this rank's part of the other, in parts of `part` bytes.
bool IsInPlace(const devrt_collective_v0& call, uint32_t rank, uint64_t part) {
  const auto* const src = static_cast<const std::byte*>(call.src);
  const auto* const dst = static_cast<const std::byte*>(call.dst);
  switch (call.op) {
    case DEVRT_COLLECTIVE_ALL_GATHER:
    case DEVRT_COLLECTIVE_GATHER:
      return src == dst + rank * part;
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
    case DEVRT_COLLECTIVE_SCATTER:
      return dst == src + rank * part;
    default:
      return src == dst;
  }
}

bool Overlap(const void* a, uint64_t a_size, const void* b, uint64_t b_size) {
  const auto first = reinterpret_cast<uintptr_t>(a);
  const auto second = reinterpret_cast<uintptr_t>(b);
  return a_size != 0 && b_size != 0 && first < second + b_size &&
         second < first + a_size;
}

std::string Hex(const void* ptr) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", ptr);
  return text;
}

// What is wrong with `call`, or an empty text.
std::string CheckKind(const devrt_collective_v0& call) {
  if (call.op >= DEVRT_COLLECTIVE_COUNT) {
    return "operation " + std::to_string(call.op) + " does not exist";
  }
  const std::string name = CollectiveName(call.op);
  if (tensor::DtypeSize(call.dtype) == 0) {
    return name + ": dtype " + std::to_string(call.dtype) + " does not exist";
  }
  if (HasReduction(call.op) &&
      FindRankFold(call.reduction, call.dtype) == nullptr) {
    return name + ": reduction " + std::to_string(call.reduction) +
           " does not exist for " + tensor::DtypeName(call.dtype);
  }
  if (call.flags != 0) {
    return name + ": unknown flags " + std::to_string(call.flags);
  }
  return "";
}

std::string CheckCall(const devrt_collective_v0& call, uint32_t ranks,
                      uint32_t rank) {
  std::string wrong = CheckKind(call);
  if (!wrong.empty()) return wrong;
  const std::string name = CollectiveName(call.op);
  if ((HasRoot(call.op) || IsPointToPoint(call.op)) &&
      (call.root_or_peer < 0 ||
       static_cast<uint32_t>(call.root_or_peer) >= ranks)) {
    return name + ": rank " + std::to_string(call.root_or_peer) +
           " does not exist; the communicator has " + std::to_string(ranks);
  }
  CollectiveSizes sizes;
  if (!SizesOf(call, ranks, rank, &sizes) ||
      sizes.src > UINTPTR_MAX - reinterpret_cast<uintptr_t>(call.src) ||
      sizes.dst > UINTPTR_MAX - reinterpret_cast<uintptr_t>(call.dst)) {
    return name + ": " + std::to_string(call.count) +
           " elements pass the end of memory";
  }
  if (sizes.src != 0 && call.src == nullptr) return name + ": src is NULL";
  if (sizes.dst != 0 && call.dst == nullptr) return name + ": dst is NULL";
  const uint64_t part = call.count * tensor::DtypeSize(call.dtype);
  if (Overlap(call.src, sizes.src, call.dst, sizes.dst) &&
      !IsInPlace(call, rank, part)) {
    return name + ": src " + Hex(call.src) + " of " +
           std::to_string(sizes.src) + " bytes and dst " + Hex(call.dst) +
           " of " + std::to_string(sizes.dst) +
           " bytes overlap, and are not in place";
  }
  return "";
}

// Declares what `op` reads and writes.
void AddRanges(Op* op, const Member& m) {
  CollectiveSizes sizes;
  SizesOf(m.call, static_cast<uint32_t>(m.comm->places.size()), m.rank, &sizes);
  if (sizes.src != 0) {
    auto* const src =
        const_cast<std::byte*>(static_cast<const std::byte*>(m.call.src));
    op->ranges.push_back({src, sizes.src, DEVRT_ACCESS_READ, kNever});
  }
  if (sizes.dst != 0) {
    op->ranges.push_back({static_cast<std::byte*>(m.call.dst), sizes.dst,
                          DEVRT_ACCESS_WRITE, kNever});
  }
}

}  // namespace

devrt_status CollectiveGroup::Read(const devrt_submission_v0* submissions,
                                   uint32_t count) {
  if (count != 0 && submissions == nullptr) {
    return InvalidArgument("the submissions are NULL");
  }
  for (uint32_t i = 0; i < count; ++i) {
    const devrt_submission_v0 given = ReadElement(submissions, i);
    Part& part = parts_.emplace_back();
    part.handle = given.comm;
    part.stream = given.stream;
    if (given.op_count != 0 && given.ops == nullptr) {
      return InvalidArgument("the operations are NULL");
    }
    for (uint32_t k = 0; k < given.op_count; ++k) {
      devrt_collective_v0 call = ReadElement(given.ops, k);
      // What the operation does not have is not compared.
      if (!HasReduction(call.op)) call.reduction = 0;
      if (!HasRoot(call.op) && !IsPointToPoint(call.op)) call.root_or_peer = 0;
      part.calls.push_back(call);
      if (given.sites == nullptr) continue;
      part.sites.push_back({given.sites[k].file, given.sites[k].line});
    }
  }
  return nullptr;
}

// Finds the communicators and streams of the parts.
devrt_status CollectiveGroup::Find() {
  for (Part& part : parts_) {
    devrt_status error = nullptr;
    part.comm = g_machine->collectives.Find(part.handle, &error);
    if (part.comm == nullptr) return error;
    const Stream* const stream = g_machine->streams.Find(part.stream, &error);
    if (stream == nullptr) return error;
    part.core = stream->core;
    error = g_machine->faults.StreamError(part.core, call_->entry());
    if (error == nullptr) error = g_machine->collectives.CheckReady(*part.comm);
    if (error != nullptr) return error;
  }
  return nullptr;
}

devrt_status CollectiveGroup::Check(const Part& part) const {
  const Comm& comm = *part.comm;
  const Place& place = *comm.place();
  if (place.revoked) {
    return MakeError(DEVRT_ABORTED, 0,
                     CommText(*comm.group) + ": it was revoked");
  }
  if (part.core->device != place.device) {
    return MakeError(DEVRT_INVALID_ARGUMENT, 400,
                     CommText(*comm.group) + ": the stream is of mtia:" +
                         std::to_string(part.core->device) + ", rank " +
                         std::to_string(comm.rank) +
                         " of mtia:" + std::to_string(place.device));
  }
  if (g_machine->config.strict_cuda && t_device != place.device) {
    return MakeError(
        DEVRT_INVALID_ARGUMENT, 400,
        "strict=cuda: the current device is mtia:" + std::to_string(t_device) +
            ", the stream's mtia:" + std::to_string(place.device));
  }
  const auto ranks = static_cast<uint32_t>(comm.group->places.size());
  for (const devrt_collective_v0& call : part.calls) {
    const std::string wrong = CheckCall(call, ranks, comm.rank);
    if (wrong.empty()) continue;
    return InvalidArgument(CommText(*comm.group) + ": " + wrong);
  }
  return nullptr;
}

// Waits until the stream has room.  Other threads may call devrt meanwhile.
devrt_status CollectiveGroup::MakeRoom(StreamCore* core) {
  const uint32_t depth = g_machine->config.queue_depth;
  while (depth != kUnlimited && core->queued_work >= depth) {
    const Op* oldest = core->head;
    while (!IsWork(oldest)) oldest = oldest->next;
    Points& want = call_->me()->want;
    want.clear();
    want.push_back({core, oldest->seq});
    if (devrt_status error = call_->Wait()) return error;
  }
  return nullptr;
}

devrt_status CollectiveGroup::Submit() {
  call_->NoteSite();
  if (devrt_status error = Find()) return error;
  for (const Part& part : parts_) {
    if (devrt_status error = Check(part)) return error;
  }
  if (g_machine->config.queue_depth != kUnlimited) {
    for (const Part& part : parts_) {
      if (devrt_status error = MakeRoom(part.core)) return error;
    }
    if (devrt_status error = Find()) return error;
  }
  for (const Part& part : parts_) {
    if (!g_machine->fault_rules.empty() &&
        g_machine->fault_rules.HitsRank(FaultClass::kSubmitFails,
                                        part.comm->rank)) {
      return MakeError(DEVRT_INTERNAL, 0,
                       CommText(*part.comm->group) +
                           ": injected: the submission of rank " +
                           std::to_string(part.comm->rank) + " failed");
    }
  }
  Enqueue();
  return nullptr;
}

// Groups of one rank run one after another, whatever their streams are.
void CollectiveGroup::OrderBehindLast(const std::vector<Op*>& ops) {
  for (Op* const op : ops) {
    for (const Member& m : op->part->members) {
      for (const Point& p : m.comm->places[m.rank].last) {
        if (p.stream != op->stream && !Done(p)) AddDep(op, p);
      }
    }
  }
  for (const Op* const op : ops) {
    for (const Member& m : op->part->members) {
      m.comm->places[m.rank].last.clear();
    }
  }
  for (const Op* const op : ops) {
    const Point point{op->stream, op->stream->issued + 1};
    for (const Member& m : op->part->members) {
      std::vector<Point>& last = m.comm->places[m.rank].last;
      const bool has = !last.empty() && last.back().stream == point.stream;
      if (!has) last.push_back(point);
    }
  }
}

void CollectiveGroup::Enqueue() {
  Machine* const machine = g_machine;
  std::vector<Op*> ops;
  std::vector<bool> has_slot(machine->config.devices);
  for (const Part& part : parts_) {
    const uint64_t number = HostStreamNumber(part.stream);
    if (number != 0) part.core->host_number = number;
    if (part.calls.empty()) continue;
    Op*& op = part.core->group_op;
    if (op == nullptr) {
      op = machine->scheduler.NewOp(OpKind::kCollective, part.core, call_->me(),
                                    CollectiveName(part.calls[0].op));
      op->engine = EngineClass::kCollective;
      op->part = machine->collectives.NewPart();
      op->part->op = op;
      op->shares_slot = has_slot[op->device];
      has_slot[op->device] = true;
      op->declared = op->split = true;
      ops.push_back(op);
    }
    for (size_t k = 0; k < part.calls.size(); ++k) {
      const devrt_collective_v0& call = part.calls[k];
      machine->collectives.AddMember(
          op->part, *part.comm, call,
          part.sites.empty() ? op->site : part.sites[k]);
      op->duration = std::max(
          op->duration,
          CollectiveCost(call, machine->config, part.comm->group.get()));
    }
  }
  const char* const label = CurrentSite().label;
  for (Op* const op : ops) {
    op->stream->group_op = nullptr;
    const std::vector<Member>& members = op->part->members;
    if (members.size() > 1) op->name = "group";
    if (label != nullptr) op->label = label;
    for (const Member& m : members) AddRanges(op, m);
    if (!machine->fault_rules.empty()) {
      op->part->late = machine->fault_rules.Lateness(members[0].rank);
    }
    op->duration += CollectiveSkew(*op, members[0].rank, machine->config);
  }
  OrderBehindLast(ops);
  call_->DecideAtEnd();
  for (Op* const op : ops) machine->scheduler.Submit(op);
}

}  // namespace devrt::mtia
