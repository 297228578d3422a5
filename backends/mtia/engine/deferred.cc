// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/deferred.h"

#include "backends/mtia/engine/user_code.h"

namespace devrt::mtia {

void RunDeferred(const Deferred& deferred) {
  for (const FailedHostFunc& call : deferred.host_funcs) {
    const UserCodeScope scope("a host function");
    call.fn(call.arg, call.fault ? MakeFaultStatus(call.fault, "host_func")
                                 : MakeError(DEVRT_CANCELLED, 0,
                                             "the simulator was reset"));
  }
  for (const EndedClosure& closure : deferred.closures) {
    closure.destroy(closure.arg);
  }
}

}  // namespace devrt::mtia
