// SPDX-License-Identifier: Apache-2.0
//
// RelaxedCaptures: gives the calling thread CUDA's relaxed capture mode while
// the object lives. Queries and waits of the thread for work that is not
// captured then leave all captures valid (C82).
//
//   const RelaxedCaptures relaxed(device, DeviceStreams::Of(device)->capture);
//   ... queries and waits of the driver ...
//
// Cost: two calls of the driver; none if the backend has no captures.

#ifndef DEVRT_STREAMS_COMMON_RELAXED_CAPTURES_H_
#define DEVRT_STREAMS_COMMON_RELAXED_CAPTURES_H_

#include <cstdint>

#include "devrt/backends/abi/devrt_capture.h"
#include "runtime/registry/records.h"
#include "streams/common/extension.h"

namespace devrt::internal {

class RelaxedCaptures {
 public:
  // `capture` is the extension of `device` and outlives this.
  RelaxedCaptures(DeviceRecord* device,
                  const ExtensionOf<devrt_capture_v0>& capture)
      : device_(device), capture_(&capture) {
    if (capture_->table != nullptr) Exchange();
  }
  RelaxedCaptures(const RelaxedCaptures&) = delete;
  RelaxedCaptures& operator=(const RelaxedCaptures&) = delete;
  ~RelaxedCaptures() {
    if (exchanged_) Exchange();
  }

  // Returns false if the backend has captures but no relaxed mode.
  bool MayQuery() const { return exchanged_ || capture_->table == nullptr; }

 private:
  void Exchange();

  DeviceRecord* const device_;
  const ExtensionOf<devrt_capture_v0>* const capture_;
  uint32_t mode_ = DEVRT_CAPTURE_RELAXED;
  bool exchanged_ = false;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_COMMON_RELAXED_CAPTURES_H_
