// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_FLAG_TIMEOUTS_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_FLAG_TIMEOUTS_H_

#include <set>

#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// The streams whose first operation waits with a timeout: a flag_wait, a
// collective, or an operation that hangs by a rule.  StreamCore::when is the
// time of the timeout.
//
// Threads: every member is called inside the machine.
class FlagTimeouts {
 public:
  bool empty() const { return streams_.empty(); }
  void clear() { streams_.clear(); }

  // Adds `s`, whose first operation has begun and waits.  Does nothing and
  // returns false if the operation waits without a timeout.
  bool Add(StreamCore* s) {
    const Op* const op = s->head;
    if (op->timeout == 0) return false;
    s->when = After(op->began, op->timeout);
    streams_.insert(s);
    return true;
  }
  // Neither the time nor the operation of `s` has changed since Add.
  void Remove(StreamCore* s) { streams_.erase(s); }
  // The stream whose timeout passes first; of two, the older operation's.
  StreamCore* First() const { return *streams_.begin(); }

 private:
  struct IsEarlier {
    bool operator()(const StreamCore* a, const StreamCore* b) const {
      return a->when != b->when ? a->when < b->when : a->head->id < b->head->id;
    }
  };
  std::set<StreamCore*, IsEarlier> streams_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_FLAG_TIMEOUTS_H_
