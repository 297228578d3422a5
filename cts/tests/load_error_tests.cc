// SPDX-License-Identifier: Apache-2.0
//
// Calls that fail: what they leave unchanged, and what they return.
#include <climits>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/every_call.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace load_error_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kTooMuch = uint64_t{1} << 60;

// An out-parameter that shows if a call wrote to it.
template <typename T>
class Untouched {
 public:
  Untouched() { std::memset(bytes_, kMark, sizeof bytes_); }
  T* get() { return reinterpret_cast<T*>(bytes_); }
  bool HeldStream() const {
    for (const unsigned char byte : bytes_) {
      if (byte != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kMark = 0xa5;
  alignas(T) unsigned char bytes_[sizeof(T)];
};

// The slot's last argument is the out-parameter.
template <auto kSlot, typename Out, typename... Args>
Result FailsAndKeeps(Test& t, const std::string& call, Args... args) {
  Untouched<Out> out;
  const Result result = t.machine().Call<kSlot>(args..., out.get());
  t.Expect(!result.ok(), call + " is refused");
  t.Expect(out.HeldStream(), call + " leaves its out-parameter as it was");
  return result;
}

// INVALID_ARGUMENT, too.
template <auto kSlot, typename Out, typename... Args>
void RefusesAndKeeps(Test& t, const std::string& call, Args... args) {
  t.Code(FailsAndKeeps<kSlot, Out>(t, call, args...), DEVRT_INVALID_ARGUMENT,
         call);
}

devrt_stream_desc_v0 Desc(uint32_t kind) {
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = kind;
  return desc;
}

void TryOrdinal(Test& t, uint32_t none) {
  Machine& m = t.machine();
  const std::string on = absl::StrCat(" on device ", static_cast<int>(none));
  Untouched<devrt_device_props_v0> props;
  Untouched<devrt_device_props_v0> as_before;
  props.get()->struct_size = as_before.get()->struct_size =
      sizeof(devrt_device_props_v0);
  t.Code(m.Call<&Ops::device_props>(none, props.get()), DEVRT_INVALID_ARGUMENT,
         "device_props" + on);
  t.Expect(std::memcmp(props.get(), as_before.get(),
                       sizeof(devrt_device_props_v0)) == 0,
           "device_props" + on + " leaves the caller's struct as it was");
  Untouched<uint64_t> free, total;
  t.Code(m.Call<&Ops::mem_info>(none, free.get(), total.get()),
         DEVRT_INVALID_ARGUMENT, "mem_info" + on);
  t.Expect(free.HeldStream() && total.HeldStream(),
           "mem_info" + on + " leaves its out-parameters as they were");
  RefusesAndKeeps<&Ops::alloc, void*>(t, "alloc" + on, none, uint64_t{4096},
                                      uint64_t{0});
  for (const uint32_t kind :
       {DEVRT_STREAM_CREATE, DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
    const devrt_stream_desc_v0 desc = Desc(kind);
    RefusesAndKeeps<&Ops::stream_create, devrt_stream>(
        t, absl::StrCat("stream_create of kind ", kind, on), none, &desc);
  }
  RefusesAndKeeps<&Ops::event_create, devrt_event>(t, "event_create" + on, none,
                                                   0u);
  RefusesAndKeeps<&Ops::context_enter, devrt_context>(t, "context_enter" + on,
                                                      none);
  t.Code(m.Call<&Ops::device_sync>(none), DEVRT_INVALID_ARGUMENT,
         "device_sync" + on);
  if (m.Has(DEVRT_CAP_PINNED_HOST)) {
    RefusesAndKeeps<&Ops::host_alloc, void*>(t, "host_alloc" + on, none,
                                             uint64_t{4096}, uint64_t{0});
  }
  if (m.Has(DEVRT_CAP_PEER_ACCESS)) {
    RefusesAndKeeps<&Ops::peer_can_access, uint32_t>(t, "peer_can_access" + on,
                                                     t.device(), none);
    RefusesAndKeeps<&Ops::peer_can_access, uint32_t>(t, "peer_can_access" + on,
                                                     none, t.device());
  }
}

void NoSuchOrdinal(Test& t) {
  const uint32_t count = NoSuchDevice(t);
  for (const uint32_t none :
       {count, count + 1, uint32_t{INT_MAX}, UINT32_MAX}) {
    TryOrdinal(t, none);
  }
}

void TooMuchMemory(Test& t) {
  for (const uint32_t device : t.devices()) {
    t.Code(FailsAndKeeps<&Ops::alloc, void*>(t, "an exabyte", device, kTooMuch,
                                             uint64_t{0}),
           DEVRT_RESOURCE_EXHAUSTED, "an exabyte");
    const uint64_t more = t.machine().props(device).total_memory + 1;
    t.Code(FailsAndKeeps<&Ops::alloc, void*>(t, "more than there is", device,
                                             more, uint64_t{0}),
           DEVRT_RESOURCE_EXHAUSTED, "more than there is");
    if (!t.machine().Has(DEVRT_CAP_PINNED_HOST)) continue;
    FailsAndKeeps<&Ops::host_alloc, void*>(t, "an exabyte of pinned memory",
                                           device, kTooMuch, uint64_t{0});
  }
}

void NoSuchStream(Test& t) {
  for (const uint32_t kind : {uint32_t{4}, UINT32_MAX}) {
    const devrt_stream_desc_v0 desc = Desc(kind);
    FailsAndKeeps<&Ops::stream_create, devrt_stream>(
        t, absl::StrCat("stream_create of kind ", kind), t.device(), &desc);
  }
}

void NoSuchTime(Test& t) {
  const RawEvent a(t, t.device(), DEVRT_EVENT_TIMING);
  const RawEvent b(t, t.device(), DEVRT_EVENT_TIMING);
  RefusesAndKeeps<&Ops::event_elapsed_ns, int64_t>(
      t, "elapsed time of events that were never recorded", a.handle(),
      b.handle());
}

// The object must exist, and its text must be useful to a reader.
void ErrorsAreObjects(Test& t) {
  Machine& m = t.machine();
  const devrt_host_v0* const host = m.host();
  devrt_status errors[4] = {};
  void* ptr = nullptr;
  devrt_event event = nullptr;
  const uint32_t none = NoSuchDevice(t);
  errors[0] = m.ops()->alloc(m.self(), none, 1, 0, &ptr);
  errors[1] = m.ops()->event_create(m.self(), none, 0, &event);
  errors[2] = m.ops()->device_sync(m.self(), none);
  errors[3] = m.ops()->alloc(m.self(), t.device(), kTooMuch, 0, &ptr);
  for (int i = 0; i < 4; ++i) {
    t.Require(errors[i] != nullptr, "the call fails");
    for (int k = 0; k < i; ++k) {
      t.Expect(errors[i] != errors[k], "each error is an object of its own");
    }
  }
  for (const devrt_status error : errors) {
    const devrt_code code = host->error_code(host->host, error);
    t.Expect(code > DEVRT_OK && code <= DEVRT_DATA_LOSS,
             absl::StrCat("an error's code is one of DEVRT_, not ", code));
    uint64_t size = 0;
    const char* const text = host->error_text(host->host, error, &size);
    t.Expect(size > 0, "an error has a text");
    t.Expect(std::memchr(text, 0, size) == nullptr,
             "an error's text holds no NUL");
    t.Expect(size == 0 || text[size - 1] != '\n',
             "an error's text does not end with a newline");
    host->error_destroy(host->host, error);
  }
}

// A failure uses up nothing: no memory, no streams and no events.
void FailuresTakeNothing(Test& t) {
  Machine& m = t.machine();
  const auto simulator = m.simulator();
  SimulatorStats before;
  if (simulator) before = t.Require(simulator->Stats(), "stats");
  uint64_t free = 0, total = 0, after = 0;
  t.Require(m.Call<&Ops::mem_info>(t.device(), &free, &total), "mem_info");
  for (int i = 0; i < 100; ++i) {
    void* ptr = nullptr;
    devrt_stream stream = nullptr;
    devrt_event event = nullptr;
    const devrt_stream_desc_v0 desc = Desc(DEVRT_STREAM_CREATE);
    const uint32_t none = NoSuchDevice(t);
    m.Call<&Ops::alloc>(t.device(), kTooMuch, uint64_t{0}, &ptr);
    m.Call<&Ops::alloc>(none, uint64_t{1} << 20, uint64_t{0}, &ptr);
    m.Call<&Ops::stream_create>(none, &desc, &stream);
    m.Call<&Ops::event_create>(none, 0u, &event);
  }
  t.Require(m.Call<&Ops::mem_info>(t.device(), &after, &total), "mem_info");
  if (!simulator) return;
  t.Equal(after, free, "free memory");
  const SimulatorStats now = t.Require(simulator->Stats(), "stats");
  t.Equal(now.live_streams, before.live_streams, "live streams");
  t.Equal(now.live_events, before.live_events, "live events");
  t.Equal(now.live_blocks, before.live_blocks, "live blocks");
}

constexpr TestCase kTests[] = {
    {"load.no_such_ordinal", "C3",
     "A device ordinal that does not exist is INVALID_ARGUMENT; the call's "
     "out-parameters stay as they were.",
     &NoSuchOrdinal},
    {"load.too_much_memory", "",
     "An allocation that does not fit is RESOURCE_EXHAUSTED and leaves its "
     "out-parameter as it was (contract P7).",
     &TooMuchMemory},
    {"load.no_such_stream_kind", "C14",
     "A kind of stream that does not exist is refused; the out-parameter stays "
     "as it was.",
     &NoSuchStream},
    {"load.no_such_time", "C35",
     "An elapsed time that does not exist leaves its out-parameter as it was.",
     &NoSuchTime, DEVRT_CAP_EVENT_TIMING},
    {"load.errors_are_objects", "",
     "An error is an object of the host's with a code and one line of text, "
     "owned by the receiver.",
     &ErrorsAreObjects},
    {"load.failures_take_nothing", "",
     "A call that fails leaves all state as it was (contract P7).",
     &FailuresTakeNothing, 0, kNeedsSim},
};

}  // namespace
}  // namespace load_error_tests

absl::Span<const TestCase> LoadErrorTests() { return load_error_tests::kTests; }

}  // namespace devrt::cts
