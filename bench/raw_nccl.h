// SPDX-License-Identifier: Apache-2.0
//
// NCCL without devrt, in the library that devrt has loaded: what devrt's calls
// are measured beside.
//
//   RawNccl nccl(communicator.provider().path, places, RawNccl::Calls::kBlock);
//   nccl.Run({operation_of_rank_0, operation_of_rank_1}, 0, 2);
//
// All ranks are in this process.  An error ends it.
//
// Threads: one, or one for each rank.

#ifndef DEVRT_BENCH_RAW_NCCL_H_
#define DEVRT_BENCH_RAW_NCCL_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
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
  // How calls of the communicators return.
  enum class Calls {
    kBlock,  // when they are done, which is NCCL's default
    kPoll,   // a call may be in progress, and Run polls
    // As kBlock, on children of communicators of kPoll, as devrt does: a
    // beginning with a deadline, and calls without a thread of NCCL's.
    kBlockInChild,
  };
  RawNccl(const std::string& path, std::vector<Place> places, Calls calls);
  RawNccl(const RawNccl&) = delete;
  RawNccl& operator=(const RawNccl&) = delete;
  ~RawNccl();

  // False if the library made no children.
  bool works() const { return works_; }
  // Enqueues the operations of `count` ranks from `first` on, all of one kind,
  // over float32: a call, with the rank's device current, or a group for
  // several ranks.
  void Run(const std::vector<devrt::collectives::RawOperation>& of_ranks,
           size_t first, size_t count);

 private:
  void Check(devrt::collectives::nccl::Result result, const char* call);
  // Makes children that block.
  void Split();
  // Waits until nothing is in progress; 10 s at most.
  void Await(absl::Span<const devrt::collectives::nccl::Comm> comms);

  devrt::collectives::nccl::Functions f_ = {};
  const std::vector<Place> places_;
  std::vector<devrt::collectives::nccl::Comm> comms_, parents_;
  const Calls calls_;
  bool works_ = false, failed_ = false;
};

}  // namespace bench

#endif  // DEVRT_BENCH_RAW_NCCL_H_
