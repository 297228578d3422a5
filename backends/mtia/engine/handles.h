// SPDX-License-Identifier: Apache-2.0
//
// Handles of streams, events, flags and ranks of communicators.  A handle is a
// number and no address: tag << 32 | slot + 1, where the tag holds the kind and
// a generation.  So the look-up of a stale, foreign or invented handle finds
// nothing, and touches nothing but the table.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_HANDLES_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_HANDLES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

enum class HandleKind : uint32_t {
  kStream = 1,
  kEvent = 2,
  kFlag = 3,
  kComm = 4,
};

// The base of every class that has handles.
struct HandleSlot {
  uint32_t slot = 0;
  uint32_t generation = 0;
  uint32_t tag = 0;  // 0: not live
};

inline constexpr uint32_t kGenerationBits = 29;

// The layer validate numbers flags of its own with bit 63, which no handle of a
// flag has (layers/validate/meetings.cc).
static_assert((static_cast<uint32_t>(HandleKind::kFlag) & 4) == 0);

inline uint64_t HandleOf(const HandleSlot& object) {
  return static_cast<uint64_t>(object.tag) << 32 | (object.slot + 1);
}

// The error for `handle`, which names no live `kind` ("stream").  `was_ours`:
// the handle was valid before.
[[gnu::cold]] devrt_status BadHandle(const char* kind, uint64_t handle,
                                     bool was_ours);

// Owns the objects of one class and finds them by their handles.  An object is
// used again after its release, and is never freed.  Not thread-safe.
template <class T, HandleKind kind>
class HandleTable {
 public:
  // The live object, or nullptr.
  T* Find(uint64_t handle) const {
    const uint32_t slot = static_cast<uint32_t>(handle) - 1;
    if (slot >= size_) return nullptr;
    T* const object = &chunks_[slot / kChunk][slot % kChunk];
    const uint32_t tag = static_cast<uint32_t>(handle >> 32);
    return tag != 0 && object->tag == tag ? object : nullptr;
  }

  // True if this table gave out `handle` at some time.
  bool WasOurs(uint64_t handle) const {
    const uint32_t slot = static_cast<uint32_t>(handle) - 1;
    if (slot >= size_) return false;
    const uint32_t tag = static_cast<uint32_t>(handle >> 32);
    const T& object = chunks_[slot / kChunk][slot % kChunk];
    return tag >> kGenerationBits == static_cast<uint32_t>(kind) &&
           (tag & kMask) <= object.generation;
  }

  T* New() {
    if (free_.empty()) AddChunk();
    T* const object = free_.back();
    free_.pop_back();
    object->generation = (object->generation + 1) & kMask;
    object->tag =
        static_cast<uint32_t>(kind) << kGenerationBits | object->generation;
    ++live_;
    return object;
  }

  void Release(T* object) {
    object->tag = 0;
    free_.push_back(object);
    --live_;
  }

  uint64_t live() const { return live_; }

  // `visit` may release the object that it is given.
  template <class Visit>
  void ForEachLive(Visit visit) {
    for (uint32_t i = 0; live_ != 0 && i < size_; ++i) {
      T* const object = &chunks_[i / kChunk][i % kChunk];
      if (object->tag != 0) visit(object);
    }
  }

 private:
  static constexpr uint32_t kChunk = 64;
  static constexpr uint32_t kMask = (1u << kGenerationBits) - 1;

  void AddChunk() {
    chunks_.push_back(std::make_unique<T[]>(kChunk));
    free_.reserve(size_ + kChunk);
    for (uint32_t i = kChunk; i-- > 0;) {
      T* const object = &chunks_.back()[i];
      object->slot = size_ + i;
      free_.push_back(object);
    }
    size_ += kChunk;
  }

  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<T*> free_;
  uint32_t size_ = 0;
  uint64_t live_ = 0;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_HANDLES_H_
