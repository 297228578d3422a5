// SPDX-License-Identifier: Apache-2.0
//
// Streams, events, memory and gates of the C table.  Destructors destroy the
// objects.  Declare a gate after the objects that it holds, so that it opens
// first.  A failure to make an object ends the test, and so does a failure of a
// method that must not fail.  Methods that return a Result leave the decision
// to the test.
//
// These classes call the table directly.  devrt::Stream and its like remember,
// reuse and check, which would hide mistakes of a plugin.
//
// Threads: as for the calls of the table.  Methods that end the test may be
// called only on the body's thread or on a thread of Threads.

#ifndef DEVRT_CTS_OBJECTS_H_
#define DEVRT_CTS_OBJECTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cts/test.h"

namespace devrt::cts {

class RawEvent;

class RawStream {
 public:
  // Creates a stream of `device`; flags as in devrt_stream_desc_v0.
  RawStream(Test& t, uint32_t device, uint32_t flags = 0, int32_t priority = 0);
  // DEVRT_STREAM_LEGACY or DEVRT_STREAM_PER_THREAD.  Not owned.
  static RawStream Default(Test& t, uint32_t device, uint32_t kind);
  RawStream(RawStream&& other) noexcept;
  ~RawStream();

  devrt_stream handle() const { return handle_; }
  uint32_t device() const { return device_; }

  bool Query() const;  // true if all work is complete
  void Sync() const;
  void Wait(const RawEvent& event) const;
  // Destroys the stream now.
  Result Destroy();

  // These enqueue work and must not fail.
  void Fill(void* dst, uint8_t value, uint64_t size) const;
  void Copy(void* dst, const void* src, uint64_t size, uint32_t kind) const;
  // Enqueues a spin of `nanoseconds` of device time if the backend has
  // devrt.probe/0, and nothing otherwise.  Never waits.
  void Delay(uint64_t nanoseconds) const;
  // Calls `body` in stream order, with the stream's error code.
  void HostFunc(std::function<void(devrt_code)> body) const;

 private:
  RawStream(Test& t, uint32_t device, devrt_stream handle);
  Test* t_;
  uint32_t device_;
  devrt_stream handle_ = nullptr;
  bool owned_ = true;
};

// Default and blocking streams, whose work the rule of the legacy stream orders
// (C8).
inline RawStream Legacy(Test& t, uint32_t device) {
  return RawStream::Default(t, device, DEVRT_STREAM_LEGACY);
}
inline RawStream PerThread(Test& t, uint32_t device) {
  return RawStream::Default(t, device, DEVRT_STREAM_PER_THREAD);
}
inline RawStream Blocking(Test& t, uint32_t device) {
  return RawStream(t, device, DEVRT_STREAM_BLOCKING);
}
// Of the test's first device.
inline RawStream Legacy(Test& t) { return Legacy(t, t.device()); }
inline RawStream PerThread(Test& t) { return PerThread(t, t.device()); }
inline RawStream Blocking(Test& t) { return Blocking(t, t.device()); }

class RawEvent {
 public:
  RawEvent(Test& t, uint32_t device, uint32_t flags = 0);
  RawEvent(RawEvent&& other) noexcept;
  ~RawEvent();

  devrt_event handle() const { return handle_; }
  void Record(const RawStream& stream) const;
  bool Query() const;
  void Sync() const;
  Result ElapsedTo(const RawEvent& end, int64_t* nanoseconds) const;
  Result Destroy();

 private:
  Test* t_;
  devrt_event handle_ = nullptr;
};

// Device memory, filled with 0.  The destructor waits for the device first.
class DeviceBlock {
 public:
  DeviceBlock(Test& t, uint32_t device, uint64_t size);
  DeviceBlock(DeviceBlock&& other) noexcept;
  ~DeviceBlock();

  uint8_t* ptr() const { return static_cast<uint8_t*>(ptr_); }
  uint64_t size() const { return size_; }
  uint32_t device() const { return device_; }
  // All bytes.  Blocking, on a stream of its own; not ordered after work that
  // other streams still do.
  std::vector<uint8_t> Read() const;
  void Write(const std::vector<uint8_t>& bytes) const;
  // True if all bytes are `value`.
  bool Holds(uint8_t value) const;

 private:
  Test* t_;
  uint32_t device_;
  uint64_t size_;
  void* ptr_ = nullptr;
};

// Page-locked host memory.  If the plugin lacks it, plain memory: is_pinned().
class HostBlock {
 public:
  HostBlock(Test& t, uint32_t device, uint64_t size, bool pinned = true);
  HostBlock(HostBlock&& other) noexcept;
  ~HostBlock();

  uint8_t* ptr() const { return ptr_; }
  uint64_t size() const { return size_; }
  bool is_pinned() const { return pinned_; }
  bool Holds(uint8_t value) const;

 private:
  Test* t_;
  uint32_t device_;
  uint64_t size_;
  bool pinned_;
  std::vector<uint8_t> plain_;
  uint8_t* ptr_ = nullptr;
};

// Reads device memory while streams of its device are held.  DeviceBlock::Read
// frees memory, which waits for the whole device.
class Reader {
 public:
  Reader(Test& t, uint32_t device, uint64_t size);
  // The first bytes at `ptr`, up to `size`; not ordered after other streams.
  std::vector<uint8_t> Read(const void* ptr) const;
  // True if all these bytes are `value`.
  bool Holds(const void* ptr, uint8_t value) const;

 private:
  HostBlock host_;
  RawStream stream_;
};

// Holds streams: work after Hold does not run before Open.  Uses the flag of
// devrt.probe/0, otherwise a host function that waits.  If the backend has
// neither, the test is unsupported (kNeedsGate checks first).
class Gate {
 public:
  // For one or several devices; each has one flag.
  explicit Gate(Test& t);
  Gate(const Gate&) = delete;
  // Opens the gate, and waits for the work that it held.
  ~Gate();

  void Hold(const RawStream& stream);
  void Hold(StreamRef stream);  // of the C++ API
  void Open();
  static bool IsPossible(const Machine& machine);

 private:
  struct State;
  Test* const t_;
  std::unique_ptr<State> state_;
};

// Threads of a body.  If a failed Require ends one of them, Join ends the body.
class Threads {
 public:
  Threads();
  ~Threads();  // joins
  void Start(std::function<void()> body);
  void Join();

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::vector<std::thread> threads_;
};

// The answer of peer_can_access: `device` can be given access to memory of
// `peer`.
bool CanAccess(Test& t, uint32_t device, uint32_t peer);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_OBJECTS_H_
