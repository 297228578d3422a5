// SPDX-License-Identifier: Apache-2.0
//
// KeptStream: a native stream that outlives its Stream, for others who go on
// with it and have none: consumers of memory (E8, E33).
//
//   const KeptStream kept(stream);   // which lives
//   ... its Stream ends: calls through `stream` are refused from then on ...
//   ... the native stream, its owner and its timeline are there as before ...
//
// Kept is what others can have a handle of and devrt can keep: created streams
// whose handle was given out, and adopted ones with an owner.  Default streams
// do not end, those of a thread end with it, and one that was adopted without
// an owner belongs to somebody who has told nobody for how long.
//
// Threads: any.  The end may destroy a native stream and drop an owner: no lock
// may be held.

#ifndef DEVRT_STREAMS_INTERNAL_KEPT_STREAM_H_
#define DEVRT_STREAMS_INTERNAL_KEPT_STREAM_H_

#include <utility>

#include "devrt/streams/stream.h"
#include "streams/internal/stream_record.h"

namespace devrt::internal {

class KeptStream {
 public:
  KeptStream() = default;
  explicit KeptStream(StreamRef stream) {
    StreamRecord* const record = stream.record();
    if (MayOutlive(*record) && CanKeep(*record)) Keep(record);
  }
  KeptStream(KeptStream&& other) noexcept
      : record_(std::exchange(other.record_, nullptr)) {}
  KeptStream& operator=(KeptStream&& other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~KeptStream() {
    if (record_ != nullptr) LetGo(record_);
  }

  explicit operator bool() const { return record_ != nullptr; }

  // Whether others may go on with the native stream when its Stream has ended.
  static bool MayOutlive(const StreamRecord& record) {
    return record.kind == StreamKind::kExternal ||
           (record.kind == StreamKind::kCreated &&
            record.exposed.load(std::memory_order_relaxed));
  }

  // For the recycler, at the end of a Stream: whether somebody keeps it, who
  // gives it back then.
  static bool TakesOver(StreamRecord* record) {
    return record->keepers.load(std::memory_order_acquire) != 0 &&
           HandOver(record);
  }

 private:
  static constexpr uint32_t kEnded = uint32_t{1} << 31;  // its Stream has

  static bool CanKeep(const StreamRecord& record) {
    return !record.timeline.load(std::memory_order_relaxed)
                ->native()
                .MayBeDestroyed();
  }
  void Keep(StreamRecord* record) {
    record->keepers.fetch_add(1, std::memory_order_relaxed);
    record_ = record;
  }
  static bool HandOver(StreamRecord* record);
  static void LetGo(StreamRecord* record);

  StreamRecord* record_ = nullptr;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_KEPT_STREAM_H_
