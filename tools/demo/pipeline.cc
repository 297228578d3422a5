// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/guards/device_guard.h"
#include "devrt/guards/stream_guard.h"
#include "devrt/guards/thread_context.h"
#include "devrt/runtime/peer.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/copy.h"
#include "devrt/streams/host_func.h"
#include "devrt/streams/launch.h"

namespace devrt::tools {
namespace {

// The speed of a simulated kernel.  A kernel takes about as long as a copy from
// the host, so that the overlap shows.
constexpr uint64_t kKernelBytesPerMicrosecond = 80'000;
constexpr uint64_t kNanosecondsPerMicrosecond = 1000;

uint64_t KernelDuration(uint64_t bytes) {
  return std::max<uint64_t>(
      bytes * kNanosecondsPerMicrosecond / kKernelBytesPerMicrosecond, 1);
}

// `status` with `what`, the purpose of the failed call, before its message.
absl::Status Annotated(const absl::Status& status, const std::string& what) {
  return absl::Status(status.code(),
                      absl::StrFormat("%s: %s", what, status.message()));
}

constexpr char kHostGroup[] = "host";
constexpr char kMark[] = "mark";

// The byte with which a device fills its part.
uint8_t MarkOf(size_t device) { return static_cast<uint8_t>(0xa0 + device); }

TimelineOp Operation(OpKind kind, const char* name) {
  TimelineOp op;
  op.kind = kind;
  op.name = name;
  return op;
}

}  // namespace

const Kernel& KernelOf(size_t device) {
  static constexpr Kernel kKernels[] = {
      {"scale", "x = 3 * x + 1", [](uint32_t x) { return 3 * x + 1; }},
      {"square", "x = x * x", [](uint32_t x) { return x * x; }},
  };
  return kKernels[device % std::size(kKernels)];
}

uint32_t AfterKernels(uint32_t value, size_t devices) {
  for (size_t d = 0; d < devices; ++d) value = KernelOf(d).apply(value);
  return value;
}

std::optional<Difference> FindDifference(
    const uint32_t* values, size_t count,
    absl::FunctionRef<uint32_t(size_t)> expected) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t wanted = expected(i);
    if (values[i] != wanted) return Difference{i, values[i], wanted};
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(
    std::vector<Device> devices, size_t count) {
  std::unique_ptr<Pipeline> pipeline(new Pipeline(std::move(devices), count));
  DEVRT_RETURN_IF_ERROR(pipeline->Prepare());
  return pipeline;
}

Pipeline::~Pipeline() {
  for (Device device : devices_) device.Synchronize().IgnoreError();
}

absl::Status Pipeline::PrepareHostMemory() {
  const uint64_t bytes = count_ * sizeof(uint32_t);
  const bool pinned = abilities_.pinned_memory;
  const auto allocate = [&](Device device) {
    return pinned ? Block::Pinned(device, bytes) : Block::Pageable(bytes);
  };
  absl::StatusOr<Block> input = allocate(devices_.front());
  absl::StatusOr<Block> output = allocate(devices_.back());
  for (const auto* block : {&input, &output}) {
    if (block->ok()) continue;
    return Annotated(block->status(), pinned ? "pinned host memory for the data"
                                             : "host memory for the data");
  }
  input_.emplace(*std::move(input));
  output_.emplace(*std::move(output));
  return absl::OkStatus();
}

absl::Status Pipeline::Prepare() {
  const Backend backend = devices_.front().backend();
  abilities_.kernels =
      backend
          .GetExtension(DEVRT_LAUNCH_EXTENSION,
                        DEVRT_SIZE_THROUGH(devrt_launch_v0, launch))
          .ok();
  abilities_.pinned_memory = backend.Has(DEVRT_CAP_PINNED_HOST);
  abilities_.host_functions = backend.Has(DEVRT_CAP_HOST_FUNC);
  DEVRT_RETURN_IF_ERROR(PrepareHostMemory());
  for (size_t i = 0; i < count_; ++i) {
    input_->as<uint32_t>()[i] = static_cast<uint32_t>(i);
  }
  std::fill_n(output_->as<uint32_t>(), count_, 0);

  stages_.reserve(devices_.size());
  for (size_t d = 0; d < devices_.size(); ++d) {
    DEVRT_ASSIGN_OR_RETURN(Stage stage, MakeStage(d));
    stages_.push_back(std::move(stage));
  }
  if (abilities_.host_functions) {
    timeline_.rows.push_back({kHostGroup, "functions"});
  }
  return absl::OkStatus();
}

absl::StatusOr<Pipeline::Stage> Pipeline::MakeStage(size_t device) {
  const Device here = devices_[device];
  // devrt's calls below name the device.  The guard is for other libraries,
  // which use the current device.
  const DeviceGuard on_device(here);
  DEVRT_RETURN_IF_ERROR(on_device.status());

  const bool first = device == 0;
  const bool last = device + 1 == devices_.size();
  Stage stage;
  if (first) {
    DEVRT_ASSIGN_OR_RETURN(stage.in, MakeLane(here, "copy in"));
  }
  DEVRT_ASSIGN_OR_RETURN(stage.compute, MakeLane(here, "compute"));
  DEVRT_ASSIGN_OR_RETURN(stage.out, MakeLane(here, last ? "copy out" : "send"));
  for (size_t i = 0; i < kBuffers; ++i) {
    absl::StatusOr<Block> buffer = Block::OnDevice(here, chunk_bytes());
    if (!buffer.ok()) {
      return Annotated(buffer.status(), "a buffer on " + here.name());
    }
    stage.buffers.push_back(*std::move(buffer));
  }
  if (!last) {
    DEVRT_ASSIGN_OR_RETURN(stage.direct, ConnectToNext(device));
  }
  return stage;
}

absl::StatusOr<bool> Pipeline::ConnectToNext(size_t device) {
  const Device here = devices_[device];
  const Device next = devices_[device + 1];
  DEVRT_ASSIGN_OR_RETURN(const bool possible, CanAccessPeer(here, next));
  if (!possible) return false;  // copies then go through the host
  DEVRT_RETURN_IF_ERROR(EnablePeerAccess(here, next));
  return true;
}

absl::StatusOr<Pipeline::Lane> Pipeline::MakeLane(Device device,
                                                  const char* name) {
  DEVRT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(device));
  Lane lane(std::move(stream));
  for (size_t i = 0; i < kBuffers; ++i) {
    DEVRT_ASSIGN_OR_RETURN(Event event, Event::Create(device));
    lane.done.push_back(std::move(event));
  }
  lane.row = timeline_.rows.size();
  timeline_.rows.push_back({device.name(), name});
  return lane;
}

size_t Pipeline::chunk_bytes() const {
  return (count_ + kChunks - 1) / kChunks * sizeof(uint32_t);
}

Pipeline::Chunk Pipeline::ChunkOf(int number) const {
  const size_t index = static_cast<size_t>(number - 1);
  const size_t size = chunk_bytes() / sizeof(uint32_t);
  const size_t first = std::min(index * size, count_);
  return {number, index % kBuffers, first, std::min(size, count_ - first)};
}

absl::Status Pipeline::Run(Recorder* recorder) {
  DEVRT_RETURN_IF_ERROR(recorder->Start(devices_));
  const ThreadContext before = ThreadContext::Capture();
  DEVRT_RETURN_IF_ERROR(SubmitAll(recorder));
  const ThreadContext after = ThreadContext::Capture();
  if (after.devices() != before.devices() ||
      after.streams() != before.streams()) {
    return absl::InternalError(
        "a guard did not restore the current device and streams");
  }
  for (const Stage& stage : stages_) {
    DEVRT_RETURN_IF_ERROR(stage.out->stream.Synchronize());
  }
  timeline_.clock = recorder->clock();
  waited_ = recorder->waits();
  return recorder->Finish(&timeline_.ops);
}

// The host does not wait here: it submits all work at once.
absl::Status Pipeline::SubmitAll(Recorder* recorder) {
  for (int number = 1; number <= kChunks; ++number) {
    const Chunk chunk = ChunkOf(number);
    DEVRT_RETURN_IF_ERROR(CopyIn(chunk, recorder));
    for (size_t d = 0; d < stages_.size(); ++d) {
      DEVRT_RETURN_IF_ERROR(Compute(d, chunk, recorder));
      if (d + 1 == stages_.size()) break;
      DEVRT_RETURN_IF_ERROR(Send(d, chunk, recorder));
    }
    DEVRT_RETURN_IF_ERROR(CopyOut(chunk, recorder));
    if (!abilities_.host_functions) continue;
    DEVRT_RETURN_IF_ERROR(Notify(chunk, recorder));
  }
  return absl::OkStatus();
}

absl::Status Pipeline::CopyIn(const Chunk& chunk, Recorder* recorder) {
  Stage& stage = stages_.front();
  // The chunk before the last one used this buffer and must have left it.
  return Submit(&*stage.in, {&*stage.out}, chunk,
                Operation(OpKind::kHostToDevice, "copy in"), recorder,
                [&](StreamRef stream) {
                  return CopyAsync(stream, Buffer(0, chunk),
                                   input_->as<uint32_t>() + chunk.first,
                                   chunk.bytes(), CopyKind::kHostToDevice);
                });
}

absl::Status Pipeline::Compute(size_t device, const Chunk& chunk,
                               Recorder* recorder) {
  Stage& stage = stages_[device];
  const Lane& source = device == 0 ? *stage.in : *stages_[device - 1].out;
  TimelineOp op = Operation(OpKind::kKernel, KernelOf(device).name);
  if (!abilities_.kernels) {
    const Part part = PartOf(device, chunk.count);
    op = Operation(OpKind::kFill, kMark);
    op.bytes = (part.end - part.first) * sizeof(uint32_t);
  }
  return Submit(&*stage.compute, {&source}, chunk, op, recorder,
                [&](StreamRef stream) {
                  return abilities_.kernels ? RunKernel(device, chunk, stream)
                                            : Mark(device, chunk, stream);
                });
}

absl::Status Pipeline::RunKernel(size_t device, const Chunk& chunk,
                                 StreamRef stream) {
  const Kernel kernel = KernelOf(device);
  LaunchOptions options;
  options.name = kernel.name;
  options.duration_ns = KernelDuration(chunk.bytes());
  uint32_t* values = Buffer(device, chunk);
  return Launch(
      stream, {ReadWrite(values, chunk.bytes())},
      [values, kernel, count = chunk.count](const LaunchContext& context) {
        uint32_t* local = context.Local(values, count);
        if (local == nullptr) return;  // devrt reports the fault
        for (size_t i = 0; i < count; ++i) local[i] = kernel.apply(local[i]);
      },
      options);
}

absl::Status Pipeline::Mark(size_t device, const Chunk& chunk,
                            StreamRef stream) {
  const Part part = PartOf(device, chunk.count);
  return FillAsync(stream, Buffer(device, chunk) + part.first, MarkOf(device),
                   (part.end - part.first) * sizeof(uint32_t));
}

Pipeline::Part Pipeline::PartOf(size_t device, size_t count) const {
  const size_t parts = devices_.size() + 1;
  return {count * device / parts, count * (device + 1) / parts};
}

uint32_t Pipeline::AfterMarks(size_t index) const {
  const size_t size = chunk_bytes() / sizeof(uint32_t);
  const Chunk chunk = ChunkOf(static_cast<int>(index / size) + 1);
  for (size_t d = 0; d < devices_.size(); ++d) {
    const Part part = PartOf(d, chunk.count);
    const size_t place = index - chunk.first;
    if (place < part.first || place >= part.end) continue;
    return MarkOf(d) * 0x01010101u;
  }
  return static_cast<uint32_t>(index);
}

std::string Pipeline::WorkText(size_t device) const {
  const Kernel& kernel = KernelOf(device);
  if (abilities_.kernels) {
    return absl::StrFormat("%s: %s", kernel.name, kernel.formula);
  }
  return absl::StrFormat("%s: part %d of %d := %#x", kMark, device + 1,
                         devices_.size() + 1, MarkOf(device));
}

absl::Status Pipeline::Send(size_t device, const Chunk& chunk,
                            Recorder* recorder) {
  Stage& stage = stages_[device];
  Stage& next = stages_[device + 1];
  return Submit(&*stage.out, {&*stage.compute, &*next.out}, chunk,
                Operation(OpKind::kPeerCopy, "send"), recorder,
                [&](StreamRef stream) {
                  return CopyAsync(stream, Buffer(device + 1, chunk),
                                   Buffer(device, chunk), chunk.bytes(),
                                   CopyKind::kDeviceToDevice);
                });
}

absl::Status Pipeline::CopyOut(const Chunk& chunk, Recorder* recorder) {
  Stage& stage = stages_.back();
  return Submit(&*stage.out, {&*stage.compute}, chunk,
                Operation(OpKind::kDeviceToHost, "copy out"), recorder,
                [&](StreamRef stream) {
                  return CopyAsync(stream,
                                   output_->as<uint32_t>() + chunk.first,
                                   Buffer(stages_.size() - 1, chunk),
                                   chunk.bytes(), CopyKind::kDeviceToHost);
                });
}

absl::Status Pipeline::Notify(const Chunk& chunk, Recorder* recorder) {
  Lane* const lane = &*stages_.back().out;
  const StreamRef stream = lane->stream;
  TimelineOp op = Operation(OpKind::kHostFunction, "host function");
  op.row = timeline_.rows.size() - 1;  // the host's row
  op.chunk = chunk.number;
  op.previous = lane->last;
  lane->last = timeline_.ops.size();
  timeline_.ops.push_back(std::move(op));
  DEVRT_RETURN_IF_ERROR(recorder->BeforeSubmit(stream));
  DEVRT_RETURN_IF_ERROR(LaunchHostFunc(stream, [this](absl::Status status) {
    if (status.ok()) ++arrived_;
  }));
  return recorder->AfterSubmit(stream);
}

absl::Status Pipeline::Submit(
    Lane* lane, std::initializer_list<const Lane*> after, const Chunk& chunk,
    TimelineOp op, Recorder* recorder,
    absl::FunctionRef<absl::Status(StreamRef)> submit) {
  const StreamGuard on_stream(lane->stream);
  DEVRT_RETURN_IF_ERROR(on_stream.status());
  const StreamRef stream = CurrentStream(lane->stream.device());

  for (const Lane* other : after) {
    // A wait for an event that was never recorded has no effect: the first
    // chunks find their buffers free.
    DEVRT_RETURN_IF_ERROR(stream.Wait(other->done[chunk.buffer]));
    const std::optional<size_t> newest = other->newest[chunk.buffer];
    if (newest) op.waits.push_back(*newest);
  }
  DEVRT_RETURN_IF_ERROR(recorder->BeforeSubmit(stream));
  DEVRT_RETURN_IF_ERROR(submit(stream));
  DEVRT_RETURN_IF_ERROR(recorder->AfterSubmit(stream));
  DEVRT_RETURN_IF_ERROR(lane->done[chunk.buffer].Record(stream));

  op.row = lane->row;
  op.chunk = chunk.number;
  if (op.bytes == 0) op.bytes = chunk.bytes();
  op.previous = lane->last;
  lane->last = lane->newest[chunk.buffer] = timeline_.ops.size();
  timeline_.ops.push_back(std::move(op));
  return absl::OkStatus();
}

std::optional<Difference> Pipeline::Verify() const {
  return FindDifference(output_->as<uint32_t>(), count_, [this](size_t i) {
    return abilities_.kernels
               ? AfterKernels(static_cast<uint32_t>(i), devices_.size())
               : AfterMarks(i);
  });
}

}  // namespace devrt::tools
