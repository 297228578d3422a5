// SPDX-License-Identifier: Apache-2.0
//
// Chunks of data go from the host through a device and back, with two buffers:
// while the device computes one chunk, the next one travels to the device and
// the previous one back.  With several devices, each has a share of the chunks.
//
// Each buffer has a stream, which copies a chunk to the device, computes and
// copies the result back; the streams of two buffers overlap.  The host's
// memory is pinned, because a copy of plain memory makes the host wait.  Before
// the host touches that memory it calls Ready, which waits for the stream of
// that buffer only.
//
//   pipeline --devices=2 --chunks=8 --kibibytes=4096

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "examples/support/options.h"
#include "examples/support/picture.h"

namespace {

using devrt::Array;
using devrt::kFloat32;
using devrt::Place;

constexpr int kBuffers = 2;

// The computation: x * x + 1 for every element.
float Expected(float x) { return x * x + 1.0f; }

float ValueOf(int chunk, int64_t i) {
  return static_cast<float>((i * 3 + chunk * 17) % 1024);
}

// The memory of one chunk on its way.
struct Buffer {
  devrt::Stream stream;
  Array from_host;           // pinned
  Array in;                  // on the device
  Array out;                 // on the device
  Array to_host;             // pinned
  std::optional<int> chunk;  // the chunk whose result to_host will hold
};

class Pipeline {
 public:
  static absl::StatusOr<Pipeline> Make(devrt::Device device, int64_t count) {
    DEVRT_ASSIGN_OR_RETURN(Array one, Array::Full({}, kFloat32, 1.0, device));
    Pipeline made{std::move(one), {}};
    for (int i = 0; i < kBuffers; ++i) {
      const auto empty = [&](const Place& place) {
        return Array::Empty({count}, kFloat32, place);
      };
      DEVRT_ASSIGN_OR_RETURN(devrt::Stream stream,
                             devrt::Stream::Create(device));
      DEVRT_ASSIGN_OR_RETURN(Array from_host, empty(Place::Pinned(device)));
      DEVRT_ASSIGN_OR_RETURN(Array in, empty(device));
      DEVRT_ASSIGN_OR_RETURN(Array out, empty(device));
      DEVRT_ASSIGN_OR_RETURN(Array to_host, empty(Place::Pinned(device)));
      made.buffers.push_back({std::move(stream),
                              std::move(from_host),
                              std::move(in),
                              std::move(out),
                              std::move(to_host),
                              {}});
    }
    return made;
  }

  // Returns when the work is submitted.  The caller has collected the buffer.
  absl::Status Submit(int chunk, Buffer* buffer) const {
    DEVRT_RETURN_IF_ERROR(buffer->from_host.Ready());
    float* const values = buffer->from_host.data_as<float>();
    for (int64_t i = 0; i < buffer->from_host.size(); ++i) {
      values[i] = ValueOf(chunk, i);
    }
    const devrt::StreamGuard on(buffer->stream);
    constexpr bool kNonBlocking = true;
    DEVRT_RETURN_IF_ERROR(buffer->in.CopyFrom(buffer->from_host, kNonBlocking));
    DEVRT_RETURN_IF_ERROR(devrt::ApplyInto(devrt::BinaryOp::kMul, buffer->out,
                                           buffer->in, buffer->in));
    DEVRT_RETURN_IF_ERROR(devrt::AddInto(buffer->out, buffer->out, one));
    buffer->chunk = chunk;
    return buffer->to_host.CopyFrom(buffer->out, kNonBlocking);
  }

  // Waits for the result in the buffer, and checks it.
  static absl::Status Collect(Buffer* buffer) {
    if (!buffer->chunk) return absl::OkStatus();
    DEVRT_RETURN_IF_ERROR(buffer->to_host.Ready());
    const float* const values = buffer->to_host.data_as<float>();
    for (int64_t i = 0; i < buffer->to_host.size(); ++i) {
      if (values[i] == Expected(ValueOf(*buffer->chunk, i))) continue;
      return absl::InternalError("element " + std::to_string(i) + " of chunk " +
                                 std::to_string(*buffer->chunk) +
                                 " is wrong: the streams were not in order");
    }
    buffer->chunk.reset();
    return absl::OkStatus();
  }

  Array one;
  std::vector<Buffer> buffers;
};

absl::StatusOr<std::vector<Pipeline>> MakePipelines(
    const std::vector<devrt::Device>& devices, int64_t count,
    example::Picture* picture) {
  std::vector<Pipeline> pipelines;
  for (const devrt::Device device : devices) {
    DEVRT_ASSIGN_OR_RETURN(Pipeline made, Pipeline::Make(device, count));
    for (size_t i = 0; i < made.buffers.size(); ++i) {
      DEVRT_RETURN_IF_ERROR(picture->Name(made.buffers[i].stream,
                                          "buffer " + std::to_string(i + 1)));
    }
    pipelines.push_back(std::move(made));
  }
  return pipelines;
}

absl::Status Run(const example::Options& options) {
  const int chunks = static_cast<int>(options.Number("chunks", 1, 1'000'000));
  const int64_t count = options.Number("kibibytes", 1, 1 << 22) * 1024 / 4;
  const int64_t at_least = options.Number("at_least", 0, 300);
  DEVRT_ASSIGN_OR_RETURN(const std::vector<devrt::Device> devices,
                         example::FindDevices(options));
  DEVRT_ASSIGN_OR_RETURN(example::Picture picture,
                         example::Picture::Begin(
                             devices[0], "pipeline: " + std::to_string(chunks) +
                                             " chunks, two buffers a device"));
  DEVRT_ASSIGN_OR_RETURN(std::vector<Pipeline> pipelines,
                         MakePipelines(devices, count, &picture));
  const int n = static_cast<int>(devices.size());
  for (int chunk = 0; chunk < chunks; ++chunk) {
    Pipeline& pipeline = pipelines[static_cast<size_t>(chunk % n)];
    Buffer& buffer =
        pipeline.buffers[static_cast<size_t>(chunk / n % kBuffers)];
    DEVRT_RETURN_IF_ERROR(Pipeline::Collect(&buffer));
    DEVRT_RETURN_IF_ERROR(picture.Number(chunk + 1));
    DEVRT_RETURN_IF_ERROR(pipeline.Submit(chunk, &buffer));
  }
  for (Pipeline& pipeline : pipelines) {
    for (Buffer& buffer : pipeline.buffers) {
      DEVRT_RETURN_IF_ERROR(Pipeline::Collect(&buffer));
    }
  }
  DEVRT_RETURN_IF_ERROR(picture.Finish("chunk", options.Text("timeline")));
  std::printf("%d chunks of %d KiB through %d devices: every value is right\n",
              chunks, static_cast<int>(count * 4 / 1024), n);
  const auto at_a_time = picture.AtATime();
  if (!at_a_time) return absl::OkStatus();
  std::printf("%.2f operations ran at a time on each device\n", *at_a_time / n);
  if (*at_a_time / n * 100 < static_cast<double>(at_least)) {
    return absl::InternalError("less overlap than --at_least hundredths");
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const example::Options options(argc, argv,
                                 {{"chunks", "12"},
                                  {"kibibytes", "2048"},
                                  {"at_least", "0"},
                                  {"timeline", "pipeline.svg"}});
  return example::ExitCode(Run(options));
}
