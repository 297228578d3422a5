// SPDX-License-Identifier: Apache-2.0
//
// Calls every slot of the table that the plugin offers, for one device, well
// and where it costs nothing badly, too.
//
//   CallEverything(t, device, [&](const char* call) {
//     t.Equal(CurrentDevice(), 0u, call);   // what no call may change
//   });
//
// What a call must do is for other tests: here it must not fail, or must.

#ifndef DEVRT_CTS_EVERY_CALL_H_
#define DEVRT_CTS_EVERY_CALL_H_

#include <cstdint>
#include <functional>

#include "cts/test.h"

namespace devrt::cts {

// `after` gets the slot's name.  Leaves nothing behind.
void CallEverything(Test& t, uint32_t device,
                    const std::function<void(const char*)>& after);

// An ordinal that no device has.
uint32_t NoSuchDevice(const Test& t);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_EVERY_CALL_H_
