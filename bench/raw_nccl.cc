// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_nccl.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "devrt/guards/device_guard.h"

namespace bench {

namespace abi = devrt::collectives::nccl;
using devrt::collectives::OpKind;
using devrt::collectives::RawOperation;

RawNccl::RawNccl(const std::string& path, std::vector<Place> places,
                 Calls calls)
    : places_(std::move(places)), comms_(places_.size()), calls_(calls) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    std::fprintf(stderr, "%s is not loaded\n", path.c_str());
    std::exit(1);
  }
#define DEVRT_NCCL_ENTRY(member, symbol, required) \
  f_.member = reinterpret_cast<decltype(f_.member)>(dlsym(library, symbol));
#include "collectives/nccl/entries.inc"
#undef DEVRT_NCCL_ENTRY
  const int ranks = static_cast<int>(places_.size());
  abi::UniqueId id;
  Check(f_.get_unique_id(&id), "ncclGetUniqueId");
  Check(f_.group_start(), "ncclGroupStart");
  for (int rank = 0; rank < ranks; ++rank) {
    const devrt::DeviceGuard guard(places_[rank].device);
    abi::Config config;
    config.blocking = calls == Calls::kBlock ? 1 : 0;
    Check(f_.comm_init_rank_config(&comms_[rank], ranks, id, rank, &config),
          "ncclCommInitRankConfig");
  }
  Check(f_.group_end(), "ncclGroupEnd");
  Await(comms_);
  if (calls == Calls::kBlockInChild) {
    Split();
  } else {
    works_ = true;
  }
}

RawNccl::~RawNccl() {
  for (const auto* comms : {&comms_, &parents_}) {
    for (size_t i = 0; i < comms->size(); ++i) {
      const devrt::DeviceGuard guard(places_[i].device);
      if ((*comms)[i] != nullptr) (void)f_.comm_abort((*comms)[i]);
    }
  }
}

void RawNccl::Split() {
  if (f_.comm_split == nullptr) return;
  parents_ = comms_;
  std::fill(comms_.begin(), comms_.end(), nullptr);
  for (size_t i = 0; i < parents_.size(); ++i) {
    const devrt::DeviceGuard guard(places_[i].device);
    abi::Config config;
    config.blocking = 1;
    Check(
        f_.comm_split(parents_[i], 0, static_cast<int>(i), &comms_[i], &config),
        "ncclCommSplit");
  }
  Await(parents_);
  Await(comms_);
  works_ = !failed_;
}

void RawNccl::Check(abi::Result result, const char* call) {
  if (result == abi::kSuccess || result == abi::kInProgress) return;
  std::fprintf(stderr, "%s: %s\n", call, f_.get_error_string(result));
  if (parents_.empty() || works_) std::exit(1);
  failed_ = true;
}

void RawNccl::Await(absl::Span<const abi::Comm> comms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (const abi::Comm comm : comms) {
    abi::Result state = abi::kInProgress;
    while (state == abi::kInProgress && !failed_) {
      if (std::chrono::steady_clock::now() > end) {
        Check(abi::kInternalError, "a call that does not end");
      }
      Check(f_.comm_get_async_error(comm, &state), "ncclCommGetAsyncError");
      Check(state, "the asynchronous error");
    }
  }
}

void RawNccl::Run(const std::vector<RawOperation>& of_ranks, size_t first,
                  size_t count) {
  const bool is_group = count > 1;
  if (is_group) Check(f_.group_start(), "ncclGroupStart");
  for (size_t i = first; i < first + count; ++i) {
    std::optional<devrt::DeviceGuard> guard;
    if (is_group) guard.emplace(places_[i].device);
    const RawOperation& op = of_ranks[i];
    const abi::Comm comm = comms_[i];
    void* const stream = places_[i].stream;
    switch (op.kind) {
      case OpKind::kAllGather:
        Check(f_.all_gather(op.src, op.dst, op.count, abi::kFloat32, comm,
                            stream),
              "ncclAllGather");
        break;
      case OpKind::kReduceScatter:
        Check(f_.reduce_scatter(op.src, op.dst, op.count, abi::kFloat32,
                                abi::kSum, comm, stream),
              "ncclReduceScatter");
        break;
      case OpKind::kBroadcast:
        Check(f_.broadcast(op.src, op.dst, op.count, abi::kFloat32, 0, comm,
                           stream),
              "ncclBroadcast");
        break;
      default:
        Check(f_.all_reduce(op.src, op.dst, op.count, abi::kFloat32, abi::kSum,
                            comm, stream),
              "ncclAllReduce");
    }
  }
  if (is_group) Check(f_.group_end(), "ncclGroupEnd");
  if (calls_ == Calls::kPoll) Await({&comms_[first], count});
}

}  // namespace bench
