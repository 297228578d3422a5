// SPDX-License-Identifier: Apache-2.0
//
// Storage: the memory behind arrays, who must free it, and who still uses it.
//
// A use is a point of a stream's timeline (timeline.h): what was submitted up
// to it may touch the memory.  Uses that are complete are dropped when somebody
// looks; the newest of each stream is kept, reads and writes apart.
//
//   read   comes after all writes
//   write  comes after all reads and writes
//
// A stream that is known to be after a use (by being the same, by completion,
// by an Order) waits for nothing: same-stream work issues no call of the
// backend.
//
// The end of the last array ends the Storage: memory of devrt's goes back to
// its resource in the order of the home stream, which the resource's own marks
// hold back (memory.h); what is borrowed keeps its owner until all uses are
// complete (L4), without a wait.
//
// Plain host memory has no uses: who touches it has waited (O7).
//
// Threads: any.  `mutex` is a leaf but for Ordering, which see.

#ifndef DEVRT_ARRAYS_INTERNAL_STORAGE_H_
#define DEVRT_ARRAYS_INTERNAL_STORAGE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "devrt/arrays/place.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"

namespace devrt {
class Array;
}  // namespace devrt

namespace devrt::internal {

class Storage {
 public:
  // `bytes` of the place's memory; device memory on its current stream.  Zero
  // bytes: no memory, but a place.
  static absl::StatusOr<std::shared_ptr<Storage>> Allocate(const Place& place,
                                                           uint64_t bytes,
                                                           CallSite site);
  // Borrowed.  `stream`: see PointerOptions.
  struct Borrowed {
    void* base = nullptr;
    uint64_t bytes = 0;
    std::shared_ptr<void> owner;
    std::optional<StreamRef> stream;
  };
  static std::shared_ptr<Storage> Borrow(const Place& place, Borrowed borrowed);

  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  const Place& place() const { return place_; }
  void* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  std::optional<StreamRef> home_stream() const;
  absl::Status SetDeallocationStream(StreamRef stream);

  // See Array.
  absl::Status NoteUse(StreamRef stream, bool writes, CallSite site);
  absl::Status RecordUse(StreamRef stream, CallSite site);
  absl::Status OrderBefore(StreamRef stream, bool for_write, CallSite site);
  absl::Status Ready(CallSite site);
  absl::StatusOr<bool> IsReady(CallSite site);

 protected:
  Storage(const Place& place, void* base, uint64_t bytes)
      : place_(place), base_(base), bytes_(bytes) {}

 private:
  const Place place_;
  void* const base_;
  const uint64_t bytes_;
};

// One operation of the array layer on `stream`.  Joins what other streams do to
// the operands, calls `enqueue`, and notes it as a use of each operand, all as
// one step for other threads that use the same memory.  If a join or `enqueue`
// fails, no use is noted... of what was not enqueued; joins stay.
struct Touched {
  Storage* storage;
  bool writes;
};
absl::Status RunOrdered(StreamRef stream, absl::Span<const Touched> touched,
                        CallSite site,
                        absl::FunctionRef<absl::Status()> enqueue);

// The stream on which operations on memory there run: the current one of its
// device.  Not for plain host memory.
StreamRef CurrentStreamOf(const Place& place);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_INTERNAL_STORAGE_H_
