// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/collective_data.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "backends/mtia/kernels/collective.h"
#include "backends/tensor/tensor.h"

namespace devrt::mtia {
namespace {

constexpr int32_t kIllegalAddress = 700;
constexpr int kUndefinedByte = 0xff;  // as of fresh memory

using Buffer = std::shared_ptr<std::byte[]>;

Buffer NewBuffer(uint64_t size) { return Buffer(new std::byte[size]); }

// The local address of [ptr, ptr + size) for `op`, or nullptr with `*why` set.
std::byte* Local(const Memory* memory, const Op* op, const void* ptr,
                 uint64_t size, std::string* why) {
  if (memory == nullptr) {
    *why = "there is no device memory";
    return nullptr;
  }
  if (!memory->CheckSuballocations(ptr, size, op->id, why)) return nullptr;
  return memory->Local(op->device, ptr, size, why, op->id);
}

void SetFault(const Member& member, const std::string& why) {
  Op* const op = member.part->op;
  if (op->fault_code != 0) return;
  op->fault_code = kIllegalAddress;
  op->fault_text = why;
}

void Share(Member* member, const Buffer& buffer, uint64_t offset,
           uint64_t size) {
  member->buffer = buffer;
  member->result = buffer.get() + offset;
  member->result_size = size;
}

// One exchange: the sources by rank, and the calls, which are alike.
class Exchanger {
 public:
  Exchanger(const std::vector<Member*>& members, uint64_t count)
      : members_(members),
        call_(members[0]->call),
        ranks_(static_cast<uint32_t>(members.size())),
        count_(count),
        part_(count * tensor::DtypeSize(members[0]->call.dtype)) {}

  // Finds the sources.  Returns the first member whose source is missing.
  Member* Find(const Memory* memory) {
    sources_.assign(ranks_, nullptr);
    for (uint32_t r = 0; r < ranks_; ++r) {
      Member* const m = members_[r];
      devrt_collective_v0 call = m->call;
      call.count = count_;
      CollectiveSizes sizes;
      SizesOf(call, ranks_, m->rank, &sizes);
      if (sizes.src == 0) continue;
      std::string why;
      sources_[r] = Local(memory, m->part->op, call.src, sizes.src, &why);
      if (sources_[r] != nullptr) continue;
      SetFault(*m, why);
      return m;
    }
    return nullptr;
  }

  void Run() {
    if (count_ == 0) return;
    const auto root = static_cast<uint32_t>(call_.root_or_peer);
    switch (call_.op) {
      case DEVRT_COLLECTIVE_ALL_REDUCE:
        ShareAll(Reduced(0));
        break;
      case DEVRT_COLLECTIVE_REDUCE:
        Share(members_[root], Reduced(0), 0, part_);
        break;
      case DEVRT_COLLECTIVE_BROADCAST:
        ShareAll(Copied(sources_[root], part_));
        break;
      case DEVRT_COLLECTIVE_ALL_GATHER: {
        const Buffer all = Gathered();
        for (Member* const m : members_) Share(m, all, 0, ranks_ * part_);
        break;
      }
      case DEVRT_COLLECTIVE_GATHER:
        Share(members_[root], Gathered(), 0, ranks_ * part_);
        break;
      case DEVRT_COLLECTIVE_REDUCE_SCATTER:
        for (uint32_t r = 0; r < ranks_; ++r) {
          Share(members_[r], Reduced(r * part_), 0, part_);
        }
        break;
      case DEVRT_COLLECTIVE_SCATTER: {
        const Buffer all = Copied(sources_[root], ranks_ * part_);
        for (uint32_t r = 0; r < ranks_; ++r) {
          Share(members_[r], all, r * part_, part_);
        }
        break;
      }
      case DEVRT_COLLECTIVE_ALL_TO_ALL:
        for (uint32_t r = 0; r < ranks_; ++r)
          Share(members_[r], Row(r), 0, ranks_ * part_);
        break;
      default:
        break;
    }
  }

 private:
  Buffer Copied(const std::byte* from, uint64_t size) const {
    Buffer to = NewBuffer(size);
    std::memcpy(to.get(), from, size);
    return to;
  }
  // The reduction of the parts that begin at `offset` of each source.
  Buffer Reduced(uint64_t offset) const {
    std::vector<const std::byte*> in(sources_.begin(), sources_.end());
    for (const std::byte*& source : in) source += offset;
    Buffer to = NewBuffer(part_);
    FindRankFold(call_.reduction, call_.dtype)(in.data(), ranks_, count_,
                                               to.get());
    return to;
  }
  Buffer Gathered() const {
    Buffer to = NewBuffer(ranks_ * part_);
    for (uint32_t r = 0; r < ranks_; ++r) {
      std::memcpy(to.get() + r * part_, sources_[r], part_);
    }
    return to;
  }
  // What all ranks send to rank `r`.
  Buffer Row(uint32_t r) const {
    Buffer to = NewBuffer(ranks_ * part_);
    for (uint32_t from = 0; from < ranks_; ++from) {
      std::memcpy(to.get() + from * part_, sources_[from] + r * part_, part_);
    }
    return to;
  }
  void ShareAll(const Buffer& buffer) {
    for (Member* const m : members_) Share(m, buffer, 0, part_);
  }

  const std::vector<Member*>& members_;
  const devrt_collective_v0& call_;
  const uint32_t ranks_;
  const uint64_t count_;
  const uint64_t part_;  // bytes of `count_` elements
  std::vector<const std::byte*> sources_;
};

// A send and its receive.
Member* ExchangePair(const Memory* memory, Member* send, Member* receive,
                     uint64_t count) {
  const uint64_t size = count * tensor::DtypeSize(send->call.dtype);
  if (size == 0) return nullptr;
  std::string why;
  const std::byte* const from =
      Local(memory, send->part->op, send->call.src, size, &why);
  if (from == nullptr) {
    SetFault(*send, why);
    return send;
  }
  const Buffer buffer = NewBuffer(size);
  std::memcpy(buffer.get(), from, size);
  Share(receive, buffer, 0, size);
  return nullptr;
}

}  // namespace

bool SizesOf(const devrt_collective_v0& call, uint32_t ranks, uint32_t rank,
             CollectiveSizes* sizes) {
  const uint64_t element = tensor::DtypeSize(call.dtype);
  uint64_t part = 0;
  uint64_t all = 0;
  if (__builtin_mul_overflow(call.count, element, &part) ||
      __builtin_mul_overflow(part, uint64_t{ranks}, &all)) {
    return false;
  }
  const bool is_root = static_cast<int64_t>(call.root_or_peer) == rank;
  *sizes = {};
  switch (call.op) {
    case DEVRT_COLLECTIVE_ALL_REDUCE:
      *sizes = {part, part};
      break;
    case DEVRT_COLLECTIVE_REDUCE:
      *sizes = {part, is_root ? part : 0};
      break;
    case DEVRT_COLLECTIVE_BROADCAST:
      *sizes = {is_root ? part : 0, part};
      break;
    case DEVRT_COLLECTIVE_ALL_GATHER:
      *sizes = {part, all};
      break;
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
      *sizes = {all, part};
      break;
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
      *sizes = {all, all};
      break;
    case DEVRT_COLLECTIVE_GATHER:
      *sizes = {part, is_root ? all : 0};
      break;
    case DEVRT_COLLECTIVE_SCATTER:
      *sizes = {is_root ? all : 0, part};
      break;
    case DEVRT_COLLECTIVE_SEND:
      sizes->src = part;
      break;
    default:
      sizes->dst = part;
      break;
  }
  return true;
}

Member* Exchange(const Memory* memory, const std::vector<Member*>& members) {
  uint64_t count = members[0]->call.count;
  for (const Member* const m : members) count = std::min(count, m->call.count);
  if (IsPointToPoint(members[0]->call.op)) {
    return ExchangePair(memory, members[0], members[1], count);
  }
  Exchanger exchanger(members, count);
  if (Member* const faulty = exchanger.Find(memory)) return faulty;
  exchanger.Run();
  return nullptr;
}

void WriteResults(const Memory* memory, const Config& config, Op* op) {
  for (const Member& m : op->part->members) {
    std::string why;
    if (m.state == MemberState::kMet) {
      if (m.result_size == 0) continue;
      std::byte* const to = Local(memory, op, m.call.dst, m.result_size, &why);
      if (to == nullptr) {
        SetFault(m, why);
        continue;
      }
      std::memcpy(to, m.result, m.result_size);
      continue;
    }
    if (config.poison == Poison::kOff) continue;
    CollectiveSizes sizes;
    SizesOf(m.call, static_cast<uint32_t>(m.comm->places.size()), m.rank,
            &sizes);
    if (sizes.dst == 0) continue;
    std::byte* const to = Local(memory, op, m.call.dst, sizes.dst, &why);
    if (to != nullptr) std::memset(to, kUndefinedByte, sizes.dst);
  }
}

}  // namespace devrt::mtia
