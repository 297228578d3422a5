// SPDX-License-Identifier: Apache-2.0
//
// Operations in which several ranks take part.  Each rank's part reads its
// source before it meets the others, and writes its result afterwards.
#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "layers/validate/validator.h"

namespace devrt::race {
namespace {

using Lock = std::lock_guard<FindingsMutex>;

constexpr uint64_t kBitsPerByte = 8;

const char* NameOf(uint32_t op) {
  constexpr const char* kNames[] = {
      "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
      "all_to_all", "gather", "scatter",   "send",       "recv"};
  return op < DEVRT_COLLECTIVE_COUNT ? kNames[op] : "collective";
}

struct Sizes {
  uint64_t src = 0;
  uint64_t dst = 0;
};

Sizes SizesOf(const devrt_collective_v0& call, uint32_t ranks, uint32_t rank) {
  const uint64_t part = call.count * ((call.dtype & 0xff) / kBitsPerByte);
  const uint64_t all = part * ranks;
  const bool is_root = static_cast<uint32_t>(call.root_or_peer) == rank;
  switch (call.op) {
    case DEVRT_COLLECTIVE_ALL_REDUCE:
      return {part, part};
    case DEVRT_COLLECTIVE_REDUCE:
      return {part, is_root ? part : 0};
    case DEVRT_COLLECTIVE_BROADCAST:
      return {is_root ? part : 0, part};
    case DEVRT_COLLECTIVE_ALL_GATHER:
      return {part, all};
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
      return {all, part};
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
      return {all, all};
    case DEVRT_COLLECTIVE_GATHER:
      return {part, is_root ? all : 0};
    case DEVRT_COLLECTIVE_SCATTER:
      return {is_root ? all : 0, part};
    case DEVRT_COLLECTIVE_SEND:
      return {part, 0};
    case DEVRT_COLLECTIVE_RECV:
      return {0, part};
    default:  // the backend refuses it
      return {};
  }
}

void Add(const void* ptr, uint64_t size, Mode mode,
         std::vector<MemoryAccess>* accesses) {
  if (size == 0) return;
  MemoryAccess access = {reinterpret_cast<uint64_t>(ptr), size, mode};
  access.by_kernel = true;
  accesses->push_back(access);
}

}  // namespace

void Validator::BeginComm(DeviceKey device0, devrt_comm comm, const void* id,
                          uint64_t size, uint32_t ranks, uint32_t rank) {
  const Lock lock(mutex_);
  meetings_.Begin(comm,
                  std::to_string(device0) + " " +
                      std::string(static_cast<const char*>(id), size),
                  ranks, rank);
}

Meetings::Taken Validator::TakeComm(devrt_comm comm) {
  const Lock lock(mutex_);
  return meetings_.Take(comm);
}

void Validator::EndComm(devrt_comm comm, Meetings::Taken taken, bool accepted) {
  const Lock lock(mutex_);
  if (accepted) {
    meetings_.Destroy(taken,
                      [this](uint64_t flag) { detector_.RemoveFlag(flag); });
  } else {
    meetings_.PutBack(comm, std::move(taken));
  }
}

Meetings::Child Validator::SplitComm(devrt_comm comm, int32_t color,
                                     int32_t key) {
  const Lock lock(mutex_);
  return meetings_.Split(comm, color, key);
}

Meetings::Child Validator::ShrinkComm(devrt_comm comm, const uint32_t* gone,
                                      uint32_t count) {
  const Lock lock(mutex_);
  return meetings_.Shrink(comm, gone, count);
}

void Validator::EndChild(const Meetings::Child& child, devrt_comm comm,
                         bool accepted) {
  const Lock lock(mutex_);
  if (accepted) {
    meetings_.AddChild(child, comm);
  } else {
    meetings_.Refused(child);
  }
}

std::string Validator::EnqueueGroup(const std::vector<Caller>& callers,
                                    std::vector<Collectives>* group) {
  // What one submission does behind the meetings.
  struct Rest {
    const Collectives* of = nullptr;
    Call call;
    Actor actor = kNoActor;
    OpId op;
    std::vector<MemoryAccess> writes;
  };
  const Lock lock(mutex_);
  first_.clear();
  std::vector<Rest> rests;
  for (size_t i = 0; i < group->size(); ++i) {
    Collectives& of = (*group)[i];
    uint32_t ranks = 0;
    uint32_t rank = 0;
    const Actor actor = Find(of.stream, callers[i].stream_number).actor;
    if (of.calls.empty() || !meetings_.Find(of.comm, &ranks, &rank)) continue;
    if (actor == kNoActor) {
      // The calls count if the backend takes them, and what they order is not
      // known: the flags stay open.
      for (const devrt_collective_v0& call : of.calls) {
        Meetings::Step& step =
            of.steps.emplace_back(meetings_.Arrive(of.comm, call));
        step.adds = false;
        step.waits = false;
      }
      continue;
    }
    of.is_enqueued = true;
    Caller caller = callers[i];
    if (*caller.name == '\0') {
      caller.name = of.calls.size() == 1 ? NameOf(of.calls[0].op) : "group";
    }
    Rest& rest = rests.emplace_back();
    rest.of = &of;
    rest.call = ToCall(caller);
    rest.actor = actor;
    std::vector<MemoryAccess> reads;
    for (const devrt_collective_v0& call : of.calls) {
      const Sizes sizes = SizesOf(call, ranks, rank);
      Add(call.src, sizes.src, Mode::kRead, &reads);
      Add(call.dst, sizes.dst, Mode::kWrite, &rest.writes);
    }
    NotePinned(reads);
    detector_.Enqueue(rest.call, actor, reads);
    for (const devrt_collective_v0& call : of.calls) {
      const Meetings::Step& step =
          of.steps.emplace_back(meetings_.Arrive(of.comm, call));
      if (step.adds) detector_.AddToFlag(rest.call, actor, step.flag);
    }
    rest.op = caller.op;
  }
  for (const Rest& rest : rests) {
    for (const Meetings::Step& step : rest.of->steps) {
      if (step.waits) {
        detector_.WaitForFlag(rest.call, rest.actor, step.flag);
      }
    }
    NotePinned(rest.writes);
    if (rest.op.known()) NoteOp(rest.op);
    detector_.Enqueue(rest.call, rest.actor, rest.writes);
  }
  if (!doubtful_.empty()) JudgeDoubtful();
  ForgetSometimes();
  return std::exchange(first_, {});
}

void Validator::EndGroup(const std::vector<Collectives>& group) {
  const Lock lock(mutex_);
  for (const Collectives& of : group) {
    for (const Meetings::Step& step : of.steps) {
      const Meetings::News news = meetings_.Accept(step);
      if (news.is_set) detector_.EndAdds(step.flag);
      if (news.ends) detector_.RemoveFlag(step.flag);
    }
  }
}

void Validator::RetractGroup(const std::vector<Collectives>& group) {
  const Lock lock(mutex_);
  for (const Collectives& of : group) {
    for (const Meetings::Step& step : of.steps) meetings_.Retract(step);
    uint32_t ranks = 0;
    uint32_t rank = 0;
    if (!of.is_enqueued || !meetings_.Find(of.comm, &ranks, &rank)) continue;
    std::vector<MemoryAccess> accesses;
    for (const devrt_collective_v0& call : of.calls) {
      const Sizes sizes = SizesOf(call, ranks, rank);
      Add(call.src, sizes.src, Mode::kRead, &accesses);
      Add(call.dst, sizes.dst, Mode::kWrite, &accesses);
    }
    detector_.Retract(accesses);
  }
}

}  // namespace devrt::race
