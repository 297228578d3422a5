// SPDX-License-Identifier: Apache-2.0
//
// NCCL without devrt, in the library that devrt has loaded: what devrt's calls
// are measured beside.
//
//   RawNccl nccl(communicator.provider().path, places, /*blocks=*/true);
//   nccl.Run({operation_of_rank_0, operation_of_rank_1});
//
// All ranks are in this process.  An error ends it.

#ifndef DEVRT_BENCH_RAW_NCCL_H_
#define DEVRT_BENCH_RAW_NCCL_H_

#include <string>
#include <vector>

#include "collectives/nccl/abi.h"
#include "devrt/collectives/operation.h"
#include "devrt/runtime/device.h"

namespace bench {

class RawNccl {
 public:
  struct Place {
    devrt::Device device;
    void* stream;  // the native one
  };
  // `blocks`: the calls of the communicators return when they are done, which
  // is NCCL's default.  Else a call may be in progress, and Run polls.
  RawNccl(const std::string& path, std::vector<Place> places, bool blocks);
  RawNccl(const RawNccl&) = delete;
  RawNccl& operator=(const RawNccl&) = delete;
  ~RawNccl();

  // Enqueues an operation of each rank, all of one kind, over float32: a call,
  // with the rank's device current, or a group for several ranks.
  void Run(const std::vector<devrt::collectives::RawOperation>& of_ranks);

 private:
  void Check(devrt::collectives::nccl::Result result, const char* call) const;
  // Waits until nothing is in progress.
  void Await();

  devrt::collectives::nccl::Functions f_ = {};
  const std::vector<Place> places_;
  std::vector<devrt::collectives::nccl::Comm> comms_;
  const bool blocks_;
};

}  // namespace bench

#endif  // DEVRT_BENCH_RAW_NCCL_H_
