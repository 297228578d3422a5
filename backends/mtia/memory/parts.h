// SPDX-License-Identifier: Apache-2.0
//
// devrt.suballocation/0: which parts of an allocator's memory are somebody's.
//
// A part is handed out and taken back between two submissions, and a use is
// judged by when it was submitted, not by when it runs: work of the former
// holder may still be under way behind take_back, in the order of its stream.
// What was known of a part goes when another is handed out over it; a use from
// before that is not judged any more.
//
// Thread-safe.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_PARTS_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_PARTS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>

#include "backends/mtia/table/call_site.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

class Parts {
 public:
  // Forgets all.
  void Reset();

  // Offsets are of a window.  `now` is the last submission so far.
  // ALREADY_EXISTS for what is carved.  What touches is one range.
  devrt_status Carve(uint64_t offset, uint64_t size);
  // Of a range or a part of one; NOT_FOUND for what is not carved,
  // FAILED_PRECONDITION where some of it is somebody's, which ends all the
  // same.
  devrt_status Uncarve(uint64_t offset, uint64_t size, uint64_t now);
  // FAILED_PRECONDITION where some of it is somebody's; it is handed out all
  // the same.
  devrt_status HandOut(uint64_t offset, uint64_t size, uint64_t now,
                       const devrt_call_site_v0& site);
  // NOT_FOUND for what is nobody's.
  devrt_status TakeBack(uint64_t offset, uint64_t now,
                        const devrt_call_site_v0& site);

  // Whether submission `op` may touch [offset, offset + size); else false, with
  // `*why` set.  Memory that nobody carved is not judged.
  bool Check(uint64_t offset, uint64_t size, uint64_t op,
             std::string* why) const;

 private:
  struct Segment {
    uint64_t size;
    uint64_t forgotten;  // uses up to this submission are not judged
  };
  struct Part {
    uint64_t size;
    uint64_t handed;  // the last submission before it was,
    uint64_t taken;   // and before it was taken back
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

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_PARTS_H_
