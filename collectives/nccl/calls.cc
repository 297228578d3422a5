// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/calls.h"

#include "collectives/nccl/checks.h"

namespace devrt::collectives::nccl {
namespace {

uintptr_t Address(const void* ptr) { return reinterpret_cast<uintptr_t>(ptr); }

// Sends and receives of one operation, up to the first that fails.
class Pairs {
 public:
  Pairs(const Library& library, Member* member, const devrt_collective_v0& op,
        Stream stream, const char** symbol)
      : functions_(library.functions),
        comm_(member->calls()),
        op_(op),
        type_(TypeOf(library, op.dtype)),
        bytes_(op.count * SizeOf(op.dtype)),
        stream_(stream),
        symbol_(symbol) {}

  void Send(uint32_t part, uint32_t peer) {
    const char* const src = static_cast<const char*>(op_.src) + part * bytes_;
    if (IsBad()) return;
    Take(functions_.send(src, op_.count, type_, static_cast<int>(peer), comm_,
                         stream_),
         "ncclSend");
  }
  void Receive(uint32_t part, uint32_t peer) {
    char* const dst = static_cast<char*>(op_.dst) + part * bytes_;
    if (IsBad()) return;
    Take(functions_.recv(dst, op_.count, type_, static_cast<int>(peer), comm_,
                         stream_),
         "ncclRecv");
  }
  Result result() const { return result_; }

 private:
  bool IsBad() const { return result_ != kSuccess && result_ != kInProgress; }
  void Take(Result result, const char* symbol) {
    if (result == kSuccess) return;
    result_ = result;
    *symbol_ = symbol;
  }

  const Functions& functions_;
  const Comm comm_;
  const devrt_collective_v0& op_;
  const DataType type_;
  const uint64_t bytes_;  // of a part
  const Stream stream_;
  const char** const symbol_;
  Result result_ = kSuccess;
};

Result AllToAll(Pairs pairs, uint32_t ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    pairs.Send(rank, rank);
    pairs.Receive(rank, rank);
  }
  return pairs.result();
}

// In place, the root's own part is where it belongs.
Result Gather(Pairs pairs, const Member& member, uint32_t root, bool in_place) {
  const bool is_root = member.rank() == root;
  if (!(is_root && in_place)) pairs.Send(0, root);
  for (uint32_t rank = 0; is_root && rank < member.ranks(); ++rank) {
    if (!(in_place && rank == root)) pairs.Receive(rank, rank);
  }
  return pairs.result();
}

Result Scatter(Pairs pairs, const Member& member, uint32_t root,
               bool in_place) {
  const bool is_root = member.rank() == root;
  for (uint32_t rank = 0; is_root && rank < member.ranks(); ++rank) {
    if (!(in_place && rank == root)) pairs.Send(rank, rank);
  }
  if (!(is_root && in_place)) pairs.Receive(0, root);
  return pairs.result();
}

}  // namespace

Result Call(const Library& library, Member* member,
            const devrt_collective_v0& op, Stream stream, const char** symbol) {
  const Functions& f = library.functions;
  const Comm comm = member->calls();
  const Member::Known& known = member->known();
  const DataType type =
      known.dtype == op.dtype ? known.type : TypeOf(library, op.dtype);
  const uint64_t bytes = op.count * SizeOf(op.dtype);
  const auto own = member->rank() * bytes;
  const int root = op.root_or_peer;
  switch (op.op) {
    case DEVRT_COLLECTIVE_ALL_REDUCE:
      *symbol = "ncclAllReduce";
      return f.all_reduce(op.src, op.dst, op.count, type,
                          ReductionOf(op.reduction), comm, stream);
    case DEVRT_COLLECTIVE_REDUCE:
      *symbol = "ncclReduce";
      return f.reduce(op.src, op.dst, op.count, type, ReductionOf(op.reduction),
                      root, comm, stream);
    case DEVRT_COLLECTIVE_BROADCAST:
      *symbol = "ncclBroadcast";
      return f.broadcast(op.src, op.dst, op.count, type, root, comm, stream);
    case DEVRT_COLLECTIVE_ALL_GATHER:
      *symbol = "ncclAllGather";
      return f.all_gather(op.src, op.dst, op.count, type, comm, stream);
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
      *symbol = "ncclReduceScatter";
      return f.reduce_scatter(op.src, op.dst, op.count, type,
                              ReductionOf(op.reduction), comm, stream);
    case DEVRT_COLLECTIVE_SEND:
      *symbol = "ncclSend";
      return f.send(op.src, op.count, type, root, comm, stream);
    case DEVRT_COLLECTIVE_RECV:
      *symbol = "ncclRecv";
      return f.recv(op.dst, op.count, type, root, comm, stream);
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
      *symbol = library.flavor->all_to_all;
      if (f.all_to_all != nullptr) {
        return f.all_to_all(op.src, op.dst, op.count, type, comm, stream);
      }
      return AllToAll(Pairs(library, member, op, stream, symbol),
                      member->ranks());
    case DEVRT_COLLECTIVE_GATHER:
      *symbol = "ncclGather";
      if (f.gather != nullptr) {
        return f.gather(op.src, op.dst, op.count, type, root, comm, stream);
      }
      return Gather(Pairs(library, member, op, stream, symbol), *member,
                    static_cast<uint32_t>(root),
                    Address(op.src) == Address(op.dst) + own);
    default:
      *symbol = "ncclScatter";
      if (f.scatter != nullptr) {
        return f.scatter(op.src, op.dst, op.count, type, root, comm, stream);
      }
      return Scatter(Pairs(library, member, op, stream, symbol), *member,
                     static_cast<uint32_t>(root),
                     Address(op.dst) == Address(op.src) + own);
  }
}

}  // namespace devrt::collectives::nccl
