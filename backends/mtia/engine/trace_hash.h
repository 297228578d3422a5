// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_TRACE_HASH_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_TRACE_HASH_H_

#include <cstdint>

namespace devrt::mtia {

// The hash of all steps of a run in their order.  Two runs with one hash took
// the same steps, on any system.
class TraceHash {
 public:
  void Clear() {
    hash_ = 0xcbf29ce484222325u;
    steps_ = 0;
  }
  void Add(uint32_t what, uint64_t a, uint64_t b) {
    ++steps_;
    hash_ = Mix(Mix(hash_ ^ what, a), b);
  }
  uint64_t hash() const { return hash_; }
  uint64_t steps() const { return steps_; }

 private:
  static uint64_t Mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9fb21c651e98df25u;
    return hash ^ (hash >> 32);
  }
  uint64_t hash_ = 0xcbf29ce484222325u;
  uint64_t steps_ = 0;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_TRACE_HASH_H_
