// SPDX-License-Identifier: Apache-2.0
//
// Operation: one collective operation of one rank, before it is submitted.
//
//   using namespace devrt::collectives;
//   Group group;
//   group.Add(ranks[0], AllReduce(out, a));
//   group.Add(ranks[1], AllReduce(target, b));
//   DEVRT_RETURN_IF_ERROR(group.Submit());
//
// n is the number of ranks.  Arrays are C-contiguous, on the device of the
// communicator, and of one dtype.  Only the number of elements counts, not the
// shape.  Input and output are the same elements (in place), or share none:
//
//   AllGather, Gather      in place: `in` is this rank's part of `out`
//   ReduceScatter, Scatter in place: `out` is this rank's part of `in`
//
// Zero elements are allowed, and nothing moves.  NCCL and RCCL do not even wait
// for the other ranks then: Communicator::Barrier does.  bool is sent as uint8,
// and has no kSum and no kAvg.
//
// Ownership: an Operation over arrays keeps their memory; one over pointers
// does not.  Threads: values.  Errors come with the submission.

#ifndef DEVRT_COLLECTIVES_OPERATION_H_
#define DEVRT_COLLECTIVES_OPERATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "devrt/arrays/array.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"

namespace devrt::collectives {

// How elements of several ranks become one.
enum class Reduction : uint32_t {
  kSum = DEVRT_COLLECTIVE_SUM,
  kProd = DEVRT_COLLECTIVE_PROD,
  kMin = DEVRT_COLLECTIVE_MIN,
  kMax = DEVRT_COLLECTIVE_MAX,
  kAvg = DEVRT_COLLECTIVE_AVG,  // not every engine has it
};

// What an operation does.
enum class OpKind : uint32_t {
  kAllReduce = DEVRT_COLLECTIVE_ALL_REDUCE,
  kReduce = DEVRT_COLLECTIVE_REDUCE,
  kBroadcast = DEVRT_COLLECTIVE_BROADCAST,
  kAllGather = DEVRT_COLLECTIVE_ALL_GATHER,
  kReduceScatter = DEVRT_COLLECTIVE_REDUCE_SCATTER,
  kAllToAll = DEVRT_COLLECTIVE_ALL_TO_ALL,
  kGather = DEVRT_COLLECTIVE_GATHER,
  kScatter = DEVRT_COLLECTIVE_SCATTER,
  kSend = DEVRT_COLLECTIVE_SEND,
  kRecv = DEVRT_COLLECTIVE_RECV,
};

// "all_reduce", "sum":
DEVRT_EXPORT const char* ToString(OpKind kind);
DEVRT_EXPORT const char* ToString(Reduction reduction);

// An operation over pointers, as devrt_collectives.h defines the fields.  The
// memory lives until the operation is complete, and the program orders it with
// other work, as for any call with pointers.
struct RawOperation {
  OpKind kind = OpKind::kAllReduce;
  DType dtype = kFloat32;
  uint64_t count = 0;  // elements: see devrt_collectives.h for each kind
  const void* src = nullptr;
  void* dst = nullptr;
  Reduction reduction = Reduction::kSum;
  int root_or_peer = 0;
};

// One operation of one rank.
class DEVRT_EXPORT Operation {
 public:
  // The site is for reports.
  Operation(const RawOperation& raw,  // NOLINT: a RawOperation is an operation
            CallSite site = CallSite::Here())
      : raw_(raw), site_(site) {}
  // For the functions below.
  Operation(OpKind kind, const Array* out, const Array* in, Reduction reduction,
            int root_or_peer, CallSite site);

  // What it does, and where the program made it:
  OpKind kind() const { return raw_.kind; }
  CallSite site() const { return site_; }

  // For devrt's own code:
  const RawOperation& raw() const { return raw_; }
  bool has_arrays() const { return has_arrays_; }
  const std::optional<Array>& out() const { return out_; }
  const std::optional<Array>& in() const { return in_; }

 private:
  RawOperation raw_;
  bool has_arrays_ = false;
  std::optional<Array> out_;
  std::optional<Array> in_;
  CallSite site_;
};

// out = the reduction of every rank's `in`, on every rank.
DEVRT_EXPORT Operation AllReduce(const Array& out, const Array& in,
                                 Reduction reduction = Reduction::kSum,
                                 CallSite site = CallSite::Here());
// out of the root = the reduction of every rank's `in`.  Other ranks' `out` is
// not touched, and may be `in`.
DEVRT_EXPORT Operation Reduce(const Array& out, const Array& in,
                              Reduction reduction, int root,
                              CallSite site = CallSite::Here());
// x = the root's x, on every rank.
DEVRT_EXPORT Operation Broadcast(const Array& x, int root,
                                 CallSite site = CallSite::Here());
// out = every rank's `in`, by rank; out has n times in's elements.
DEVRT_EXPORT Operation AllGather(const Array& out, const Array& in,
                                 CallSite site = CallSite::Here());
// out = this rank's part of the reduction of every rank's `in`, which has n
// times out's elements.
DEVRT_EXPORT Operation ReduceScatter(const Array& out, const Array& in,
                                     Reduction reduction = Reduction::kSum,
                                     CallSite site = CallSite::Here());
// Part j of out on rank i = part i of in on rank j.  Both have n parts.
DEVRT_EXPORT Operation AllToAll(const Array& out, const Array& in,
                                CallSite site = CallSite::Here());
// out of the root = every rank's `in`, by rank.  Other ranks' `out` is not
// touched, and may be `in`.
DEVRT_EXPORT Operation Gather(const Array& out, const Array& in, int root,
                              CallSite site = CallSite::Here());
// out = this rank's part of the root's `in`.  Other ranks' `in` is not read,
// and may be `out`.
DEVRT_EXPORT Operation Scatter(const Array& out, const Array& in, int root,
                               CallSite site = CallSite::Here());
// x goes to the peer, which is another rank, or comes from it: each meets the
// other.  Operations that must progress together go into one Group:
DEVRT_EXPORT Operation Send(const Array& x, int peer,
                            CallSite site = CallSite::Here());
DEVRT_EXPORT Operation Recv(const Array& x, int peer,
                            CallSite site = CallSite::Here());

}  // namespace devrt::collectives

#endif  // DEVRT_COLLECTIVES_OPERATION_H_
