// SPDX-License-Identifier: Apache-2.0
//
// Memory of one round of a soak, and the data in it.

#ifndef DEVRT_TESTS_HARDWARE_SOAK_BLOCKS_H_
#define DEVRT_TESTS_HARDWARE_SOAK_BLOCKS_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "devrt/devrt.h"

namespace devrt::soak {

// Device or pinned memory, until Done().  After an error it stays: work that
// uses it may be under way, and the soak ends anyway.
class Block {
 public:
  static absl::StatusOr<Block> OnDevice(Device device, uint64_t bytes,
                                        uint64_t alignment = 0) {
    DEVRT_ASSIGN_OR_RETURN(void* data, Allocate(device, bytes, alignment));
    return Block(device, data, bytes, false);
  }
  static absl::StatusOr<Block> Pinned(Device device, uint64_t bytes) {
    DEVRT_ASSIGN_OR_RETURN(void* data, AllocateHost(device, bytes));
    return Block(device, data, bytes, true);
  }
  Block(Block&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_),
        pinned_(other.pinned_) {}
  Block& operator=(Block&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(pinned_, other.pinned_);
    return *this;
  }
  ~Block() = default;

  absl::Status Done() {
    void* const data = std::exchange(data_, nullptr);
    return pinned_ ? FreeHost(data) : Free(device_, data);
  }
  void* data() const { return data_; }
  uint64_t* words() const { return static_cast<uint64_t*>(data_); }
  uint64_t bytes() const { return bytes_; }

 private:
  Block(Device device, void* data, uint64_t bytes, bool pinned)
      : device_(device), data_(data), bytes_(bytes), pinned_(pinned) {}

  Device device_;
  void* data_;
  uint64_t bytes_;
  bool pinned_;
};

// Returns word `index` of the pattern of `seed`.  The words of one pattern
// differ.  Patterns share no word if their seeds are further apart than the
// patterns are long.
inline uint64_t WordAt(uint64_t seed, uint64_t index) {
  return (seed + index) * 0x9E3779B97F4A7C15u;
}

inline void WritePattern(uint64_t* words, uint64_t bytes, uint64_t seed) {
  for (uint64_t i = 0; i < bytes / 8; ++i) words[i] = WordAt(seed, i);
}

// INTERNAL, with the first word that is wrong.
inline absl::Status CheckPattern(const uint64_t* words, uint64_t bytes,
                                 uint64_t seed) {
  for (uint64_t i = 0; i < bytes / 8; ++i) {
    if (words[i] == WordAt(seed, i)) continue;
    return absl::InternalError(
        absl::StrCat("wrong data: word ", i, " of ", bytes / 8, " is ",
                     absl::Hex(words[i], absl::kZeroPad16), ", expected ",
                     absl::Hex(WordAt(seed, i), absl::kZeroPad16)));
  }
  return absl::OkStatus();
}

inline absl::Status CheckBytes(const void* data, uint64_t bytes,
                               uint8_t value) {
  const auto* const all = static_cast<const uint8_t*>(data);
  for (uint64_t i = 0; i < bytes; ++i) {
    if (all[i] == value) continue;
    return absl::InternalError(absl::StrCat("wrong data: byte ", i, " of ",
                                            bytes, " is ", all[i],
                                            ", expected ", value));
  }
  return absl::OkStatus();
}

// INTERNAL with `text` unless `condition`.
inline absl::Status Expect(bool condition, const char* text) {
  if (condition) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("expected that ", text));
}

// OK if `status` is of that code.
inline absl::Status ExpectCode(const absl::Status& status,
                               absl::StatusCode code, const char* call) {
  if (status.code() == code) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": expected ",
                                          absl::StatusCodeToString(code),
                                          ", got ", status.ToString()));
}

}  // namespace devrt::soak

#endif  // DEVRT_TESTS_HARDWARE_SOAK_BLOCKS_H_
