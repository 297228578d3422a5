// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_OP_POOL_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_OP_POOL_H_

#include <deque>
#include <vector>

#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// Owns all operations.  An operation that has ended is used again, and its
// vectors keep their memory, so that a submission allocates nothing.
//
// Threads: every member is called inside the machine.
class OpPool {
 public:
  // An operation of `s` that is submitted at `now` by `me`.  Fields that only
  // some kinds of operations have are for the caller to set.
  Op* New(OpKind kind, StreamCore* s, HostThread* me, const char* name,
          VTime now);
  // Takes back an operation that no stream holds.
  void Recycle(Op* op);

 private:
  std::deque<Op> ops_;
  std::vector<Op*> free_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_OP_POOL_H_
