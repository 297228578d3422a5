// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/nccl_provider.h"

#include "absl/strings/str_cat.h"
#include "collectives/nccl/engine.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

using nccl::Engine;
using nccl::Flavor;
using nccl::Library;

// The variable goes before the configuration of each communicator.  The library
// reads numbers in several ways, of which 0 is the plain one that is harmless.
absl::Status CheckBlocking(const Flavor& flavor) {
  const char* const value = std::getenv("NCCL_COMM_BLOCKING");
  if (value == nullptr || nccl::IsSet("NCCL_COMM_BLOCKING", "0")) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "NCCL_COMM_BLOCKING=", value, " makes calls of ", flavor.name,
      " wait for other ranks, and no deadline ends them: unset it, since devrt "
      "chooses which calls block"));
}

// One engine for each flavor: a process has one backend of each name.
struct Slot {
  Mutex mutex;  // held while the engine is made
  Engine* engine DEVRT_GUARDED_BY(mutex) = nullptr;
};

absl::StatusOr<Provider> Open(const Flavor& flavor, const Backend& backend) {
  if (backend.name() != flavor.backend) {
    return absl::InvalidArgumentError(
        absl::StrCat("provider \"", flavor.provider, "\" is for devices of ",
                     flavor.backend, ", not of ", backend.name()));
  }
  DEVRT_RETURN_IF_ERROR(CheckBlocking(flavor));
  static Slot* const slots = new Slot[2];
  Slot& slot = slots[&flavor == &nccl::kRccl ? 1 : 0];
  const MutexLock lock(&slot.mutex);
  if (slot.engine == nullptr) {
    DEVRT_ASSIGN_OR_RETURN(const Library* const library,
                           nccl::OpenLibrary(flavor));
    slot.engine = new Engine(*library, backend);
  }
  return Provider{
      slot.engine,
      &slot.engine->table(),
      false,
      [](devrt_comm comm) { return nccl::Member::Of(comm)->IsPending(); },
      [](devrt_comm comm) { nccl::Member::Of(comm)->LetWait(); },
      [](void* self) { return static_cast<Engine*>(self)->CanWait(); }};
}

}  // namespace

absl::StatusOr<Provider> OpenNccl(const Backend& backend) {
  return Open(nccl::kNccl, backend);
}

absl::StatusOr<Provider> OpenRccl(const Backend& backend) {
  return Open(nccl::kRccl, backend);
}

}  // namespace devrt::collectives::internal
