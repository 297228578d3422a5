// SPDX-License-Identifier: Apache-2.0
//
// KeptStream: keeps a native stream alive after its Stream has ended, for a
// consumer of memory that goes on with the native handle (E8, E33).
//
//   const KeptStream kept(stream);   // `stream` lives
//   ... the Stream is destroyed: calls through `stream` are refused ...
//   ... the native stream, its owner and its timeline stay ...
//
// Only some streams are kept: created streams whose handle was given out, and
// adopted streams with an owner.  Default streams do not end.  A per-thread
// stream ends with its thread.  devrt does not know how long a stream lives
// that was adopted without an owner.
//
// Threads: any.  The destructor may destroy a native stream and release an
// owner: no lock may be held.

#ifndef DEVRT_STREAMS_OBJECTS_KEPT_STREAM_H_
#define DEVRT_STREAMS_OBJECTS_KEPT_STREAM_H_

#include <utility>

#include "devrt/streams/stream.h"
#include "streams/objects/stream_record.h"

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
    if (record_ != nullptr) ReleaseRecord(record_);
  }

  explicit operator bool() const { return record_ != nullptr; }

  // Returns true if others may use the native stream after its Stream.
  static bool MayOutlive(const StreamRecord& record) {
    return record.kind == StreamKind::kExternal ||
           (record.kind == StreamKind::kCreated &&
            record.exposed.load(std::memory_order_relaxed));
  }

  // For the recycler, at the end of a Stream.  Returns true if a KeptStream
  // keeps the record: the last one gives it back to the recycler.
  static bool KeepsAfterEnd(StreamRecord* record) {
    return record->keepers.load(std::memory_order_acquire) != 0 &&
           MarkEnded(record);
  }

 private:
  static constexpr uint32_t kEnded = uint32_t{1} << 31;  // the Stream has ended

  static bool CanKeep(const StreamRecord& record) {
    return !record.timeline.load(std::memory_order_relaxed)
                ->native()
                .MayBeDestroyed();
  }
  void Keep(StreamRecord* record) {
    record->keepers.fetch_add(1, std::memory_order_relaxed);
    record_ = record;
  }
  static bool MarkEnded(StreamRecord* record);
  static void ReleaseRecord(StreamRecord* record);

  StreamRecord* record_ = nullptr;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_KEPT_STREAM_H_
