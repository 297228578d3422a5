// SPDX-License-Identifier: Apache-2.0

#include "devrt/collectives/operation.h"

namespace devrt::collectives {

const char* ToString(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
      return "all_reduce";
    case OpKind::kReduce:
      return "reduce";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kAllGather:
      return "all_gather";
    case OpKind::kReduceScatter:
      return "reduce_scatter";
    case OpKind::kAllToAll:
      return "all_to_all";
    case OpKind::kGather:
      return "gather";
    case OpKind::kScatter:
      return "scatter";
    case OpKind::kSend:
      return "send";
    case OpKind::kRecv:
      return "recv";
  }
  return "unknown";
}

const char* ToString(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kProd:
      return "prod";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kAvg:
      return "avg";
  }
  return "unknown";
}

Operation::Operation(OpKind kind, const Array* out, const Array* in,
                     Reduction reduction, int root_or_peer, CallSite site)
    : has_arrays_(true), site_(site) {
  raw_.kind = kind;
  raw_.reduction = reduction;
  raw_.root_or_peer = root_or_peer;
  if (out != nullptr) out_ = *out;
  if (in != nullptr) in_ = *in;
}

Operation AllReduce(const Array& out, const Array& in, Reduction reduction,
                    CallSite site) {
  return Operation(OpKind::kAllReduce, &out, &in, reduction, 0, site);
}
Operation Reduce(const Array& out, const Array& in, Reduction reduction,
                 int root, CallSite site) {
  return Operation(OpKind::kReduce, &out, &in, reduction, root, site);
}
Operation Broadcast(const Array& x, int root, CallSite site) {
  return Operation(OpKind::kBroadcast, &x, &x, Reduction::kSum, root, site);
}
Operation AllGather(const Array& out, const Array& in, CallSite site) {
  return Operation(OpKind::kAllGather, &out, &in, Reduction::kSum, 0, site);
}
Operation ReduceScatter(const Array& out, const Array& in, Reduction reduction,
                        CallSite site) {
  return Operation(OpKind::kReduceScatter, &out, &in, reduction, 0, site);
}
Operation AllToAll(const Array& out, const Array& in, CallSite site) {
  return Operation(OpKind::kAllToAll, &out, &in, Reduction::kSum, 0, site);
}
Operation Gather(const Array& out, const Array& in, int root, CallSite site) {
  return Operation(OpKind::kGather, &out, &in, Reduction::kSum, root, site);
}
Operation Scatter(const Array& out, const Array& in, int root, CallSite site) {
  return Operation(OpKind::kScatter, &out, &in, Reduction::kSum, root, site);
}
Operation Send(const Array& x, int peer, CallSite site) {
  return Operation(OpKind::kSend, nullptr, &x, Reduction::kSum, peer, site);
}
Operation Recv(const Array& x, int peer, CallSite site) {
  return Operation(OpKind::kRecv, &x, nullptr, Reduction::kSum, peer, site);
}

}  // namespace devrt::collectives
