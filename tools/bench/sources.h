// SPDX-License-Identifier: Apache-2.0
//
// devrt's allocators as workloads.h wants them.  Each keeps its first error.

#ifndef DEVRT_TOOLS_BENCH_SOURCES_H_
#define DEVRT_TOOLS_BENCH_SOURCES_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/devrt.h"

namespace bench {

class FirstError {
 public:
  const absl::Status& error() const { return error_; }

 protected:
  void* ValueOrNull(absl::StatusOr<void*> made) {
    if (ABSL_PREDICT_TRUE(made.ok())) return *made;
    KeepFirst(made.status());
    return nullptr;
  }
  void KeepFirst(const absl::Status& status) {
    if (ABSL_PREDICT_FALSE(!status.ok()) && error_.ok()) error_ = status;
  }

 private:
  absl::Status error_;
};

// AllocateMemory on one stream, which must outlive the object.
class CachedMemory : public FirstError {
 public:
  explicit CachedMemory(devrt::StreamRef stream) : stream_(stream) {}

  void* New(uint64_t bytes) {
    return ValueOrNull(devrt::AllocateMemory(stream_, bytes));
  }
  void Delete(void* block, uint64_t) { KeepFirst(devrt::FreeMemory(block)); }

 private:
  devrt::StreamRef stream_;
};

class PinnedMemory : public FirstError {
 public:
  explicit PinnedMemory(devrt::Device device) : device_(device) {}

  void* New(uint64_t bytes) {
    return ValueOrNull(devrt::AllocatePinned(device_, bytes));
  }
  void Delete(void* block, uint64_t) { KeepFirst(devrt::FreePinned(block)); }

 private:
  devrt::Device device_;
};

class ResourceMemory : public FirstError {
 public:
  ResourceMemory(std::shared_ptr<devrt::MemoryResource> resource,
                 devrt::StreamRef stream)
      : resource_(std::move(resource)), stream_(stream) {}

  void* New(uint64_t bytes) {
    return ValueOrNull(resource_->Allocate(stream_, bytes));
  }
  void Delete(void* block, uint64_t bytes) {
    KeepFirst(resource_->Deallocate(stream_, block, bytes));
  }

 private:
  std::shared_ptr<devrt::MemoryResource> resource_;
  devrt::StreamRef stream_;
};

// One stream frees a block and another stream allocates it, there and back,
// ordered by events.  The block is so large that it has a segment of its own.
class PassedBetweenStreams : public FirstError {
 public:
  static constexpr uint64_t kBytes = 32 << 20;

  PassedBetweenStreams(devrt::StreamRef a, devrt::StreamRef b)
      : from_(a), to_(b) {}

  void RunOnce() {
    void* const block = ValueOrNull(devrt::AllocateMemory(from_, kBytes));
    KeepFirst(devrt::FreeMemory(block));
    KeepFirst(to_.Wait(from_));
    void* const same = ValueOrNull(devrt::AllocateMemory(to_, kBytes));
    KeepFirst(devrt::FreeMemory(same));
    KeepFirst(from_.Wait(to_));
    if (same != block) ++others_;
  }
  // How often the other stream got another block.
  uint64_t others() const { return others_; }

 private:
  devrt::StreamRef from_, to_;
  uint64_t others_ = 0;
};

}  // namespace bench

#endif  // DEVRT_TOOLS_BENCH_SOURCES_H_
