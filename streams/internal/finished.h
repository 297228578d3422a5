// SPDX-License-Identifier: Apache-2.0
//
// Objects of the program's that a backend's thread is done with.  They are
// destroyed by the next thread that calls devrt, never inside a host function,
// where frees are refused (C42).

#ifndef DEVRT_STREAMS_INTERNAL_FINISHED_H_
#define DEVRT_STREAMS_INTERNAL_FINISHED_H_

namespace devrt::internal {

struct Finished {
  virtual ~Finished() = default;
  Finished* next_finished = nullptr;
};

// Takes ownership.  [any thread, host functions included]
void AddFinished(Finished* object);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_FINISHED_H_
