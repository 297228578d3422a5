// SPDX-License-Identifier: Apache-2.0
//
// Memory from devrt's C++ API, for tests of the core's promises.  Destructors
// wait for the device and then free the memory.
//
// Threads: as for the API.  Methods that end the test may be called only on the
// body's thread or on a thread of Threads.

#ifndef DEVRT_CTS_CORE_OBJECTS_H_
#define DEVRT_CTS_CORE_OBJECTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cts/test.h"

namespace devrt::cts {

// Bytes that depend on their position and on `salt`.
std::vector<uint8_t> Pattern(size_t size, uint32_t salt);

// Device memory, filled with 0.
class CoreBlock {
 public:
  CoreBlock(Test& t, Device device, uint64_t size);
  CoreBlock(CoreBlock&& other) noexcept;
  ~CoreBlock();

  uint8_t* ptr() const { return static_cast<uint8_t*>(ptr_); }
  uint64_t size() const { return size_; }
  Device device() const { return device_; }
  // Blocking, on a stream of its own; not ordered after other streams.
  std::vector<uint8_t> Read() const;
  void Write(const std::vector<uint8_t>& bytes) const;
  bool Holds(uint8_t value) const;

 private:
  Test* t_;
  Device device_;
  uint64_t size_;
  void* ptr_ = nullptr;
};

// Host memory, filled with 0.
class CoreHost {
 public:
  enum class Kind { kPageable, kPinned, kRegistered };
  static const char* Name(Kind kind);
  // The kinds that the backend supports.
  static std::vector<Kind> Kinds(Test& t);

  CoreHost(Test& t, Device device, uint64_t size, Kind kind);
  CoreHost(CoreHost&& other) noexcept;
  ~CoreHost();

  uint8_t* ptr() const { return ptr_; }
  uint64_t size() const { return size_; }
  Kind kind() const { return kind_; }
  bool Holds(uint8_t value) const;

 private:
  Test* t_;
  Device device_;
  uint64_t size_;
  Kind kind_;
  std::vector<uint8_t> own_;
  uint8_t* ptr_ = nullptr;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_CORE_OBJECTS_H_
