// SPDX-License-Identifier: Apache-2.0
//
// Pipeline: the work of `devrt demo`.  Data passes in chunks through all
// devices, one device after another.  Each device has two buffers, so that
// copies, kernels and peer copies of different chunks overlap.  The pipeline
// uses the public C++ API only; read pipeline.cc as an example of that API.

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

// The features that the demo uses and that a backend may lack.  The comments
// say what the demo does without a feature.
struct Abilities {
  bool kernels = false;         // else each device fills its part
  bool pinned_memory = false;   // else pageable memory
  bool host_functions = false;  // else no call when a chunk is back
};

// The kernel of a device: a function of one value.  The values are unsigned
// integers, so that the result does not depend on the machine.
struct Kernel {
  const char* name;
  const char* formula;
  uint32_t (*apply)(uint32_t value);
};
const Kernel& KernelOf(size_t device);

// Applies the kernels of `devices` devices to `value`, one after another.
uint32_t AfterKernels(uint32_t value, size_t devices);

// A wrong value in the result.
struct Difference {
  size_t index = 0;
  uint32_t found = 0;
  uint32_t expected = 0;
};
// Returns the first i for which values[i] differs from expected(i).
std::optional<Difference> FindDifference(
    const uint32_t* values, size_t count,
    absl::FunctionRef<uint32_t(size_t)> expected);

class Pipeline {
 public:
  // Creates streams, events and memory on `devices`, for `count` values.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(
      std::vector<Device> devices, size_t count);
  // Waits for the work that still runs.
  ~Pipeline();

  // Submits all work, waits until it is complete, and gets the time of each
  // operation from `recorder`.
  absl::Status Run(Recorder* recorder);

  const std::vector<Device>& devices() const { return devices_; }
  const Timeline& timeline() const { return timeline_; }
  size_t count() const { return count_; }
  size_t chunk_bytes() const;  // of the largest chunk
  // True if `device` has peer access to the next device.
  bool direct(size_t device) const { return stages_[device].direct; }
  const Abilities& abilities() const { return abilities_; }
  // The work of `device` on a chunk, such as "scale: x = 3 * x + 1".
  std::string WorkText(size_t device) const;
  // True if the recorder waited for each operation, so that none overlapped.
  bool waited() const { return waited_; }
  int host_functions_run() const { return arrived_; }
  std::optional<Difference> Verify() const;

 private:
  // A stream that does one kind of work.
  struct Lane {
    explicit Lane(Stream s) : stream(std::move(s)) {}
    Stream stream;
    size_t row = 0;
    std::optional<size_t> last;  // index of the newest operation
    // For each buffer: an event after the newest operation on the buffer, and
    // the index of that operation.
    std::vector<Event> done;
    std::array<std::optional<size_t>, kBuffers> newest;
  };
  // The streams and buffers of one device.
  struct Stage {
    std::optional<Lane> in;  // the first device only: from the host
    std::optional<Lane> compute;
    std::optional<Lane> out;  // to the next device, or to the host
    std::vector<Block> buffers;
    bool direct = false;
  };
  struct Chunk {
    int number;     // from 1
    size_t buffer;  // index into Stage::buffers
    size_t first;   // its first value
    size_t count;   // number of values
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
  // The part of `count` values that a device marks.  There is one part more
  // than devices: the last part keeps its input.
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
  // calls `submit` with the lane's stream current, and records the lane's
  // event.
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
  std::atomic<int> arrived_{0};  // chunks that came back
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DEMO_PIPELINE_H_
