// SPDX-License-Identifier: Apache-2.0
//
// What holds for every call of a fake driver: initialisation, faults that stay,
// callbacks, failures that a test asked for.

#ifndef DEVRT_TESTS_FAKES_COMMON_CALLS_H_
#define DEVRT_TESTS_FAKES_COMMON_CALLS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace devrt::fake {

// What holds for an entry point.
inline constexpr unsigned kDeviceCall = 0;  // reports what has happened before
inline constexpr unsigned kQuiet = 1;       // reports no earlier fault
inline constexpr unsigned kInCallback = 2;  // works in a stream's callback

// First of all: the vendor's code of why the call may not go on, or 0.
int EnterCall(const char* name, unsigned rules);

// While a callback of the user's runs on this thread.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
};
bool InCallback();

// The process has a fault: every call of every device tells of it.
void SetFaultCode(int code);
int FaultCode();

// ---- Initialisation ---------------------------------------------------------

// Once for the process.  `choose` says which of so many devices of the
// simulator the driver shows.  The vendor's code, or 0.
using Chooser = std::vector<uint32_t> (*)(uint32_t count);
int Initialise(Chooser choose);

// What a list such as CUDA_VISIBLE_DEVICES leaves of `devices`: numbers, up to
// the first that is none.
std::vector<uint32_t> VisibleOf(const std::vector<uint32_t>& devices,
                                const std::string& list);

uint32_t DeviceCount();
// Of a device of the driver; the simulator's number of it.
uint32_t SimDevice(uint32_t device);
// The driver's number; -1 where it is hidden.
int DriverDevice(uint32_t sim_device);

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_COMMON_CALLS_H_
