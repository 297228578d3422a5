// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: copies, fills, and who may reach whose memory.

#ifndef DEVRT_BACKENDS_GPU_COPY_H_
#define DEVRT_BACKENDS_GPU_COPY_H_

#include <cstring>

#include "backends/gpu/backend.h"

namespace devrt::gpu {

template <class Api>
devrt_status Backend<Api>::copy_async(devrt_stream handle, void* dst,
                                      const void* src, uint64_t size,
                                      uint32_t kind) {
  Stream* const stream = Of(handle);
  if (kind == DEVRT_COPY_H2H) {
    if (devrt_status error = stream_sync(handle)) return error;
    // Also behind legacy work, as every operation of a blocking stream.
    if (stream->blocking && stream->kind != DEVRT_STREAM_LEGACY) {
      if (devrt_status error =
              Take(SynchronizeRecords(stream), "stream sync", stream->device)) {
        return error;
      }
    }
    std::memcpy(dst, src, size);
    return nullptr;
  }
  return Submit(stream, "copy", [&] {
    if (ReadsEarly(*stream, size, kind)) {
      if (const Error error = Fence(stream); error != Api::kSuccess) {
        return error;
      }
    }
    return CopyAnywhere(*stream, [&] {
      return api_->Copy(dst, src, size, kind, stream->native);
    });
  });
}

template <class Api>
devrt_status Backend<Api>::fill_async(devrt_stream handle, void* dst,
                                      uint32_t value, uint64_t size) {
  Stream* const stream = Of(handle);
  return Submit(stream, "fill", [&] {
    return api_->Fill(dst, static_cast<uint8_t>(value), size, stream->native);
  });
}

template <class Api>
devrt_status Backend<Api>::copy_peer_async(devrt_stream handle, void* dst,
                                           uint32_t dst_ordinal,
                                           const void* src,
                                           uint32_t src_ordinal,
                                           uint64_t size) {
  Device* to = nullptr;
  Device* from = nullptr;
  if (devrt_status error = Find(dst_ordinal, &to)) return error;
  if (devrt_status error = Find(src_ordinal, &from)) return error;
  Context to_context{}, from_context{};
  if (devrt_status error = Enter(to, &to_context)) return error;
  if (devrt_status error = Enter(from, &from_context)) return error;
  Stream* const stream = Of(handle);
  return Submit(stream, "peer copy", [&] {
    return CopyAnywhere(*stream, [&] {
      return api_->CopyPeer(dst, to_context, src, from_context, size,
                            stream->native);
    });
  });
}

// ---- Peers ------------------------------------------------------------------

template <class Api>
devrt_status Backend<Api>::peer_can_access(uint32_t ordinal, uint32_t peer,
                                           uint32_t* can) {
  Device* device = nullptr;
  Device* other = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  if (devrt_status error = Find(peer, &other)) return error;
  int answer = 0;
  if (device != other) {
    if (devrt_status error =
            Take(api_->CanAccessPeer(device->native, other->native, &answer),
                 "peer access query", device)) {
      return error;
    }
  }
  *can = answer != 0 ? 1 : 0;
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::peer_enable(uint32_t ordinal, uint32_t peer) {
  Device* device = nullptr;
  Device* other = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  if (devrt_status error = Find(peer, &other)) return error;
  if (device == other) {
    return Refuse(DEVRT_INVALID_ARGUMENT, "%s:%u is its own peer",
                  Api::kBackend, ordinal);
  }
  Context context{}, peer_context{};
  if (devrt_status error = Enter(device, &context)) return error;
  if (devrt_status error = Enter(other, &peer_context)) return error;
  const std::lock_guard<std::mutex> lock(peers_mutex_);
  const uint64_t key = uint64_t{ordinal} << 32 | peer;
  if (peers_.count(key) != 0) {
    return Refuse(DEVRT_ALREADY_EXISTS, "%s:%u may access %s:%u already",
                  Api::kBackend, ordinal, Api::kBackend, peer);
  }
  const ContextScope scope(*api_, context);
  Error error = scope.error();
  if (error == Api::kSuccess) error = api_->EnablePeer(peer_context);
  // Another library may have been first; then it is not ours to end.
  if (error != Api::kSuccess && error != Api::kPeerAlreadyEnabled) {
    return Take(error, "peer access", device);
  }
  const bool ours = error == Api::kSuccess;
  const char* what = "";
  error = AllowPeer(ordinal, peer, true, &what);
  if (error == Api::kSuccess) {
    peers_[key] = ours;
    return nullptr;
  }
  // As before the call: some of it may be given already.
  const char* ignored = "";
  (void)AllowPeer(ordinal, peer, false, &ignored);
  if (ours) (void)api_->DisablePeer(peer_context);
  return Take(error, what, device);
}

// What `device` may do with memory of `peer` that access of contexts does not
// cover.  `what` names what failed.  The caller holds peers_mutex_.
template <class Api>
typename Api::Error Backend<Api>::AllowPeer(
    [[maybe_unused]] uint32_t ordinal, [[maybe_unused]] uint32_t peer,
    [[maybe_unused]] bool allow, [[maybe_unused]] const char** what) {
  Error error = Api::kSuccess;
  if constexpr (Api::kHasPools) {
    *what = "access to a memory pool";
    error = AllowPool(ordinal, peer, allow);
  }
  if constexpr (Api::kHasVirtualMemory) {
    if (error == Api::kSuccess) {
      *what = "access to mappings";
      error = AllowMapped(ordinal, peer, allow);
    }
  }
  return error;
}

template <class Api>
devrt_status Backend<Api>::peer_disable(uint32_t ordinal, uint32_t peer) {
  Device* device = nullptr;
  Device* other = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  if (devrt_status error = Find(peer, &other)) return error;
  const std::lock_guard<std::mutex> lock(peers_mutex_);
  const auto found = peers_.find(uint64_t{ordinal} << 32 | peer);
  if (found == peers_.end()) {
    return Refuse(DEVRT_FAILED_PRECONDITION, "%s:%u may not access %s:%u",
                  Api::kBackend, ordinal, Api::kBackend, peer);
  }
  if (found->second) {
    const ContextScope scope(*api_, device->context.load());
    Error error = scope.error();
    if (error == Api::kSuccess)
      error = api_->DisablePeer(other->context.load());
    if (error != Api::kSuccess && error != Api::kPeerNotEnabled) {
      return Take(error, "peer access", device);
    }
  }
  peers_.erase(found);
  const char* what = "";
  const Error error = AllowPeer(ordinal, peer, false, &what);
  return Take(error, what, device);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_COPY_H_
