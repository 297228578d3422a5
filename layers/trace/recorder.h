// SPDX-License-Identifier: Apache-2.0
//
// Writes a ring file.  Each thread has a ring of its own, so that no lock is
// taken to write a record.

#ifndef DEVRT_LAYERS_TRACE_RECORDER_H_
#define DEVRT_LAYERS_TRACE_RECORDER_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

#include "layers/trace/ring_file.h"

namespace devrt::trace {

// Threads: any.  Lives until the process ends.
class Recorder {
 public:
  // Opens the process's recorder on the file `path` (DEVRT_TRACE).  Returns
  // nullptr and sets `*error` on failure.  An empty file becomes a ring file; a
  // file that another process writes to is refused.
  static Recorder* Open(const char* path, std::string* error);

  // Writes to the calling thread's ring.
  void Write(const Record& record);

  // Registers a backend; returns its index for records.
  uint8_t AddBackend(const char* name);
  // A ring for operations of devices; the caller must be its only writer.
  RingHeader* DeviceRing() { return NewRing(); }
  void Push(RingHeader* ring, const Record& record);
  void CountLost(Loss why, uint64_t records) {
    header_->lost[static_cast<uint32_t>(why)].fetch_add(
        records, std::memory_order_relaxed);
  }

  // The number of a text: StaticName for a text with static storage duration,
  // Name for a text that may change.
  uint32_t StaticName(const char* text);
  uint32_t Name(const char* text);

 private:
  explicit Recorder(FileHeader* header);
  // nullptr if all rings are in use, or the disk has no room for another one.
  RingHeader* NewRing();
  // The emptied ring of the thread that ended first; nullptr if no thread has
  // ended.
  RingHeader* EndedRing();
  static void ThreadEnds(void* recorder);
  void CountWithoutRing() {
    CountLost(no_space_.load(std::memory_order_relaxed) ? Loss::kNoSpace
                                                        : Loss::kNoRing,
              1);
  }
  RingHeader* ThreadRing();

  FileHeader* const header_;
  pthread_key_t thread_end_{};
  std::atomic<bool> no_space_{false};
  std::mutex ended_mutex_;
  std::deque<RingHeader*> ended_;  // in the order in which their threads ended
  std::mutex names_mutex_;
  std::unordered_map<std::string, uint32_t> names_;
};

}  // namespace devrt::trace

#endif  // DEVRT_LAYERS_TRACE_RECORDER_H_
