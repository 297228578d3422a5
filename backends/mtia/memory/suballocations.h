// SPDX-License-Identifier: Apache-2.0
//
// The blocks that an allocator has handed out of its segments, as it reports
// them by devrt.suballocation/0.  A use of a block after its end, or past its
// end, is an error.
//
// A use is judged by the time of its submission and not by the time when it
// runs: after take_back the former holder's work may still run, in the order of
// its stream.  When a new block is handed out over an old one, the old one is
// forgotten, and earlier uses are no longer judged.
//
// Thread-safe.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_SUBALLOCATIONS_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_SUBALLOCATIONS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>

#include "backends/mtia/common/call_site.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

class Suballocations {
 public:
  // Forgets all.
  void Reset();

  // Notes that an allocator has taken [offset, offset + size) of the window as
  // a segment.  Segments that touch become one.  ALREADY_EXISTS if a part of it
  // is one.
  devrt_status Carve(uint64_t offset, uint64_t size);
  // Notes the end of a segment, or of a part of it.  `now` is the number of the
  // newest submission, here and below.  NOT_FOUND if it is no segment;
  // FAILED_PRECONDITION, after ending it, if blocks of it are handed out.
  devrt_status Uncarve(uint64_t offset, uint64_t size, uint64_t now);
  // Notes that the block is handed out.  FAILED_PRECONDITION, after noting it,
  // if a part of it was handed out before.
  devrt_status HandOut(uint64_t offset, uint64_t size, uint64_t now,
                       const devrt_call_site_v0& site);
  // Notes that the block is taken back.  NOT_FOUND if it is not handed out.
  devrt_status TakeBack(uint64_t offset, uint64_t now,
                        const devrt_call_site_v0& site);

  // True if no allocator has a segment.  Costs one load.
  bool is_empty() const { return empty_.load(std::memory_order_relaxed); }
  // Returns true if submission `op` may touch [offset, offset + size); else
  // false, with `*why` set.  Memory outside of segments is not judged.
  bool Check(uint64_t offset, uint64_t size, uint64_t op,
             std::string* why) const;

 private:
  struct Segment {
    uint64_t size;
    uint64_t forgotten;  // uses up to this submission are not judged
  };
  struct Part {
    uint64_t size;
    uint64_t handed;  // newest submission when it was handed out
    uint64_t taken;   // newest submission when it was taken back
    CallSite handed_at;
    CallSite taken_at;
  };

  std::string Forget(uint64_t offset, uint64_t size);
  const Segment* SegmentOf(uint64_t offset, uint64_t* begin) const;
  static std::string Describe(const Part& part);

  std::atomic<bool> empty_{true};
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Segment> segments_;  // by offset
  std::map<uint64_t, Part> parts_;        // by offset; disjoint
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_SUBALLOCATIONS_H_
