// SPDX-License-Identifier: Apache-2.0
//
// Workloads for allocators: devrt's, c10's and the drivers'.  The benchmark
// programs and `devrt bench memory` run them.
//
// A Memory has two functions:
//
//   void* New(uint64_t bytes);
//   void Delete(void* block, uint64_t bytes);   // null is allowed
//
// New returns null if it fails; the memory reports the reason by other means.

#ifndef DEVRT_TOOLS_BENCH_WORKLOADS_H_
#define DEVRT_TOOLS_BENCH_WORKLOADS_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace bench {

// Allocates and frees a block.  Another block stays, so that the segment stays.
template <typename Memory>
class AllocateFree {
 public:
  AllocateFree(Memory* memory, uint64_t bytes)
      : memory_(memory), bytes_(bytes), kept_(memory->New(bytes)) {}
  AllocateFree(const AllocateFree&) = delete;
  AllocateFree& operator=(const AllocateFree&) = delete;
  ~AllocateFree() { memory_->Delete(kept_, bytes_); }

  void RunOnce() { memory_->Delete(memory_->New(bytes_), bytes_); }

 private:
  Memory* memory_;
  uint64_t bytes_;
  void* kept_;
};

// 64 blocks.  Each step frees one and allocates another of up to half a MiB;
// small sizes are more frequent.  All steps run twice before the first RunOnce:
// once from no block, and once from the blocks that the last steps leave, as
// every later time.  So the cache has all blocks, and a short measurement
// measures what a long one does.
template <typename Memory>
class MixedSizes {
 public:
  static constexpr size_t kLive = 64;

  explicit MixedSizes(Memory* memory) : memory_(memory), steps_(4096) {
    std::mt19937 random(7);
    for (Step& step : steps_) {
      step.bytes =
          1 + static_cast<uint32_t>(random() % (1u << (8 + random() % 12)));
      step.place = static_cast<uint32_t>(random() % kLive);
    }
    for (size_t i = 0; i < 2 * steps_.size(); ++i) RunOnce();
  }
  MixedSizes(const MixedSizes&) = delete;
  MixedSizes& operator=(const MixedSizes&) = delete;
  ~MixedSizes() {
    for (const Block& block : live_) memory_->Delete(block.data, block.bytes);
  }

  void RunOnce() {
    const Step& step = steps_[next_];
    next_ = (next_ + 1) % steps_.size();
    Block& block = live_[step.place];
    memory_->Delete(block.data, block.bytes);
    block.data = memory_->New(step.bytes);
    block.bytes = step.bytes;
  }

 private:
  struct Step {
    uint32_t bytes;
    uint32_t place;
  };
  struct Block {
    void* data = nullptr;
    uint32_t bytes = 0;
  };
  Memory* memory_;
  std::vector<Step> steps_;
  Block live_[kLive];
  size_t next_ = 0;
};

// Beside many live blocks of 512 bytes, allocates and frees one more.  With
// `any` frees a random one of them and allocates it anew.
template <typename Memory>
class BesideLiveBlocks {
 public:
  static constexpr uint64_t kBytes = 512;

  BesideLiveBlocks(Memory* memory, size_t count, bool any)
      : memory_(memory), live_(count), any_(any) {
    for (void*& block : live_) block = memory_->New(kBytes);
  }
  BesideLiveBlocks(const BesideLiveBlocks&) = delete;
  BesideLiveBlocks& operator=(const BesideLiveBlocks&) = delete;
  ~BesideLiveBlocks() {
    for (void* block : live_) memory_->Delete(block, kBytes);
  }

  void RunOnce() {
    if (!any_) {
      memory_->Delete(memory_->New(kBytes), kBytes);
      return;
    }
    void*& block = live_[random_() % live_.size()];
    memory_->Delete(block, kBytes);
    block = memory_->New(kBytes);
  }

 private:
  Memory* memory_;
  std::vector<void*> live_;
  bool any_;
  std::mt19937 random_{9};
};

// A call of a trace; traces/make_traces.py writes some.
struct TraceCall {
  bool is_allocation;
  uint32_t block;
  uint32_t stream;
  uint64_t bytes;
};

// Plays each call once, with a memory for each stream.  At the end it frees the
// blocks that the trace leaves alive.
template <typename Memory>
class TracePlayer {
 public:
  // Both arguments must outlive the object.
  TracePlayer(std::vector<Memory>* memories, const TraceCall* calls,
              size_t count, size_t blocks)
      : memories_(memories), calls_(calls), count_(count), live_(blocks) {}

  void RunOnce() {
    for (size_t i = 0; i < count_; ++i) {
      const TraceCall& call = calls_[i];
      if (call.is_allocation) {
        live_[call.block] = {(*memories_)[call.stream].New(call.bytes),
                             call.bytes, call.stream};
      } else {
        Free(&live_[call.block]);
      }
    }
    for (Block& block : live_) Free(&block);
  }

 private:
  struct Block {
    void* data = nullptr;
    uint64_t bytes = 0;
    uint32_t stream = 0;
  };
  void Free(Block* block) {
    (*memories_)[block->stream].Delete(block->data, block->bytes);
    block->data = nullptr;
  }

  std::vector<Memory>* memories_;
  const TraceCall* calls_;
  size_t count_;
  std::vector<Block> live_;
};

}  // namespace bench

#endif  // DEVRT_TOOLS_BENCH_WORKLOADS_H_
