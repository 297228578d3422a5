// SPDX-License-Identifier: Apache-2.0
//
// What the demo runs: data in chunks through all devices, one after another,
// with two buffers a device, so that copies, kernels and peer copies of
// different chunks overlap.  It uses the public C++ API only; read pipeline.cc
// as an example of it.

#ifndef DEVRT_TOOLS_DEMO_PIPELINE_H_
#define DEVRT_TOOLS_DEMO_PIPELINE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/streams/event.h"
#include "devrt/streams/stream.h"
#include "tools/demo/block.h"
#include "tools/demo/recorder.h"
#include "tools/timeline/timeline.h"

namespace devrt::tools {

inline constexpr int kChunks = 6;
inline constexpr size_t kBuffers = 2;  // on each device

// What a backend may lack, and the demo then does without.
struct Abilities {
  bool kernels = false;         // else each device marks a part with a fill
  bool pinned_memory = false;   // else copies are from and to plain memory
  bool host_functions = false;  // else nobody is told when a chunk is back
};

// The kernel of a device: what it does to every value.  Unsigned integers, so
// that every machine gets the same result.
struct Kernel {
  const char* name;
  const char* formula;
  uint32_t (*apply)(uint32_t value);
};
const Kernel& KernelOf(size_t device);

// What the kernels of `devices` devices, one after another, make of `value`.
uint32_t AfterKernels(uint32_t value, size_t devices);

// A value that came out wrong.
struct Difference {
  size_t index = 0;
  uint32_t found = 0;
  uint32_t expected = 0;
};
// The first of `values` that differs from what `expected` says of its index.
std::optional<Difference> FindDifference(
    const uint32_t* values, size_t count,
    absl::FunctionRef<uint32_t(size_t)> expected);

class Pipeline {
 public:
  // Makes streams, events and memory on `devices`, for `count` values.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(
      std::vector<Device> devices, size_t count);
  // Waits for what still runs.
  ~Pipeline();

  // Submits everything and waits for it, then asks when it ran.
  absl::Status Run(Recorder* recorder);

  const std::vector<Device>& devices() const { return devices_; }
  const Timeline& timeline() const { return timeline_; }
  size_t count() const { return count_; }
  size_t chunk_bytes() const;  // of the largest chunk
  // Whether a device reaches the memory of the next one directly.
  bool direct(size_t device) const { return stages_[device].direct; }
  const Abilities& abilities() const { return abilities_; }
  // What a device does to a chunk, "scale: x = 3 * x + 1".
  std::string WorkText(size_t device) const;
  // Whether each operation was waited for, to learn its time.
  bool waited() const { return waited_; }
  int host_functions_run() const { return arrived_; }
  std::optional<Difference> Verify() const;

 private:
  // A stream that does one kind of work.
  struct Lane {
    explicit Lane(Stream s) : stream(std::move(s)) {}
    Stream stream;
    size_t row = 0;
    std::optional<size_t> last;  // the newest operation of all
    // Per buffer: recorded after the newest operation on it, and which it is.
    std::vector<Event> done;
    std::array<std::optional<size_t>, kBuffers> newest;
  };
  // One device's part.
  struct Stage {
    std::optional<Lane> in;  // the first device's, from the host
    std::optional<Lane> compute;
    std::optional<Lane> out;  // to the next device, or to the host
    std::vector<Block> buffers;
    bool direct = false;
  };
  struct Chunk {
    int number;     // from 1
    size_t buffer;  // which of a device's
    size_t first;   // its first value
    size_t count;   // of values
    uint64_t bytes() const { return count * sizeof(uint32_t); }
  };

  Pipeline(std::vector<Device> devices, size_t count)
      : devices_(std::move(devices)), count_(count) {}

  absl::Status Prepare();
  absl::Status PrepareHostMemory();
  absl::StatusOr<Stage> MakeStage(size_t device);
  absl::StatusOr<Lane> MakeLane(Device device, const char* name);
  absl::StatusOr<bool> ConnectToNext(size_t device);

  Chunk ChunkOf(int number) const;
  // The part of `count` values that a device marks; the last part of all, which
  // no device does, stays as it went in.
  struct Part {
    size_t first, end;
  };
  Part PartOf(size_t device, size_t count) const;
  uint32_t AfterMarks(size_t index) const;
  absl::Status SubmitAll(Recorder* recorder);
  absl::Status CopyIn(const Chunk& chunk, Recorder* recorder);
  absl::Status Compute(size_t device, const Chunk& chunk, Recorder* recorder);
  absl::Status RunKernel(size_t device, const Chunk& chunk, StreamRef stream);
  absl::Status Mark(size_t device, const Chunk& chunk, StreamRef stream);
  absl::Status Send(size_t device, const Chunk& chunk, Recorder* recorder);
  absl::Status CopyOut(const Chunk& chunk, Recorder* recorder);
  absl::Status Notify(const Chunk& chunk, Recorder* recorder);

  // Makes `lane` wait for the newest work of `after` on the chunk's buffer,
  // submits with `lane` as the thread's current stream, and records its event.
  absl::Status Submit(Lane* lane, std::initializer_list<const Lane*> after,
                      const Chunk& chunk, TimelineOp op, Recorder* recorder,
                      absl::FunctionRef<absl::Status(StreamRef)> submit);

  uint32_t* Buffer(size_t device, const Chunk& chunk) const {
    return stages_[device].buffers[chunk.buffer].as<uint32_t>();
  }

  std::vector<Device> devices_;
  size_t count_;
  Abilities abilities_;
  bool waited_ = false;
  std::optional<Block> input_;
  std::optional<Block> output_;
  std::vector<Stage> stages_;
  Timeline timeline_;
  std::atomic<int> arrived_{0};  // chunks, counted by host functions
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DEMO_PIPELINE_H_
