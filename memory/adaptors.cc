// SPDX-License-Identifier: Apache-2.0
//
// The adaptors of resources.h.

#include <utility>

#include "devrt/memory/resources.h"

namespace devrt {

std::shared_ptr<MemoryResource> LoggingResource(
    std::shared_ptr<MemoryResource> upstream, MemorySink) {
  return upstream;
}

std::shared_ptr<StatisticsResource> StatisticsResource::Make(
    std::shared_ptr<MemoryResource>) {
  return nullptr;
}

std::shared_ptr<MemoryResource> LimitResource(
    std::shared_ptr<MemoryResource> upstream, uint64_t) {
  return upstream;
}

std::shared_ptr<MemoryResource> FailureResource(
    std::shared_ptr<MemoryResource> upstream, const FailureInjection&) {
  return upstream;
}

std::shared_ptr<MemoryResource> ThreadSafeResource(
    std::shared_ptr<MemoryResource> upstream) {
  return upstream;
}

}  // namespace devrt
