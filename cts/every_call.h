// SPDX-License-Identifier: Apache-2.0
//
// Calls every slot that the plugin offers for one device: with valid arguments,
// and also with invalid ones if such a call costs nothing.
//
//   CallEverything(t, device, [&](const char* call) {
//     t.Equal(CurrentDevice(), 0u, call);   // no call may change the device
//   });
//
// Only success or failure of each call is checked; other tests check effects.

#ifndef DEVRT_CTS_EVERY_CALL_H_
#define DEVRT_CTS_EVERY_CALL_H_

#include <cstdint>
#include <functional>

#include "cts/test.h"

namespace devrt::cts {

// Calls `after` with the slot's name after each call.  Destroys all it makes.
void CallEverything(Test& t, uint32_t device,
                    const std::function<void(const char*)>& after);

// An ordinal that does not exist.
uint32_t NoSuchDevice(const Test& t);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_EVERY_CALL_H_
