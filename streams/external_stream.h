// SPDX-License-Identifier: Apache-2.0
//
// Native streams of other libraries, in and out, as numbers.
//
//   // what another library's stream object says of itself
//   devrt::AdoptOptions options;
//   options.owner = object;
//   DEVRT_ASSIGN_OR_RETURN(devrt::ExternalStream theirs,
//                          devrt::AdoptNativeStream(handle, options));
//   devrt::StreamGuard on_theirs(theirs.ref());
//
//   // what devrt's streams say to others: __cuda_stream__ is (0, handle)
//   DEVRT_ASSIGN_OR_RETURN(devrt::CudaStreamHandle ours,
//                          devrt::GetCudaStream(stream));
//
// A number carries neither a device nor ownership.  The device is found by
// asking the driver; 0, 1 and 2 name the default streams of the device that is
// given, or else current.  The native stream is never destroyed here; `owner`
// is what keeps it alive (E37).
//
// Threads: any.

#ifndef DEVRT_STREAMS_EXTERNAL_STREAM_H_
#define DEVRT_STREAMS_EXTERNAL_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

// An adopted stream, or one of devrt's that the number names.  Movable.
class DEVRT_EXPORT ExternalStream {
 public:
  explicit ExternalStream(Stream adopted)
      : ref_(adopted.ref()), adopted_(std::move(adopted)) {}
  // A default stream, which needs no owner.
  explicit ExternalStream(StreamRef stream) : ref_(stream) {}

  StreamRef ref() const { return ref_; }
  operator StreamRef() const { return ref_; }

 private:
  StreamRef ref_;
  std::optional<Stream> adopted_;
};

struct AdoptOptions {
  // Kept as long as the ExternalStream, and by those who keep the native stream
  // (exports, interfaces, RecordUse, deallocation streams) until they let go;
  // not for other work that the stream was given, which may be pending then.
  std::shared_ptr<void> owner;
  // Compared with what the driver says; also the device of 0, 1 and 2.
  std::optional<Device> device;
  // Whose handle it is, where no device is given; empty: cuda, or else the
  // only backend that is open.
  std::string backend;
};

// Each call is an adoption of its own, with a new id.
//   INVALID_ARGUMENT  negative; the stream belongs to another device than
//                     `options.device`; no device of the backend takes it; 1
//                     and 2 where only CUDA knows them
//   NOT_FOUND         no such backend
//   UNIMPLEMENTED     the backend adopts none, or cannot tell which device the
//                     handle belongs to: name the device
DEVRT_EXPORT absl::StatusOr<ExternalStream> AdoptNativeStream(
    int64_t handle, AdoptOptions options = {});

// What __cuda_stream__ answers.
struct CudaStreamHandle {
  int version = 0;
  uint64_t handle = 0;  // 1: the default stream, 2: the per-thread one
};
// UNIMPLEMENTED for streams of other backends than cuda (E16).
DEVRT_EXPORT absl::StatusOr<CudaStreamHandle> GetCudaStream(StreamRef stream);

}  // namespace devrt

#endif  // DEVRT_STREAMS_EXTERNAL_STREAM_H_
