// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/native_streams.h"

#include <algorithm>

#include "streams/objects/stream_record.h"

namespace devrt::internal {

namespace {

bool HasEnded(StreamRef stream) {
  return stream.record()->serial.load(std::memory_order_acquire) !=
         stream.serial();
}

void DropEnded(std::vector<StreamRef>* streams) {
  streams->erase(std::remove_if(streams->begin(), streams->end(), HasEnded),
                 streams->end());
}

}  // namespace

NativeStreams& NativeStreams::Get() {
  static NativeStreams* const streams = new NativeStreams;
  return *streams;
}

void NativeStreams::Add(StreamRef stream, void* native) {
  if (native == nullptr) return;
  MutexLock lock(&mutex_);
  if (streams_.size() >= sweep_at_) Sweep();
  std::vector<StreamRef>& named =
      streams_[Key(stream.record()->device, native)];
  DropEnded(&named);
  if (std::find(named.begin(), named.end(), stream) == named.end()) {
    named.push_back(stream);
  }
}

std::optional<StreamRef> NativeStreams::Find(Device device,
                                             const void* native) {
  MutexLock lock(&mutex_);
  const auto found = streams_.find(Key(device.record(), native));
  if (found == streams_.end()) return std::nullopt;
  DropEnded(&found->second);
  if (!found->second.empty()) return found->second.back();
  streams_.erase(found);
  return std::nullopt;
}

void NativeStreams::Sweep() {
  for (auto it = streams_.begin(); it != streams_.end();) {
    DropEnded(&it->second);
    const auto next = std::next(it);
    if (it->second.empty()) streams_.erase(it);
    it = next;
  }
  sweep_at_ = std::max<size_t>(64, 2 * streams_.size());
}

}  // namespace devrt::internal
