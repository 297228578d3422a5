// SPDX-License-Identifier: Apache-2.0
//
// Names for the handles in a trace, "stream 2" and "event 7", and the call that
// submitted each operation.  A backend uses a handle again after its object is
// gone, and so each look-up takes a time.  A stream has its number in the
// program, if the records tell that number.

#ifndef DEVRT_TOOLS_TRACE_TRACE_NAMES_H_
#define DEVRT_TOOLS_TRACE_TRACE_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/trace/ring_reader.h"

namespace devrt::tools {

inline bool Is(const trace::Record& r, layer::CallId id) {
  return r.call == static_cast<uint8_t>(id);
}

// These take a value of layer::CallId.
bool IsEventCall(uint8_t call);
bool IsMemoryCall(uint8_t call);

class TraceNames {
 public:
  struct Stream {
    uint8_t backend = 0;
    uint8_t device = 0xff;  // 0xff: unknown
    std::string name;       // "stream 2", "default stream"
    uint32_t number = 0;    // Record::stream_number; 0: unknown
    // An operation is matched with calls on any stream of its group: without
    // the program's numbers, the simulator's records do not tell the per-thread
    // default streams of two threads apart.
    size_t group = 0;
    bool per_thread = false;
    bool is_default = false;
  };
  struct Call {
    const trace::Record* record = nullptr;
    size_t thread = 0;  // index in TraceData::threads
  };

  explicit TraceNames(const TraceData& data);

  const Stream& stream(size_t index) const { return streams_[index]; }
  // The stream of a call.
  size_t StreamOfCall(const trace::Record& call);
  // The stream of a kDeviceOp, and the call that submitted it, if that call has
  // a record.  Must be called in the order of the records.
  std::pair<size_t, std::optional<Call>> OfOperation(const trace::Record& op);
  // Takes a record kSimulatorStream.
  void NoteSimulatorStream(const trace::Record& record);
  std::string EventOfCall(const trace::Record& call);

 private:
  using Handle = std::pair<uint8_t, uint64_t>;  // the backend and its handle
  // From each time on, the handle stands for the object with that index.
  using Meanings = std::map<Handle, std::vector<std::pair<uint64_t, size_t>>>;
  struct Submission {
    Call call;
    size_t stream;
    bool used = false;
  };

  static std::optional<size_t> ObjectAt(const Meanings& meanings, Handle handle,
                                        uint64_t when);
  size_t NewStream(uint8_t backend, uint8_t device, std::string name);
  size_t DefaultStream(uint8_t backend, uint8_t device);
  size_t NextPerThread(uint8_t backend, uint8_t device);
  // The stream with the program's number in `r`.  `known` is the stream that
  // the handle in `r` has stood for so far.
  size_t NumberedStream(const trace::Record& r, std::optional<size_t> known);
  std::string NextName(const char* kind, uint8_t backend, uint8_t device);
  void NoteStream(const trace::Record& created);
  // The call that submitted `op` to a stream of the group.
  std::optional<Submission> Submitter(size_t group, const trace::Record& op);

  std::set<uint8_t> converted_;  // backends with times that may be early
  std::vector<Stream> streams_;
  Meanings stream_handles_;
  Meanings event_handles_;
  std::map<std::pair<uint8_t, uint32_t>, size_t> numbered_streams_;
  std::map<uint8_t, size_t> events_;  // events so far, by backend
  std::map<std::pair<uint8_t, uint8_t>, size_t> default_streams_;
  std::map<std::pair<uint8_t, uint8_t>, size_t> per_thread_groups_;
  std::map<std::tuple<std::string, uint8_t, uint8_t>, size_t> numbers_;
  std::map<size_t, std::vector<Submission>> submissions_;  // by group
  // By the simulator's number, for streams without a number in the program.
  std::map<Handle, trace::Record> simulator_streams_;
  std::map<Handle, size_t> known_simulator_streams_;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TRACE_TRACE_NAMES_H_
