// SPDX-License-Identifier: Apache-2.0
//
// HostEngine: an engine for collectives that works on host memory and knows no
// streams, such as MPI (mpi_engine.h).  devrt brings what is missing: it waits
// for the stream, copies the inputs to pinned memory, lets the engine work, and
// copies the outputs back.
//
//   DEVRT_RETURN_IF_ERROR(
//       devrt::collectives::RegisterEngine(std::make_unique<MyEngine>()));
//   devrt::collectives::Options options;
//   options.provider = "mine";                      // MyEngine::name()
//   auto rank = devrt::collectives::Communicator::Create(device, *bootstrap,
//                                                        options);
//
// A call that submits operations returns when they are complete, or when their
// time is over (Options::timeout), in which the stream's earlier work counts.
// Then the communicator has failed.  What the engine still does keeps its
// memory, which counts as allocated, until a later call for another
// communicator finds that the engine has ended it.
//
// Ownership: a registered engine lives until the end of the process, and the
// communicators that it makes belong to devrt.  Threads: an engine is called
// from any thread, a communicator by one thread at a time.  Errors: the
// engine's own.  No function may wait for another rank.

#ifndef DEVRT_COLLECTIVES_HOST_HOST_ENGINE_H_
#define DEVRT_COLLECTIVES_HOST_HOST_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/runtime/export.h"

namespace devrt::collectives {

// A rank, and how many there are.
struct HostPlace {
  uint32_t rank = 0;
  uint32_t ranks = 1;
};

// The place of one rank.
class DEVRT_EXPORT HostCommunicator {
 public:
  // Frees the place.  What was started is complete, but Finish may not be.
  virtual ~HostCommunicator() = default;
  // Which rank this is.  Of a child of Split, asked when it is ready.
  virtual HostPlace place() const = 0;
  // Returns true if every rank has its place.  Called until it does.
  virtual absl::StatusOr<bool> IsReady() = 0;
  // Starts an operation on host memory.  `src` and `dst` do not overlap, in
  // place too.  The memory stays until Test has returned true.
  virtual absl::Status Start(const devrt_collective_v0& op) = 0;
  // Returns true if all that was started is complete.
  virtual absl::StatusOr<bool> Test() = 0;
  // As comm_split of devrt_collectives.h; nullptr for color -1.
  virtual absl::StatusOr<std::unique_ptr<HostCommunicator>> Split(int color,
                                                                  int key) = 0;
  // Returns true if every rank has come to its end.  Called until it does, and
  // then nothing else is.  It must not meet an operation of another rank.  An
  // engine that cannot tell returns true: Communicator::Finish waits for no
  // other rank then.
  virtual absl::StatusOr<bool> Finish() { return true; }
};

// What makes communicators.
class DEVRT_EXPORT HostEngine {
 public:
  virtual ~HostEngine() = default;
  // The name for Options::provider.
  virtual std::string name() const = 0;
  // The version, for people.
  virtual std::string version() const = 0;
  // Returns true if the operation exists for the dtype (DEVRT_DTYPE);
  // `reduction` counts where the operation has one.
  virtual bool Supports(uint32_t op, uint32_t dtype,
                        uint32_t reduction) const = 0;
  // Begins a communicator of `ranks` ranks, of which this is `rank`.
  virtual absl::StatusOr<std::unique_ptr<HostCommunicator>> Begin(
      uint32_t ranks, uint32_t rank) = 0;
};

// Makes the engine a provider of every backend.  ALREADY_EXISTS if the process
// has one of that name; INVALID_ARGUMENT for nullptr and for an empty name.
DEVRT_EXPORT absl::Status RegisterEngine(std::unique_ptr<HostEngine> engine);

}  // namespace devrt::collectives

#endif  // DEVRT_COLLECTIVES_HOST_HOST_ENGINE_H_
