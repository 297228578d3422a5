// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/collective_cost.h"

#include <algorithm>

#include "backends/mtia/engine/decisions.h"
#include "backends/tensor/tensor.h"

namespace devrt::mtia {
namespace {

// What an operation moves: `steps` from rank to rank, and `bytes` over
// the slowest link.
struct Work {
  uint64_t steps;
  uint64_t bytes;
};

uint64_t RateOf(const Communicator& comm, const Config& config) {
  const uint32_t node = comm.places[0].device / config.collective_node;
  const bool is_one =
      std::all_of(comm.places.begin(), comm.places.end(), [&](const Place& p) {
        return p.device / config.collective_node == node;
      });
  return is_one ? config.collective_link : config.collective_nic;
}

VTime TimeOf(const Work& work, uint64_t rate, const Config& config) {
  __extension__ using Wide = unsigned __int128;
  const Wide time = static_cast<Wide>(work.steps) * config.collective_alpha +
                    static_cast<Wide>(work.bytes) * 1'000'000'000u / rate;
  return static_cast<VTime>(std::min<Wide>(time, kHorizon));
}

uint64_t Depth(uint64_t ranks) {
  uint64_t depth = 0;
  while (uint64_t{1} << depth < ranks) ++depth;
  return depth;
}

}  // namespace

VTime CollectiveCost(const devrt_collective_v0& call, const Config& config,
                     Communicator* comm) {
  const uint64_t n = comm->places.size();
  const uint64_t part = call.count * tensor::DtypeSize(call.dtype);
  const uint64_t far = part / n * (n - 1) + part % n * (n - 1) / n;
  Work ring{0, 0};
  Work tree{0, 0};
  switch (call.op) {
    case DEVRT_COLLECTIVE_ALL_REDUCE:
      ring = {2 * (n - 1), 2 * far};
      tree = {2 * Depth(n), n == 1 ? 0 : 2 * part};
      break;
    case DEVRT_COLLECTIVE_REDUCE:
    case DEVRT_COLLECTIVE_BROADCAST:
      ring = {n - 1, n == 1 ? 0 : part};
      tree = {Depth(n), n == 1 ? 0 : part};
      break;
    case DEVRT_COLLECTIVE_GATHER:
    case DEVRT_COLLECTIVE_SCATTER:
      ring = tree = {Depth(n), (n - 1) * part};
      break;
    case DEVRT_COLLECTIVE_SEND:
    case DEVRT_COLLECTIVE_RECV:
      ring = tree = {1, part};
      break;
    default:  // the others give every rank something of every other rank
      ring = tree = {n - 1, (n - 1) * part};
      break;
  }
  if (comm->link_rate == 0) comm->link_rate = RateOf(*comm, config);
  const uint64_t rate = comm->link_rate;
  return std::max<VTime>(
      std::min(TimeOf(ring, rate, config), TimeOf(tree, rate, config)), 1);
}

VTime CollectiveSkew(const Op& op, uint32_t rank, const Config& config) {
  if (config.seed == 0 || config.collective_skew == 0) return 0;
  uint64_t state = config.seed ^ (op.index + 1) * 0x9e3779b97f4a7c15u ^
                   uint64_t { op.thread } << 48 ^ uint64_t { rank } << 24;
  return NextRandom(&state) % (config.collective_skew + 1);
}

}  // namespace devrt::mtia
