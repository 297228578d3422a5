// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_FLAG_TIMEOUTS_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_FLAG_TIMEOUTS_H_

#include <algorithm>
#include <vector>

#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// The streams whose first operation is a flag_wait with a timeout that has not
// passed.  StreamCore::when is the time of the timeout.
//
// Threads: every member is called inside the machine.
class FlagTimeouts {
 public:
  bool empty() const { return streams_.empty(); }
  void clear() { streams_.clear(); }

  // Adds `s`, whose first operation has begun and waits for its flag.  Does
  // nothing and returns false if the operation waits without a timeout.
  bool Add(StreamCore* s) {
    const Op* const op = s->head;
    if (op->timeout == 0) return false;
    s->when = After(op->began, op->timeout);
    streams_.push_back(s);
    return true;
  }
  void Remove(StreamCore* s) {
    streams_.erase(std::remove(streams_.begin(), streams_.end(), s),
                   streams_.end());
  }
  // The stream whose timeout passes first; of two, the older operation's.
  StreamCore* First() const {
    return *std::min_element(streams_.begin(), streams_.end(),
                             [](const StreamCore* a, const StreamCore* b) {
                               return a->when != b->when
                                          ? a->when < b->when
                                          : a->head->id < b->head->id;
                             });
  }

 private:
  std::vector<StreamCore*> streams_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_FLAG_TIMEOUTS_H_
