// SPDX-License-Identifier: Apache-2.0
//
// What stands behind devrt.collectives.Registration.

#ifndef DEVRT_PYTHON_SRC_COLLECTIVE_REGISTRATION_H_
#define DEVRT_PYTHON_SRC_COLLECTIVE_REGISTRATION_H_

#include <memory>

#include "devrt/collectives/communicator.h"
#include "python/src/bindings.h"

namespace devrt::python {

// Memory that the engine knows of until Release, or the end of the object.
// Both need the GIL, and let it go while they wait.
class RegisteredMemory {
 public:
  // The registration keeps the communicator: the engine takes memory back only
  // before the communicator's end.
  RegisteredMemory(const BackendEntry& backend,
                   std::shared_ptr<collectives::Communicator> communicator,
                   collectives::Registration registration);
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  ~RegisteredMemory();

  // The second call does nothing.  After Ctrl-C the release goes on in the
  // background.
  void Release();

 private:
  struct Held;
  const BackendEntry& backend_;
  std::shared_ptr<Held> held_;  // null after Release
};

void BindRegistration(nb::module_& module);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_COLLECTIVE_REGISTRATION_H_
