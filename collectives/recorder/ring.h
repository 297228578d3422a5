// SPDX-License-Identifier: Apache-2.0
//
// Ring: the newest calls of one communicator of one rank, in memory of the
// process or in a file.
//
//   offset 0         RingHeader
//   kNamesOffset     NUL-terminated texts; a name is its offset in there + 1
//   kRecordsOffset   kRecords times CallRecord
//
// The kernel keeps what was written to the file's pages when the process is
// killed, and lets its lock of the file go: so a reader on this machine sees
// that the rank is gone.  The file has all its room from the beginning, so that
// a full disk is an error of Make, and no signal later.  Numbers have the byte
// order of this machine.
//
// Threads: one at a time calls Append, Withdraw and End; any thread reads.

#ifndef DEVRT_COLLECTIVES_RECORDER_RING_H_
#define DEVRT_COLLECTIVES_RECORDER_RING_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"

namespace devrt::collectives::internal {

inline constexpr char kRingMagic[8] = {'D', 'E', 'V', 'R', 'T', 'C', 'O', 'L'};
inline constexpr uint32_t kRingVersion = 1;
inline constexpr uint64_t kRecords = 4096;
inline constexpr uint64_t kNamesOffset = 4096;
inline constexpr uint64_t kNamesBytes = 60 * 1024;
inline constexpr uint64_t kRecordsOffset = kNamesOffset + kNamesBytes;

// One submitted operation.
struct CallRecord {
  uint64_t number;     // of the call, from 1; 0: the record is being written
  uint64_t sequence;   // of the collective, from 1; 0 for send and recv
  uint64_t submit_ns;  // CLOCK_MONOTONIC
  uint64_t end_ns;     // 0: not known to be complete
  uint64_t count;
  uint64_t stream;  // StreamRef::id()
  uint32_t dtype;   // DEVRT_DTYPE
  int32_t root_or_peer;
  uint32_t line : 22;  // of the call; 0 if it does not fit
  uint32_t op : 6;     // DEVRT_COLLECTIVE_*
  uint32_t reduction : 4;
  uint32_t file;  // a name; 0 if unknown
};
static_assert(sizeof(CallRecord) == 64);

struct RingHeader {
  char magic[8];
  uint32_t version;
  uint32_t pid;
  uint64_t key;  // equal on all ranks of one communicator, else different
  uint64_t id;   // Communicator::id()
  uint32_t rank;
  uint32_t size;
  std::atomic<uint64_t> written;     // calls in all
  std::atomic<uint64_t> names_used;  // bytes
  char label[256];                   // the communicator, for people
  std::atomic<uint32_t> failed;      // 1: the communicator has failed
  char failure[2048];                // why, shortened
  uint64_t host;                     // HostNumber(); 0: the file has no lock
  std::atomic<uint32_t> left;        // 1: it has left in good order
  uint64_t pid_namespace;            // NamespaceNumber(), in which pid counts
};
static_assert(sizeof(RingHeader) <= kNamesOffset);

// What Append takes.
struct Call {
  uint32_t op = 0;  // DEVRT_COLLECTIVE_*
  uint32_t reduction = 0;
  uint64_t sequence = 0;
  uint64_t count = 0;
  uint64_t stream = 0;
  uint32_t dtype = 0;
  int32_t root_or_peer = 0;
  CallSite site;
};

// "all_reduce(float32 x 4096, sum)".
std::string CallText(uint32_t op, uint32_t dtype, uint64_t count,
                     uint32_t reduction, int32_t root_or_peer);

// How the names of the files of one communicator begin.
std::string FileBegin(uint64_t key);

uint64_t NowNs();  // CLOCK_MONOTONIC

// Differs between machines, and between runs of one; 0 if it is not known.
uint64_t HostNumber();
// The number of the process's PID namespace; 0: it is not known.
uint64_t NamespaceNumber();

class Ring {
 public:
  struct Identity {
    uint64_t key = 0;
    uint64_t id = 0;
    uint32_t rank = 0;
    uint32_t size = 0;
    std::string label;
  };
  // In a file of `folder`, or in memory if it is empty.  A file that cannot be
  // made has the error of the system (RESOURCE_EXHAUSTED for a full disk), and
  // nothing of it stays.
  static absl::StatusOr<std::unique_ptr<Ring>> Make(const Identity& identity,
                                                    std::string_view folder);
  ~Ring();
  // Removes the file: no reader shall find it.
  void Discard();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Returns the number of the call.
  uint64_t Append(const Call& call, uint64_t now_ns = NowNs()) {
    const uint64_t number =
        header()->written.load(std::memory_order_relaxed) + 1;
    CallRecord* const record = At(number);
    record->number = 0;
    std::atomic_thread_fence(std::memory_order_release);
    record->sequence = call.sequence;
    record->submit_ns = now_ns;
    record->end_ns = 0;
    record->count = call.count;
    record->stream = call.stream;
    record->dtype = call.dtype;
    record->root_or_peer = call.root_or_peer;
    record->line = call.site.line >= 0 && call.site.line < 1 << 22
                       ? static_cast<uint32_t>(call.site.line)
                       : 0;
    record->op = call.op;
    record->reduction = call.reduction;
    record->file = call.site.file == last_name_.first ? last_name_.second
                                                      : NameOf(call.site.file);
    std::atomic_thread_fence(std::memory_order_release);
    record->number = number;
    header()->written.store(number, std::memory_order_release);
    return number;
  }
  // Takes the newest call back: it was refused, and nothing of it was done.
  void Withdraw();
  // The call is complete.
  void End(uint64_t number);
  // Marks the communicator as failed.
  void Fail(std::string_view why);
  // The rank leaves in good order, as it also does with the Ring: if the
  // process ends now, nothing is lost.
  void Leave();

  // Where its file lies; empty: it is in memory.
  std::string_view folder() const {
    return std::string_view(path_).substr(0, path_.rfind('/'));
  }

  uint64_t written() const {
    return header()->written.load(std::memory_order_acquire);
  }
  // The record of a call; nullptr if a later one has taken its place.
  const CallRecord* Find(uint64_t number) const;
  // The text of a name.
  const char* Name(uint32_t name) const;
  // `most` calls as bytes, of which RankFile::FromImage makes a RankFile: those
  // from `from` on, and the `newest` ones.  If there are fewer from `from` on,
  // or it is 0, the newest `most` calls.  The caller keeps writers away.
  std::string Image(uint64_t from, uint64_t most, uint64_t newest) const;

 private:
  Ring(char* base, int fd, std::string path)
      : base_(base), fd_(fd), path_(std::move(path)) {}
  RingHeader* header() const { return reinterpret_cast<RingHeader*>(base_); }
  CallRecord* At(uint64_t number) const {
    return reinterpret_cast<CallRecord*>(base_ + kRecordsOffset) +
           (number - 1) % kRecords;
  }
  uint32_t NameOf(const char* text);

  char* const base_;
  const int fd_;  // -1: in memory
  const std::string path_;
  absl::flat_hash_map<const char*, uint32_t> names_;
  // The newest of them: most calls have the site of the one before.  Before the
  // first: the name 0 of an unknown site.
  std::pair<const char*, uint32_t> last_name_{nullptr, 0};
};

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_RECORDER_RING_H_
