// SPDX-License-Identifier: Apache-2.0
//
// Native streams as numbers, which devrt exchanges with other libraries.
//
//   // a stream of another library
//   devrt::AdoptOptions options;
//   options.owner = object;
//   DEVRT_ASSIGN_OR_RETURN(devrt::ExternalStream theirs,
//                          devrt::AdoptNativeStream(handle, options));
//   devrt::StreamGuard on_theirs(theirs.ref());
//
//   // a stream of devrt for another library: __cuda_stream__ is (0, handle)
//   DEVRT_ASSIGN_OR_RETURN(devrt::CudaStreamHandle ours,
//                          devrt::GetCudaStream(stream));
//
// A number says neither which device the stream is of nor who owns it.  devrt
// asks the driver for the device.  0 names a default stream, on cuda 1 and 2
// too: of the device in the options, or else of the current device.  devrt
// never destroys the native stream; `owner` keeps it alive (E37).
//
// Threads: any.

#ifndef DEVRT_STREAMS_OBJECTS_EXTERNAL_STREAM_H_
#define DEVRT_STREAMS_OBJECTS_EXTERNAL_STREAM_H_

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

// An adopted stream, or the default stream that a number names.  Movable.
class DEVRT_EXPORT ExternalStream {
 public:
  // A stream of Stream::FromNative, which the ExternalStream owns from then on.
  explicit ExternalStream(Stream adopted)
      : ref_(adopted.ref()), adopted_(std::move(adopted)) {}
  // A default stream, which needs no owner.
  explicit ExternalStream(StreamRef stream) : ref_(stream) {}

  // A reference, which is valid while this ExternalStream lives:
  StreamRef ref() const { return ref_; }
  operator StreamRef() const { return ref_; }

 private:
  StreamRef ref_;
  std::optional<Stream> adopted_;
};

// What a number does not say of its stream.
struct AdoptOptions {
  // Kept as long as the ExternalStream, and as long as anything that keeps the
  // native stream: exports, interfaces, RecordUse, deallocation streams.
  // Pending work of the stream does not keep the owner.
  std::shared_ptr<void> owner;
  // The device that the driver must name for the stream; for the number of a
  // default stream the device whose default stream is meant.
  std::optional<Device> device;
  // The backend of the handle if no device is given.  Empty: cuda, or else the
  // only backend that is open.
  std::string backend;
};

// Adopts the native stream `handle`.  Each call makes a new adoption with a new
// id.
//   INVALID_ARGUMENT  the number is negative; the stream is of another device
//                     than `options.device`; no device of the backend takes it;
//                     1 or 2 on hip
//   NOT_FOUND         there is no such backend
//   UNIMPLEMENTED     the backend adopts no streams, or cannot tell which
//                     device the handle belongs to: name the device
DEVRT_EXPORT absl::StatusOr<ExternalStream> AdoptNativeStream(
    int64_t handle, AdoptOptions options = {});

// What __cuda_stream__ returns.
struct CudaStreamHandle {
  int version = 0;      // of the protocol
  uint64_t handle = 0;  // 1: the default stream, 2: the per-thread one
};
// UNIMPLEMENTED for streams of other backends than cuda (E16).
DEVRT_EXPORT absl::StatusOr<CudaStreamHandle> GetCudaStream(StreamRef stream);

}  // namespace devrt

#endif  // DEVRT_STREAMS_OBJECTS_EXTERNAL_STREAM_H_
