// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_TABLE_COLLECTIVE_SUBMIT_H_
#define DEVRT_BACKENDS_MTIA_TABLE_COLLECTIVE_SUBMIT_H_

#include <cstdint>
#include <vector>

#include "backends/mtia/engine/op.h"
#include "backends/mtia/table/call.h"
#include "devrt/backends/abi/devrt_collectives.h"

namespace devrt::mtia {

// One group of collectives: checks all of it, and then submits one operation
// for each stream.
//
//   CollectiveGroup group(&call);
//   devrt_status error = group.Read(submissions, count);
//   if (error == nullptr) error = group.Submit();
class CollectiveGroup {
 public:
  explicit CollectiveGroup(Call* call) : call_(call) {}

  // Copies the submissions.
  devrt_status Read(const devrt_submission_v0* submissions, uint32_t count);
  // Checks and submits.  After an error nothing is enqueued.
  devrt_status Submit();

 private:
  struct Part {
    devrt_comm handle;
    devrt_stream stream;
    std::vector<devrt_collective_v0> calls;
    std::vector<Site> sites;  // of the calls; empty: that of submit
    Comm* comm = nullptr;
    StreamCore* core = nullptr;
  };

  devrt_status Find();
  devrt_status Check(const Part& part) const;
  devrt_status MakeRoom(StreamCore* core);
  void Enqueue();
  // Lets `ops`, which are about to be submitted, wait for the groups before
  // them of the same ranks.
  static void OrderBehindLast(const std::vector<Op*>& ops);

  Call* const call_;
  std::vector<Part> parts_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TABLE_COLLECTIVE_SUBMIT_H_
