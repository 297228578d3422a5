// SPDX-License-Identifier: Apache-2.0
//
// Copies<Api>: the slots of copies and fills.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_COPY_H_
#define DEVRT_BACKENDS_GPU_COPY_H_

#include <cstdint>
#include <cstring>

#include "backends/gpu/device.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/stream.h"
#include "backends/gpu/submit.h"

namespace devrt::gpu {

// Returns true if the driver may read the copy's source at submission.  It does
// so for a small copy from pinned memory if the stream itself has nothing to
// do, even if the legacy stream's rules make the copy wait for other streams
// (measured below 32 KiB, decision 10).  A fence, a wait of the stream for an
// event of its own (records.h), gives the stream something to do.
template <class Api>
bool ReadsEarly(const Stream<Api>& stream, uint64_t size, uint32_t kind) {
  return stream.blocking && size < Api::kEarlyReadBelow &&
         (kind == DEVRT_COPY_H2D || kind == DEVRT_COPY_INFER);
}

// Copies to or from any memory.  The driver looks up mapped memory in the
// current context, not in the stream's (decision 10).  The mapping may belong
// to another library.
template <class Api, typename Call>
typename Api::Error CopyAnywhere(const Api& api, const Stream<Api>& stream,
                                 Call call) {
  const typename Api::Error error = call();
  if (!Api::kHasVirtualMemory || error != Api::kInvalidValue) return error;
  return WithContext(api, stream, call);
}

template <class Api>
class Copies {
 public:
  using Error = typename Api::Error;
  using Context = typename Api::Context;
  using Device = gpu::Device<Api>;
  using Stream = gpu::Stream<Api>;

  Copies(Devices<Api>* devices, Streams<Api>* streams)
      : driver_(devices->driver()),
        api_(driver_.api()),
        devices_(*devices),
        streams_(*streams) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  devrt_status copy_async(devrt_stream stream, void* dst, const void* src,
                          uint64_t size, uint32_t kind);
  devrt_status fill_async(devrt_stream stream, void* dst, uint32_t value,
                          uint64_t size);
  devrt_status copy_peer_async(devrt_stream stream, void* dst,
                               uint32_t dst_device, const void* src,
                               uint32_t src_device, uint64_t size);

 private:
  Driver<Api>& driver_;
  const Api& api_;
  Devices<Api>& devices_;
  Streams<Api>& streams_;
};

template <class Api>
devrt_status Copies<Api>::copy_async(devrt_stream handle, void* dst,
                                     const void* src, uint64_t size,
                                     uint32_t kind) {
  Stream* const stream = Stream::Of(handle);
  if (kind == DEVRT_COPY_H2H) {
    if (devrt_status error = streams_.stream_sync(handle)) return error;
    // Ordered after legacy work too, like every operation of a blocking stream.
    if (stream->blocking && stream->kind != DEVRT_STREAM_LEGACY) {
      if (devrt_status error =
              driver_.ToStatus(stream->hidden.Synchronize(api_, *stream),
                               "stream sync", stream->device)) {
        return error;
      }
    }
    std::memcpy(dst, src, size);
    return nullptr;
  }
  return Submit(&driver_, stream, "copy", [&] {
    if (ReadsEarly(*stream, size, kind)) {
      if (const Error error = stream->fence.Put(api_, *stream);
          error != Api::kSuccess) {
        return error;
      }
    }
    return CopyAnywhere(api_, *stream, [&] {
      return api_.Copy(dst, src, size, kind, stream->native);
    });
  });
}

template <class Api>
devrt_status Copies<Api>::fill_async(devrt_stream handle, void* dst,
                                     uint32_t value, uint64_t size) {
  Stream* const stream = Stream::Of(handle);
  return Submit(&driver_, stream, "fill", [&] {
    return api_.Fill(dst, static_cast<uint8_t>(value), size, stream->native);
  });
}

template <class Api>
devrt_status Copies<Api>::copy_peer_async(devrt_stream handle, void* dst,
                                          uint32_t dst_ordinal, const void* src,
                                          uint32_t src_ordinal, uint64_t size) {
  Device* to = nullptr;
  Device* from = nullptr;
  if (devrt_status error = devices_.Find(dst_ordinal, &to)) return error;
  if (devrt_status error = devices_.Find(src_ordinal, &from)) return error;
  Context to_context{}, from_context{};
  if (devrt_status error = devices_.Enter(to, &to_context)) return error;
  if (devrt_status error = devices_.Enter(from, &from_context)) return error;
  Stream* const stream = Stream::Of(handle);
  return Submit(&driver_, stream, "peer copy", [&] {
    return CopyAnywhere(api_, *stream, [&] {
      return api_.CopyPeer(dst, to_context, src, from_context, size,
                           stream->native);
    });
  });
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_COPY_H_
