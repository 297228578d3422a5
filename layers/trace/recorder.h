// SPDX-License-Identifier: Apache-2.0
//
// The writing end of a ring file: one ring a thread, no locks where records are
// written.

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

// Threads: any.  Lives as long as the process.
class Recorder {
 public:
  // The process's one, for the file that DEVRT_TRACE names; nullptr with
  // `*error` set.  A file of 0 bytes is made a ring file; one that another
  // process writes to is refused.
  static Recorder* Open(const char* path, std::string* error);

  // Into the ring of the calling thread.
  void Write(const Record& record);

  // The index of a backend, to be named in its records.
  uint8_t AddBackend(const char* name);
  // A ring for operations of devices; the caller is alone with it.
  RingHeader* DeviceRing() { return NewRing(); }
  void Push(RingHeader* ring, const Record& record);
  void CountLost(Loss why, uint64_t records) {
    header_->lost[static_cast<uint32_t>(why)].fetch_add(
        records, std::memory_order_relaxed);
  }

  // The number of a text: of one that lives as long as the process, and of one
  // that may change.
  uint32_t StaticName(const char* text);
  uint32_t Name(const char* text);

 private:
  explicit Recorder(FileHeader* header);
  // nullptr if there are no more, or no room for one on the disk.
  RingHeader* NewRing();
  // That of the thread that ended first, without its records; nullptr if none
  // has ended.
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
  std::deque<RingHeader*> ended_;  // in order of their threads' ends
  std::mutex names_mutex_;
  std::unordered_map<std::string, uint32_t> names_;
};

}  // namespace devrt::trace

#endif  // DEVRT_LAYERS_TRACE_RECORDER_H_
