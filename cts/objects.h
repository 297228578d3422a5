// SPDX-License-Identifier: Apache-2.0
//
// Streams, events, memory and gates of the C table, each given up by its
// destructor: declare a gate behind what it holds, so that it opens first.
// Making one, or asking it something that must not fail, ends the test when it
// does fail; the methods that return a Result leave that to the test.
//
// They go through the table and not through devrt::Stream and its like, because
// those remember, recycle and check: what a plugin does wrong would not show.
//
// Threads: as the calls of the table; methods that end the test belong to the
// body's thread or to Threads.

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
  // A new one of `device`; flags as in devrt_stream_desc_v0.
  RawStream(Test& t, uint32_t device, uint32_t flags = 0, int32_t priority = 0);
  // DEVRT_STREAM_LEGACY or DEVRT_STREAM_PER_THREAD: destroys nothing.
  static RawStream Default(Test& t, uint32_t device, uint32_t kind);
  RawStream(RawStream&& other) noexcept;
  ~RawStream();

  devrt_stream handle() const { return handle_; }
  uint32_t device() const { return device_; }

  bool Query() const;  // whether all work is complete
  void Sync() const;
  void Wait(const RawEvent& event) const;
  // Now instead of in the destructor.
  Result Destroy();

  // Work: these must not fail either.
  void Fill(void* dst, uint8_t value, uint64_t size) const;
  void Copy(void* dst, const void* src, uint64_t size, uint32_t kind) const;
  // Some work that takes a while: a spin where there is a probe (device time),
  // otherwise the filling of some memory.  Never waits.
  void Delay(uint64_t nanoseconds) const;
  // Calls `body` in stream order, with the code that the stream had.
  void HostFunc(std::function<void(devrt_code)> body) const;

 private:
  RawStream(Test& t, uint32_t device, devrt_stream handle);
  Test* t_;
  uint32_t device_;
  devrt_stream handle_ = nullptr;
  bool owned_ = true;
};

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

// Device memory.  Filled with 0 and complete when made; its destructor waits
// for the device first.
class DeviceBlock {
 public:
  DeviceBlock(Test& t, uint32_t device, uint64_t size);
  DeviceBlock(DeviceBlock&& other) noexcept;
  ~DeviceBlock();

  uint8_t* ptr() const { return static_cast<uint8_t*>(ptr_); }
  uint64_t size() const { return size_; }
  uint32_t device() const { return device_; }
  // Blocking, through a stream of its own: all bytes, without any order with
  // what other streams still do.
  std::vector<uint8_t> Read() const;
  void Write(const std::vector<uint8_t>& bytes) const;
  // Whether all bytes are `value`.
  bool Holds(uint8_t value) const;

 private:
  Test* t_;
  uint32_t device_;
  uint64_t size_;
  void* ptr_ = nullptr;
};

// Page-locked host memory; where the plugin has none, plain memory: is_pinned.
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

// Reads device memory while streams of its device are held: DeviceBlock::Read
// gives up memory, and so waits for the whole device.
class Reader {
 public:
  Reader(Test& t, uint32_t device, uint64_t size);
  // The first bytes at `ptr`, up to the size; in no order with other streams.
  std::vector<uint8_t> Read(const void* ptr) const;
  // Whether all of them are `value`.
  bool Holds(const void* ptr, uint8_t value) const;

 private:
  HostBlock host_;
  RawStream stream_;
};

// Holds streams busy: what is behind Hold does not run before Open.
// By devrt.probe/0's flag, otherwise by a host function that waits; without
// either the test is unsupported (kNeedsGate asks first).
class Gate {
 public:
  // Of one device, or of several: one flag each.
  explicit Gate(Test& t);
  Gate(const Gate&) = delete;
  // Opens, and waits for what it held.
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

// Threads of a body; what one of them ends by a failed Require ends the body
// in Join.
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

}  // namespace devrt::cts

#endif  // DEVRT_CTS_OBJECTS_H_
