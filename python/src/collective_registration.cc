// SPDX-License-Identifier: Apache-2.0
#include "python/src/collective_registration.h"

#include <optional>
#include <utility>

namespace devrt::python {

// The last user of the communicator ends it, which may wait, so that both
// members end in a call without the GIL.
struct RegisteredMemory::Held {
  std::shared_ptr<collectives::Communicator> communicator;
  std::optional<collectives::Registration> registration;

  void End() {
    registration.reset();  // first: see the constructor
    communicator.reset();
  }
};

RegisteredMemory::RegisteredMemory(
    const BackendEntry& backend,
    std::shared_ptr<collectives::Communicator> communicator,
    collectives::Registration registration)
    : backend_(backend),
      held_(std::make_shared<Held>(
          Held{std::move(communicator), std::move(registration)})) {}

RegisteredMemory::~RegisteredMemory() {
  if (held_ == nullptr) return;
  const Unlocked unlocked;
  held_->End();
}

void RegisteredMemory::Release() {
  const std::shared_ptr<Held> held = std::exchange(held_, nullptr);
  if (held == nullptr) return;
  RunOrThrow(backend_, [held] {
    held->End();
    return absl::OkStatus();
  });
}

void BindRegistration(nb::module_& module) {
  nb::class_<RegisteredMemory>(module, "_Registration")
      .def("release", &RegisteredMemory::Release);
}

}  // namespace devrt::python
