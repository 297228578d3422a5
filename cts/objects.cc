// SPDX-License-Identifier: Apache-2.0
#include "cts/objects.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

namespace devrt::cts {
namespace {

using Ops = devrt_ops_v0;

// A probe's flag opens by itself after this, so that a failing test ends.
constexpr uint64_t kOwnFlagTimeout = 10'000'000'000;
constexpr std::chrono::seconds kHostFlagTimeout(10);

// The answer of a slot that says 0 or 1.  Another word ends the test, because
// the test cannot tell which of the two the plugin means.
bool YesOrNo(Test& t, const char* slot, uint32_t word) {
  if (word < 2) return word == 1;
  t.Fail(absl::StrCat(slot, " answered ", word, ", not 0 or 1"));
  throw Abandon{};
}

// A destructor reports a failure this way, because it cannot end the test.
void Note(Test* t, const Result& result, const char* what) {
  if (!result.ok()) t->Fail(absl::StrCat(what, ": ", ToString(result)));
}

// A host function of a RawStream.
struct Closure {
  Machine* machine;
  std::function<void(devrt_code)> body;
};

Closure* Keep(std::unique_ptr<Closure> closure) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::vector<std::unique_ptr<Closure>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  return all->emplace_back(std::move(closure)).get();
}

}  // namespace

// ---- Streams
// -----------------------------------------------------------------

RawStream::RawStream(Test& t, uint32_t device, uint32_t flags, int32_t priority)
    : t_(&t), device_(device) {
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_CREATE;
  desc.flags = flags;
  desc.priority = priority;
  t.Require(
      t.machine().Call<&Ops::stream_create>(
          device, static_cast<const devrt_stream_desc_v0*>(&desc), &handle_),
      "stream creation");
  t.Require(handle_ != nullptr, "a created stream's handle is not NULL");
}

RawStream::RawStream(Test& t, uint32_t device, devrt_stream handle)
    : t_(&t), device_(device), handle_(handle), owned_(false) {}

RawStream RawStream::Default(Test& t, uint32_t device, uint32_t kind) {
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = kind;
  devrt_stream handle = nullptr;
  t.Require(
      t.machine().Call<&Ops::stream_create>(
          device, static_cast<const devrt_stream_desc_v0*>(&desc), &handle),
      "default stream");
  t.Require(handle != nullptr, "a default stream's handle is not NULL");
  return RawStream(t, device, handle);
}

RawStream::RawStream(RawStream&& other) noexcept
    : t_(other.t_),
      device_(other.device_),
      handle_(std::exchange(other.handle_, nullptr)),
      owned_(other.owned_) {}

RawStream::~RawStream() {
  if (handle_ != nullptr && owned_) {
    Note(t_, Destroy(), "stream destruction");
  }
}

Result RawStream::Destroy() {
  return t_->machine().Call<&Ops::stream_destroy>(
      std::exchange(handle_, nullptr));
}

bool RawStream::Query() const {
  uint32_t done = 0;
  t_->Require(t_->machine().Call<&Ops::stream_query>(handle_, &done),
              "stream query");
  return YesOrNo(*t_, "stream_query", done);
}

void RawStream::Sync() const {
  t_->Require(t_->machine().Call<&Ops::stream_sync>(handle_), "stream sync");
}

void RawStream::Wait(const RawEvent& event) const {
  t_->Require(
      t_->machine().Call<&Ops::stream_wait_event>(handle_, event.handle()),
      "wait for an event");
}

void RawStream::Fill(void* dst, uint8_t value, uint64_t size) const {
  t_->Require(t_->machine().Call<&Ops::fill_async>(
                  handle_, dst, static_cast<uint32_t>(value), size),
              "fill");
}

void RawStream::Copy(void* dst, const void* src, uint64_t size,
                     uint32_t kind) const {
  t_->Require(
      t_->machine().Call<&Ops::copy_async>(handle_, dst, src, size, kind),
      "copy");
}

void RawStream::Delay(uint64_t nanoseconds) const {
  Machine& m = t_->machine();
  if (m.probe() == nullptr) return;  // nothing can delay the device
  t_->Require(m.CallExtension(&devrt_probe_v0::spin, m.probe(), m.probe_self(),
                              handle_, nanoseconds),
              "spin");
}

void RawStream::HostFunc(std::function<void(devrt_code)> body) const {
  Machine& m = t_->machine();
  // Never freed: a plugin that calls the function twice must fail a check, and
  // not crash.
  auto closure = std::make_unique<Closure>(Closure{&m, std::move(body)});
  void (*const call)(void*, devrt_status) = [](void* arg, devrt_status error) {
    const auto* const c = static_cast<const Closure*>(arg);
    c->body(c->machine->ToResult(error).code);
  };
  void* const arg = Keep(std::move(closure));
  t_->Require(m.Call<&Ops::host_func>(handle_, call, arg), "host function");
}

// ---- Events
// ------------------------------------------------------------------

RawEvent::RawEvent(Test& t, uint32_t device, uint32_t flags) : t_(&t) {
  t.Require(t.machine().Call<&Ops::event_create>(device, flags, &handle_),
            "event creation");
  t.Require(handle_ != nullptr, "a created event's handle is not NULL");
}

RawEvent::RawEvent(RawEvent&& other) noexcept
    : t_(other.t_), handle_(std::exchange(other.handle_, nullptr)) {}

RawEvent::~RawEvent() {
  if (handle_ != nullptr) Note(t_, Destroy(), "event destruction");
}

Result RawEvent::Destroy() {
  return t_->machine().Call<&Ops::event_destroy>(
      std::exchange(handle_, nullptr));
}

void RawEvent::Record(const RawStream& stream) const {
  t_->Require(t_->machine().Call<&Ops::event_record>(handle_, stream.handle()),
              "event record");
}

bool RawEvent::Query() const {
  uint32_t done = 0;
  t_->Require(t_->machine().Call<&Ops::event_query>(handle_, &done),
              "event query");
  return YesOrNo(*t_, "event_query", done);
}

void RawEvent::Sync() const {
  t_->Require(t_->machine().Call<&Ops::event_sync>(handle_), "event sync");
}

Result RawEvent::ElapsedTo(const RawEvent& end, int64_t* nanoseconds) const {
  return t_->machine().Call<&Ops::event_elapsed_ns>(handle_, end.handle_,
                                                    nanoseconds);
}

// ---- Memory
// ------------------------------------------------------------------

DeviceBlock::DeviceBlock(Test& t, uint32_t device, uint64_t size)
    : t_(&t), device_(device), size_(size) {
  t.Require(t.machine().Call<&Ops::alloc>(device, size, uint64_t{0}, &ptr_),
            "allocation");
  t.Require(ptr_ != nullptr, "allocated memory is not NULL");
  const RawStream stream(t, device);
  stream.Fill(ptr_, 0, size);
  stream.Sync();
}

DeviceBlock::DeviceBlock(DeviceBlock&& other) noexcept
    : t_(other.t_),
      device_(other.device_),
      size_(other.size_),
      ptr_(std::exchange(other.ptr_, nullptr)) {}

DeviceBlock::~DeviceBlock() {
  if (ptr_ == nullptr) return;
  Machine& m = t_->machine();
  Note(t_, m.Call<&Ops::device_sync>(device_), "device sync");
  Note(t_, m.Call<&Ops::dealloc>(device_, ptr_, size_), "deallocation");
}

std::vector<uint8_t> DeviceBlock::Read() const {
  const HostBlock host(*t_, device_, size_);
  const RawStream stream(*t_, device_);
  stream.Copy(host.ptr(), ptr_, size_, DEVRT_COPY_D2H);
  stream.Sync();
  return {host.ptr(), host.ptr() + size_};
}

void DeviceBlock::Write(const std::vector<uint8_t>& bytes) const {
  const HostBlock host(*t_, device_, size_);
  std::copy(bytes.begin(), bytes.end(), host.ptr());
  const RawStream stream(*t_, device_);
  stream.Copy(ptr_, host.ptr(), bytes.size(), DEVRT_COPY_H2D);
  stream.Sync();
}

bool DeviceBlock::Holds(uint8_t value) const {
  const std::vector<uint8_t> bytes = Read();
  return std::all_of(bytes.begin(), bytes.end(),
                     [value](uint8_t b) { return b == value; });
}

HostBlock::HostBlock(Test& t, uint32_t device, uint64_t size, bool pinned)
    : t_(&t),
      device_(device),
      size_(size),
      pinned_(pinned && t.machine().Has(DEVRT_CAP_PINNED_HOST)) {
  if (pinned_) {
    void* ptr = nullptr;
    t.Require(
        t.machine().Call<&Ops::host_alloc>(device, size, uint64_t{0}, &ptr),
        "pinned allocation");
    t.Require(ptr != nullptr, "allocated pinned memory is not NULL");
    ptr_ = static_cast<uint8_t*>(ptr);
  } else {
    plain_.resize(size);
    ptr_ = plain_.data();
  }
  std::fill_n(ptr_, size, uint8_t{0});
}

HostBlock::HostBlock(HostBlock&& other) noexcept
    : t_(other.t_),
      device_(other.device_),
      size_(other.size_),
      pinned_(other.pinned_),
      plain_(std::move(other.plain_)),
      ptr_(std::exchange(other.ptr_, nullptr)) {}

HostBlock::~HostBlock() {
  if (ptr_ == nullptr) return;
  Machine& m = t_->machine();
  Note(t_, m.Call<&Ops::device_sync>(device_), "device sync");
  if (pinned_) {
    Note(t_, m.Call<&Ops::host_dealloc>(static_cast<void*>(ptr_), size_),
         "pinned deallocation");
  }
}

bool HostBlock::Holds(uint8_t value) const {
  return std::all_of(ptr_, ptr_ + size_,
                     [value](uint8_t b) { return b == value; });
}

// ---- Reading
// ------------------------------------------------------------------

Reader::Reader(Test& t, uint32_t device, uint64_t size)
    : host_(t, device, size), stream_(t, device) {}

std::vector<uint8_t> Reader::Read(const void* ptr) const {
  stream_.Copy(host_.ptr(), ptr, host_.size(), DEVRT_COPY_D2H);
  stream_.Sync();
  return {host_.ptr(), host_.ptr() + host_.size()};
}

bool Reader::Holds(const void* ptr, uint8_t value) const {
  Read(ptr);
  return host_.Holds(value);
}

// ---- Gates
// -------------------------------------------------------------------

struct Gate::State {
  std::map<uint32_t, devrt_flag> flags;  // by device
  std::vector<Flag> core_flags;          // one a stream of the C++ API

  // The state of a host function, which may outlive the gate.
  struct Door {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
  };
  std::shared_ptr<Door> door = std::make_shared<Door>();
  bool door_holds = false;  // true if it holds a stream
};

bool Gate::IsPossible(const Machine& machine) {
  return machine.probe() != nullptr || machine.Has(DEVRT_CAP_HOST_FUNC);
}

Gate::Gate(Test& t) : t_(&t), state_(std::make_unique<State>()) {
  if (!IsPossible(t.machine())) {
    t.Unsupported(
        "a stream cannot be held: neither devrt.probe/0 nor HOST_FUNC");
  }
}

void Gate::Hold(const RawStream& stream) {
  Machine& m = t_->machine();
  if (m.probe() == nullptr) {
    state_->door_holds = true;
    stream.HostFunc([door = state_->door](devrt_code) {
      std::unique_lock<std::mutex> lock(door->mutex);
      door->opened.wait_for(lock, kHostFlagTimeout, [&] { return door->open; });
    });
    return;
  }
  devrt_flag& flag = state_->flags[stream.device()];
  if (flag == nullptr) {
    t_->Require(m.CallExtension(&devrt_probe_v0::flag_create, m.probe(),
                                m.probe_self(), stream.device(), &flag),
                "flag creation");
  }
  t_->Require(
      m.CallExtension(&devrt_probe_v0::flag_wait, m.probe(), m.probe_self(),
                      stream.handle(), flag, kOwnFlagTimeout),
      "wait for a flag");
}

void Gate::Hold(StreamRef stream) {
  if (t_->machine().probe() == nullptr) {
    state_->door_holds = true;
    t_->Ok(LaunchHostFunc(stream,
                          [door = state_->door](absl::Status) {
                            std::unique_lock<std::mutex> lock(door->mutex);
                            door->opened.wait_for(lock, kHostFlagTimeout,
                                                  [&] { return door->open; });
                          }),
           "LaunchHostFunc");
    return;
  }
  Flag flag = t_->Require(Flag::Create(stream.device()), "Flag::Create");
  t_->Ok(flag.WaitOn(stream, kOwnFlagTimeout), "wait for a flag");
  state_->core_flags.push_back(std::move(flag));
}

void Gate::Open() {
  Machine& m = t_->machine();
  for (const Flag& flag : state_->core_flags) {
    t_->Ok(flag.Set(), "flag set");
  }
  for (const auto& [device, flag] : state_->flags) {
    Note(t_,
         m.CallExtension(&devrt_probe_v0::flag_set, m.probe(), m.probe_self(),
                         flag, 1u),
         "flag set");
  }
  const std::lock_guard<std::mutex> lock(state_->door->mutex);
  state_->door->open = true;
  state_->door->opened.notify_all();
}

Gate::~Gate() {
  if (state_ == nullptr) return;
  Open();
  Machine& m = t_->machine();
  for (const auto& [device, flag] : state_->flags) {
    Note(t_, m.Call<&Ops::device_sync>(device), "device sync");
    Note(t_,
         m.CallExtension(&devrt_probe_v0::flag_destroy, m.probe(),
                         m.probe_self(), flag),
         "flag destruction");
  }
  // Streams of any device.
  if (state_->core_flags.empty() && !state_->door_holds) return;
  for (const uint32_t device : t_->devices()) {
    Note(t_, m.Call<&Ops::device_sync>(device), "device sync");
  }
}

// ---- Threads
// -----------------------------------------------------------------

struct Threads::State {
  std::atomic<bool> abandoned{false};
};

Threads::Threads() : state_(std::make_unique<State>()) {}

Threads::~Threads() {
  for (std::thread& thread : threads_) thread.join();
}

void Threads::Start(std::function<void()> body) {
  threads_.emplace_back([state = state_.get(), body = std::move(body)] {
    try {
      body();
    } catch (const Abandon&) {
      state->abandoned = true;
    }
  });
}

void Threads::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  if (state_->abandoned) throw Abandon{};
}

bool CanAccess(Test& t, uint32_t device, uint32_t peer) {
  uint32_t can = 2;
  t.Require(t.machine().Call<&Ops::peer_can_access>(device, peer, &can),
            "peer_can_access");
  return YesOrNo(t, "peer_can_access", can);
}

}  // namespace devrt::cts
