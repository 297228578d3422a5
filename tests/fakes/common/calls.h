// SPDX-License-Identifier: Apache-2.0
//
// The rules for every call of a fake driver: initialisation, faults that stay,
// callbacks, failures that a test asked for.

#ifndef DEVRT_TESTS_FAKES_COMMON_CALLS_H_
#define DEVRT_TESTS_FAKES_COMMON_CALLS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace devrt::fake {

// The rules of one entry point, as bits.
inline constexpr unsigned kDeviceCall = 0;  // reports what has happened before
inline constexpr unsigned kQuiet = 1;       // reports no earlier fault
inline constexpr unsigned kInCallback = 2;  // works in a stream's callback

// Called at the start of each entry point.  Returns 0 if the call may go on,
// else the vendor's code.
int EnterCall(const char* name, unsigned rules);

// Lives while a callback of the user runs on this thread.
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

// Returns the devices that a list such as CUDA_VISIBLE_DEVICES selects.  The
// list ends at its first part that is not the number of a device.
std::vector<uint32_t> VisibleOf(const std::vector<uint32_t>& devices,
                                const std::string& list);

uint32_t DeviceCount();
// The simulator's number of a device of the driver.
uint32_t SimDevice(uint32_t device);
// The driver's number of a device of the simulator; -1 for a hidden device.
int DriverDevice(uint32_t sim_device);

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_COMMON_CALLS_H_
