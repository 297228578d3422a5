// SPDX-License-Identifier: Apache-2.0
//
// The last calls of a worker as text, for the report of a failure.
//
//   const uint64_t number = ring->ReserveLine();
//   ring->Write(number, "event_sync(event 1) has not returned");
//   ...                                        // the call
//   ring->Finish(number, "event_sync(event 1)");
//
// Lies in memory shared by supervisor and worker, so its lines survive a crash
// of the worker.  Lines that a worker overwrote by mistake still end.
//
// Threads: any, except where a function says otherwise.

#ifndef DEVRT_CTS_CALL_RING_H_
#define DEVRT_CTS_CALL_RING_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace devrt::cts {

class CallRing {
 public:
  static constexpr uint64_t kLines = 256;
  static constexpr uint64_t kWidth = 152;

  // Reserves a new line and returns its number, from 1.
  uint64_t ReserveLine() {
    return last_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // Sets the text of a line: at most kWidth characters with the NUL.  May be
  // called again for the line.  Does nothing if a newer line has its place.
  void Write(uint64_t number, const char* text);
  // Writes the last text of a line.  A newest line with the text of the line
  // before it is given back, and the line before counts it: a loop that polls
  // would otherwise drive the calls before it out of the ring.
  void Finish(uint64_t number, const char* text);

  // The last lines, the oldest first.  A line that stands for several calls
  // ends in their number, "stream_query(stream 1) -> 0 (1234 times)".
  std::vector<std::string> Lines() const;
  // No other thread or process may write meanwhile.
  void Clear();

 private:
  struct Line {
    // Twice the line's number; plus 1 during a write.
    std::atomic<uint64_t> state;
    uint64_t times;
    char text[kWidth];
  };
  bool CountAtTheLineBefore(uint64_t number, const char* text);

  std::atomic<uint64_t> last_;
  Line lines_[kLines];
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_CALL_RING_H_
