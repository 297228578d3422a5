// SPDX-License-Identifier: Apache-2.0
//
// The layer in front of the backend under test: writes down the last calls, as
// text, in memory that outlives the worker.

#ifndef DEVRT_CTS_RECORDER_H_
#define DEVRT_CTS_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/cts/cts.h"

namespace devrt::cts {

// In memory shared by supervisor and worker.  What a worker has written stays
// when it crashes; what it scribbled over is text all the same.
class CallRing {
 public:
  static constexpr uint64_t kLines = 256;
  static constexpr uint64_t kWidth = 152;

  // The number of a new line, from 1.
  uint64_t Take() { return last_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // The text of that line, `kWidth` characters with a NUL among them; again
  // for another text.  Nothing once a newer line has its place.
  void Write(uint64_t number, const char* text);

  // The last ones, the oldest first.
  std::vector<std::string> Lines() const;
  // Nobody may write meanwhile.
  void Clear();

 private:
  struct Line {
    // Twice the number, and 1 more while somebody writes.
    std::atomic<uint64_t> state;
    char text[kWidth];
  };
  std::atomic<uint64_t> last_;
  Line lines_[kLines];
};

// What stands in front of the backend under test.
struct Front {
  void* self = nullptr;
  const devrt_ops_v0* ops = nullptr;
  uint64_t capabilities = 0;
  const devrt_host_v0* host = nullptr;
};

// The layer "devrt_cts", for RegisterLayer.
extern const devrt_manifest_v0 kRecorderManifest;
devrt_status OpenRecorder(const devrt_host_v0* host, devrt_layer_v0* layer);

// Where calls are written; nullptr: nowhere.
void SetCallRing(CallRing* ring);
// Told the name of each call from now on, before it is made; nullptr: nobody.
void WatchCalls(void (*watcher)(const char* call));
// A test begins: handles are numbered from 1 again, and answers forgotten.
void ForgetTest();

// Slots that the backend owes, as every backend has them or as it promises
// them, and that answered UNIMPLEMENTED in this test.
std::vector<UnwrittenSlot> UnwrittenSlots();
// Slots that were called since the process began, by name.
std::vector<std::string> CalledSlots();
// Slots that every backend has, in the order of the table.
std::vector<std::string> RequiredSlots();
// The front of the backend of that name; ops is nullptr before it is opened.
Front FrontOf(const std::string& backend);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RECORDER_H_
