// SPDX-License-Identifier: Apache-2.0
//
// A producer on one device, a consumer on another, and the host at the end.
// Events are the only order between the streams.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "devrt/devrt.h"

namespace {

constexpr size_t kCount = 1 << 16;
constexpr uint64_t kBytes = kCount * sizeof(float);

// Device memory that the destructor frees.
class Buffer {
 public:
  static absl::StatusOr<Buffer> Make(devrt::Device device) {
    DEVRT_ASSIGN_OR_RETURN(void* data, devrt::Allocate(device, kBytes));
    return Buffer(device, data);
  }
  Buffer(Buffer&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  ~Buffer() {
    if (data_ != nullptr) (void)devrt::Free(device_, data_);
  }
  float* data() const { return static_cast<float*>(data_); }

 private:
  Buffer(devrt::Device device, void* data) : device_(device), data_(data) {}
  devrt::Device device_;
  void* data_;
};

absl::Status Scale(devrt::StreamRef stream, float* x, float factor) {
  return devrt::Launch(stream, {devrt::ReadWrite(x, kBytes)},
                       [=](const devrt::LaunchContext& kernel) {
                         float* local = kernel.Local(x, kCount);
                         if (local == nullptr) return;
                         for (size_t i = 0; i < kCount; ++i) local[i] *= factor;
                       },
                       {"scale"});
}

absl::Status Run() {
  DEVRT_ASSIGN_OR_RETURN(devrt::Device first, devrt::GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(devrt::Device second, devrt::GetDevice("mtia:1"));
  DEVRT_ASSIGN_OR_RETURN(Buffer a, Buffer::Make(first));
  DEVRT_ASSIGN_OR_RETURN(Buffer b, Buffer::Make(second));
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream produce, devrt::Stream::Create(first));
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream move, devrt::Stream::Create(second));
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream consume, devrt::Stream::Create(second));
  DEVRT_ASSIGN_OR_RETURN(devrt::Event produced, devrt::Event::Create(first));
  DEVRT_ASSIGN_OR_RETURN(devrt::Event moved, devrt::Event::Create(second));

  std::vector<float> host(kCount, 1.0f);
  DEVRT_RETURN_IF_ERROR(devrt::Copy(produce, a.data(), host.data(), kBytes));
  DEVRT_RETURN_IF_ERROR(Scale(produce, a.data(), 2.0f));
  DEVRT_RETURN_IF_ERROR(produced.Record(produce));

  DEVRT_RETURN_IF_ERROR(move.Wait(produced));
  DEVRT_RETURN_IF_ERROR(devrt::CopyAsync(move, b.data(), a.data(), kBytes));
  DEVRT_RETURN_IF_ERROR(moved.Record(move));

  DEVRT_RETURN_IF_ERROR(consume.Wait(moved));
  DEVRT_RETURN_IF_ERROR(Scale(consume, b.data(), 3.0f));
  DEVRT_RETURN_IF_ERROR(devrt::Copy(consume, host.data(), b.data(), kBytes));

  for (size_t i = 0; i < kCount; ++i) {
    if (host[i] != 6.0f) {
      std::printf("element %zu is %g, not 6\n", i, host[i]);
      return absl::InternalError("the streams were not in order");
    }
  }
  std::printf("%zu elements went through two devices and three streams\n",
              kCount);
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::printf("%s\n", devrt::StatusText(status).c_str());
  return status.ok() ? 0 : 1;
}
