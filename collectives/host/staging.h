// SPDX-License-Identifier: Apache-2.0
//
// Staging: host memory that stands for the device memory of operations while an
// engine works on host memory.
//
//   Staging staging(device);
//   DEVRT_ASSIGN_OR_RETURN(devrt_collective_v0 on_host,
//                          staging.Add(stream, op, ranks, rank));
//   DEVRT_RETURN_IF_ERROR(staging.Load());    // the inputs
//   ... until IsLoaded ...
//   ... the engine runs on_host ...
//   DEVRT_RETURN_IF_ERROR(staging.Store());   // the outputs; waits
//
// All operations of a Staging are of one stream.
//
// Ownership: the object frees its memory.  It must live until IsLoaded.
// Threads: one at a time.

#ifndef DEVRT_COLLECTIVES_HOST_STAGING_H_
#define DEVRT_COLLECTIVES_HOST_STAGING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/runtime/device.h"

namespace devrt::collectives::internal {

// The bytes that an operation reads at src and writes at dst, on this rank.
struct OperandBytes {
  uint64_t src = 0;
  uint64_t dst = 0;
};
// INVALID_ARGUMENT if a size does not fit.
absl::StatusOr<OperandBytes> BytesOf(const devrt_collective_v0& op,
                                     uint32_t ranks, uint32_t rank);

class Staging {
 public:
  explicit Staging(Device device) : device_(device) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  // The operation over host memory of its own.
  absl::StatusOr<devrt_collective_v0> Add(devrt_stream stream,
                                          const devrt_collective_v0& op,
                                          uint32_t ranks, uint32_t rank);
  // Begins to copy the inputs, behind the earlier work of the stream.
  absl::Status Load();
  // Returns true if that work and the copies are complete, or Load was not
  // called.
  absl::StatusOr<bool> IsLoaded() const;
  // Copies the outputs to the device, and waits.
  absl::Status Store();

 private:
  struct Copy {
    void* host;
    void* device;  // read by Load, written by Store
    uint64_t bytes;
  };
  absl::StatusOr<void*> NewBlock(uint64_t bytes);
  // Enqueues the copies, and records the event behind them.
  absl::Status Enqueue(const std::vector<Copy>& copies, bool to_host);

  const Device device_;
  devrt_stream stream_ = nullptr;
  devrt_event event_ = nullptr;
  std::vector<void*> blocks_;
  std::vector<Copy> inputs_;
  std::vector<Copy> outputs_;
};

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_HOST_STAGING_H_
