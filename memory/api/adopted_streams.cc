// SPDX-License-Identifier: Apache-2.0

#include "memory/api/adopted_streams.h"

#include <memory>
#include <optional>
#include <vector>

#include "devrt/runtime/status.h"
#include "memory/device/hooks.h"

namespace devrt::internal {

namespace {

// While the map has a stream, it does not count as an object of the program.
void Count(DeviceRecord* device, int64_t streams) {
  device->live_streams.fetch_add(streams, std::memory_order_relaxed);
}

}  // namespace

AdoptedStreams& AdoptedStreams::Get() {
  static AdoptedStreams* const adopted = [] {
    InstallAdoptedStreamsHook(
        [](DeviceRecord* device) { AdoptedStreams::Get().Release(device); });
    return new AdoptedStreams;
  }();
  return *adopted;
}

absl::StatusOr<StreamRef> AdoptedStreams::Find(Device device, void* native) {
  const Key key = {device.record(), native};
  {
    MutexLock lock(&mutex_);
    const auto found = streams_.find(key);
    if (found != streams_.end()) return found->second.ref();
  }
  // The native stream lives until devrt_memory_stream_ends at least.
  DEVRT_ASSIGN_OR_RETURN(
      Stream stream,
      Stream::FromNative(device, native, std::make_shared<char>()));
  // If two threads adopt the handle at once, the second one drops its stream.
  std::optional<Stream> spare;
  MutexLock lock(&mutex_);
  const auto found = streams_.find(key);
  if (found != streams_.end()) {
    spare = std::move(stream);
    return found->second.ref();
  }
  Count(device.record(), -1);
  return streams_.emplace(key, std::move(stream)).first->second.ref();
}

void AdoptedStreams::End(Device device, void* native) {
  std::optional<Stream> ended;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const auto found = streams_.find({device.record(), native});
  if (found == streams_.end()) return;
  Count(device.record(), 1);
  ended = std::move(found->second);
  streams_.erase(found);
}

void AdoptedStreams::Release(DeviceRecord* device) {
  std::vector<Stream> ended;  // with no lock held
  MutexLock lock(&mutex_);
  for (auto it = streams_.begin(); it != streams_.end();) {
    if (it->first.first != device) {
      ++it;
      continue;
    }
    Count(device, 1);
    ended.push_back(std::move(it->second));
    it = streams_.erase(it);
  }
}

absl::StatusOr<StreamRef> StreamByHandle(Device device, void* native) {
  // Handles that name a default stream on cuda.
  constexpr uintptr_t kLegacyStream = 1;
  constexpr uintptr_t kPerThreadStream = 2;
  const auto value = reinterpret_cast<uintptr_t>(native);
  if (value == 0) return DefaultStream(device);
  const bool named = device.backend().name() == "cuda";
  if (named && value == kLegacyStream) return DefaultStream(device);
  if (named && value == kPerThreadStream) return PerThreadDefaultStream(device);
  return AdoptedStreams::Get().Find(device, native);
}

}  // namespace devrt::internal
