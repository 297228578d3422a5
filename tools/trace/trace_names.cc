// SPDX-License-Identifier: Apache-2.0
#include "tools/trace/trace_names.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "devrt/backends/abi/devrt_layer_helper.h"

namespace devrt::tools {
namespace {

using layer::CallId;
using trace::Record;

// A simulator's native handle for the per-thread default stream.  Handles of
// other default streams are below it.
constexpr uint64_t kNativePerThread = 2;
// Record::stream_number of all default streams.  A larger number belongs to one
// stream.
constexpr uint32_t kDefaultNumber = 1;
// The layer may convert a time of a threaded simulator to one that is too early
// by so many nanoseconds; see Clock::Align.
constexpr uint64_t kEarly = 500;
// The most threads that call one stream at once.
constexpr int kMostAtOnce = 64;

// Returns true if the call submits an operation to its stream.  A wait for an
// event does so only in a simulator's default streams.
bool Submits(const Record& r, const TraceNames::Stream& stream) {
  return r.status == 0 && !Is(r, CallId::stream_create) &&
         !Is(r, CallId::stream_destroy) && !Is(r, CallId::stream_query) &&
         !Is(r, CallId::stream_sync) && !Is(r, CallId::stream_native) &&
         !Is(r, CallId::capture_stream_is_capturing) &&
         !Is(r, CallId::capture_stream_capture_id) &&
         !Is(r, CallId::capture_capture_retain) &&
         (stream.is_default || !Is(r, CallId::stream_wait_event));
}

}  // namespace

bool IsEventCall(uint8_t call) {
  switch (static_cast<CallId>(call)) {
    case CallId::stream_wait_event:
    case CallId::event_create:
    case CallId::event_destroy:
    case CallId::event_record:
    case CallId::event_query:
    case CallId::event_sync:
    case CallId::event_elapsed_ns:
    case CallId::event_native:
      return true;
    default:
      return false;
  }
}

bool IsMemoryCall(uint8_t call) {
  switch (static_cast<CallId>(call)) {
    case CallId::alloc:
    case CallId::dealloc:
    case CallId::alloc_async:
    case CallId::dealloc_async:
    case CallId::host_alloc:
    case CallId::host_dealloc:
    case CallId::host_register:
    case CallId::host_unregister:
    case CallId::pointer_info:
    case CallId::copy_async:
    case CallId::copy_peer_async:
    case CallId::fill_async:
      return true;
    default:
      return false;
  }
}

TraceNames::TraceNames(const TraceData& data) {
  for (const Record& r : data.device) {
    if (r.call == trace::kClock && r.status == 0 &&
        data.Name(r.name) == "simulator") {
      converted_.insert(r.backend);
    }
  }
  std::vector<Call> calls;
  for (size_t i = 0; i < data.threads.size(); ++i) {
    for (const Record& r : data.threads[i].calls) calls.push_back({&r, i});
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const Call& a, const Call& b) {
                     return a.record->begin_ns < b.record->begin_ns;
                   });
  for (const Call& call : calls) {
    const Record& r = *call.record;
    if (r.status != 0) continue;
    if (Is(r, CallId::stream_create)) NoteStream(r);
    if (Is(r, CallId::event_create)) {
      event_handles_[{r.backend, r.object}].emplace_back(r.begin_ns,
                                                         ++events_[r.backend]);
    }
  }
  for (const Call& call : calls) {
    if (call.record->stream == 0) continue;
    const size_t stream = StreamOfCall(*call.record);
    if (!Submits(*call.record, streams_[stream])) continue;
    submissions_[streams_[stream].group].push_back({call, stream});
  }
  // If the record of a creation was overwritten, operations tell the device.
  for (const Record& r : data.device) {
    if (r.call != trace::kDeviceOp || r.stream_number <= kDefaultNumber) {
      continue;
    }
    Stream& stream = streams_[NumberedStream(r, std::nullopt)];
    if (stream.device == 0xff) stream.device = r.device;
  }
}

std::optional<size_t> TraceNames::ObjectAt(const Meanings& meanings,
                                           Handle handle, uint64_t when) {
  const auto found = meanings.find(handle);
  if (found == meanings.end()) return std::nullopt;
  const auto later = std::upper_bound(
      found->second.begin(), found->second.end(), when,
      [](uint64_t time, const auto& meaning) { return time < meaning.first; });
  if (later == found->second.begin()) return std::nullopt;
  return std::prev(later)->second;
}

size_t TraceNames::NewStream(uint8_t backend, uint8_t device,
                             std::string name) {
  Stream stream;
  stream.backend = backend;
  stream.device = device;
  stream.name = std::move(name);
  stream.group = streams_.size();
  streams_.push_back(std::move(stream));
  return streams_.size() - 1;
}

std::string TraceNames::NextName(const char* kind, uint8_t backend,
                                 uint8_t device) {
  return absl::StrCat(kind, " ", ++numbers_[{kind, backend, device}]);
}

size_t TraceNames::DefaultStream(uint8_t backend, uint8_t device) {
  const auto [found, is_new] =
      default_streams_.try_emplace({backend, device}, streams_.size());
  if (is_new) {
    NewStream(backend, device, "default stream");
    streams_.back().is_default = true;
  }
  return found->second;
}

size_t TraceNames::NextPerThread(uint8_t backend, uint8_t device) {
  const size_t stream = NewStream(
      backend, device,
      NextName("unnumbered per-thread default stream", backend, device));
  const auto [group, is_first] =
      per_thread_groups_.try_emplace({backend, device}, stream);
  streams_[stream].group = group->second;
  streams_[stream].per_thread = true;
  return stream;
}

void TraceNames::NoteStream(const Record& r) {
  std::vector<std::pair<uint64_t, size_t>>& meanings =
      stream_handles_[{r.backend, r.stream}];
  size_t stream = 0;
  switch (static_cast<uint32_t>(r.bytes)) {
    case DEVRT_STREAM_LEGACY:
      stream = DefaultStream(r.backend, r.device);
      break;
    case DEVRT_STREAM_PER_THREAD:
      // A thread that asks again gets the handle that it has.
      stream = !meanings.empty() && streams_[meanings.back().second].per_thread
                   ? meanings.back().second
                   : NextPerThread(r.backend, r.device);
      break;
    case DEVRT_STREAM_ADOPT: {
      const auto owner =
          ObjectAt(stream_handles_, {r.backend, r.object}, r.begin_ns);
      stream = r.object < kNativePerThread ? DefaultStream(r.backend, r.device)
               : owner.has_value()
                   ? *owner
                   : NewStream(r.backend, r.device,
                               NextName("adopted stream", r.backend, r.device));
      break;
    }
    default:
      // The name until a call tells the number of the program.
      stream = NewStream(r.backend, r.device,
                         NextName("unnumbered stream", r.backend, r.device));
  }
  meanings.emplace_back(r.begin_ns, stream);
}

size_t TraceNames::NumberedStream(const Record& r,
                                  std::optional<size_t> known) {
  const auto [found, is_new] = numbered_streams_.try_emplace(
      {r.backend, r.stream_number}, streams_.size());
  if (!is_new) return found->second;
  if (known.has_value() && streams_[*known].number == 0 &&
      !streams_[*known].is_default) {
    found->second = *known;
  } else {
    // The handle now belongs to another stream of the program: the stream
    // before it was destroyed, or the program adopted the native stream.
    Stream stream;
    if (known.has_value()) stream = streams_[*known];
    stream.backend = r.backend;
    streams_.push_back(std::move(stream));
  }
  Stream& stream = streams_[found->second];
  stream.number = r.stream_number;
  stream.name =
      absl::StrCat(stream.per_thread ? "per-thread default stream " : "stream ",
                   r.stream_number - kDefaultNumber);
  stream.group = found->second;  // its operations have the number
  return found->second;
}

size_t TraceNames::StreamOfCall(const Record& r) {
  const Handle handle(r.backend, r.stream);
  const auto known = ObjectAt(stream_handles_, handle, r.begin_ns);
  if (r.stream_number > kDefaultNumber) {
    const size_t streams = streams_.size();
    const size_t stream = NumberedStream(r, known);
    // Later records of the handle may lack the number.
    if (streams_.size() != streams) {
      auto& meanings = stream_handles_[handle];
      meanings.insert(std::upper_bound(meanings.begin(), meanings.end(),
                                       std::make_pair(r.begin_ns, stream)),
                      {r.begin_ns, stream});
    }
    return stream;
  }
  if (known.has_value()) return *known;
  // The record of the creation was overwritten.
  const size_t stream =
      NewStream(r.backend, 0xff, NextName("older stream", r.backend, 0xff));
  auto& meanings = stream_handles_[handle];
  meanings.insert(meanings.begin(), {0, stream});
  return stream;
}

std::string TraceNames::EventOfCall(const Record& r) {
  const Handle handle(r.backend, r.object);
  // event_create has the handle only at its end.
  const uint64_t when = Is(r, CallId::event_create) ? r.end_ns : r.begin_ns;
  std::optional<size_t> event = ObjectAt(event_handles_, handle, when);
  if (!event.has_value()) {
    event = ++events_[r.backend];
    auto& meanings = event_handles_[handle];
    meanings.insert(meanings.begin(), {0, *event});
  }
  return absl::StrCat("event ", *event);
}

void TraceNames::NoteSimulatorStream(const Record& r) {
  simulator_streams_[{r.backend, r.stream}] = r;
  known_simulator_streams_.erase({r.backend, r.stream});
}

std::optional<TraceNames::Submission> TraceNames::Submitter(size_t group,
                                                            const Record& op) {
  const auto found = submissions_.find(group);
  if (found == submissions_.end()) return std::nullopt;
  std::vector<Submission>& all = found->second;
  const uint64_t when = op.total;
  const uint64_t latest = when + (converted_.count(op.backend) ? kEarly : 0);
  // Operations of a stream come in order.  So the submitter is the first call
  // that was running then and has no operation yet, but a call that began at
  // that very time goes before it.  If all have operations, a call submits
  // several.
  Submission* best = nullptr;
  auto at = std::upper_bound(all.begin(), all.end(), latest,
                             [](uint64_t time, const Submission& s) {
                               return time < s.call.record->begin_ns;
                             });
  for (int i = 0; i < kMostAtOnce && at != all.begin(); ++i) {
    Submission& s = *--at;
    if (s.call.record->end_ns < when) continue;
    const bool exact = best != nullptr && !best->used &&
                       best->call.record->begin_ns == when &&
                       s.call.record->begin_ns != when;
    if (best == nullptr || (!s.used && !exact)) best = &s;
  }
  if (best == nullptr) return std::nullopt;
  best->used = true;
  return *best;
}

std::pair<size_t, std::optional<TraceNames::Call>> TraceNames::OfOperation(
    const Record& op) {
  if (op.stream_number > kDefaultNumber) {
    const size_t stream = NumberedStream(op, std::nullopt);
    const auto from = Submitter(streams_[stream].group, op);
    if (!from.has_value()) return {stream, std::nullopt};
    return {stream, from->call};
  }
  const Handle number(op.backend, op.stream);
  const auto simulated = simulator_streams_.find(number);
  Record named = op;
  named.begin_ns = op.total;
  bool is_sure = true;
  size_t stream = 0;
  if (simulated == simulator_streams_.end()) {
    stream = StreamOfCall(named);
    if (streams_[stream].device == 0xff) streams_[stream].device = op.device;
  } else if (const auto known = known_simulator_streams_.find(number);
             known != known_simulator_streams_.end()) {
    stream = known->second;
  } else if (simulated->second.object < kNativePerThread) {
    stream = DefaultStream(op.backend, op.device);
  } else if (simulated->second.object == kNativePerThread) {
    const auto group = per_thread_groups_.find({op.backend, op.device});
    is_sure = group == per_thread_groups_.end();
    stream = is_sure ? NextPerThread(op.backend, op.device) : group->second;
  } else {
    named.stream = simulated->second.object;
    stream = StreamOfCall(named);
    if (streams_[stream].device == 0xff) streams_[stream].device = op.device;
  }
  const std::optional<Submission> from = Submitter(streams_[stream].group, op);
  if (!is_sure && from.has_value()) stream = from->stream;
  if (simulated != simulator_streams_.end() && (is_sure || from.has_value())) {
    known_simulator_streams_[number] = stream;
  }
  if (!from.has_value()) return {stream, std::nullopt};
  return {stream, from->call};
}

}  // namespace devrt::tools
