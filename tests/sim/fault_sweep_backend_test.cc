// SPDX-License-Identifier: Apache-2.0
//
// FaultSweep on a backend that is no simulator, such as CUDA: faults of calls.
#include <stdlib.h>

#include <string>

#include "devrt/devrt.h"
#include "devrt/sim/faults.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

std::string TestedBackend() {
  const char* const name = getenv("DEVRT_TEST_BACKEND");
  return name == nullptr ? "cuda" : name;
}

absl::Status UseMemory() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice(TestedBackend(), 0));
  DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(void* const memory, AllocateMemory(stream, 64));
  const auto use = [&]() -> absl::Status {
    DEVRT_ASSIGN_OR_RETURN(const Event event, Event::Create(device));
    DEVRT_ASSIGN_OR_RETURN(void* const host, AllocatePinned(device, 64));
    absl::Status status = FillAsync(stream, memory, 1, 64);
    status.Update(CopyAsync(stream, host, memory, 64));
    status.Update(event.Record(stream));
    status.Update(event.Synchronize());
    status.Update(FreePinned(host));
    return status;
  };
  const absl::Status used = use();
  const absl::Status freed = FreeMemory(memory);
  const absl::Status waited = device.Synchronize();
  if (!used.ok()) return used;
  return freed.ok() ? waited : freed;
}

TEST(FaultSweepBackend, CallsFail) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    EXPECT_OK(sim::EnableFaults());
    sim::SweepOptions options;
    options.backend = TestedBackend();
    const sim::SweepResult result = sim::FaultSweep(options, UseMemory);
    EXPECT_TRUE(result.ok()) << result.text();
    EXPECT_GT(result.reported, 5u) << result.text();
    options.classes = {"kernel_fault"};
    EXPECT_STATUS(sim::FaultSweep(options, UseMemory).status, kInvalidArgument,
                  "has no class of faults \"kernel_fault\"; the classes are "
                  "oom, error, late");
    options.classes = {};
    options.config = "seed=1";
    EXPECT_STATUS(sim::FaultSweep(options, UseMemory).status, kInvalidArgument,
                  "is for a simulator");
  });
}

// Nothing restarts the device, so that no later run would say anything.
TEST(FaultSweepBackend, ALostDeviceEndsTheSweep) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    EXPECT_OK(sim::EnableFaults());
    // The mistake: what the program does about an error loses the device.
    const auto body = []() -> absl::Status {
      DEVRT_ASSIGN_OR_RETURN(const Device device,
                             GetDevice(TestedBackend(), 0));
      DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
      const absl::Status waited = stream.Synchronize();
      if (waited.ok()) return waited;
      EXPECT_OK(CommitFault(stream, FaultForm::kTrap));
      stream.Synchronize().IgnoreError();
      return waited;
    };
    sim::SweepOptions options;
    options.backend = TestedBackend();
    options.classes = {"error", "late"};
    const sim::SweepResult result = sim::FaultSweep(options, body);
    ASSERT_EQ(result.failures.size(), 1u) << result.text();
    EXPECT_EQ(result.failures[0].what, "lost device");
    EXPECT_EQ(result.failures[0].call, "stream_sync");
    EXPECT_EQ(result.failures[0].fault, "error");
    EXPECT_EQ(result.failures[0].token, "");
    EXPECT_STATUS(result.status, kFailedPrecondition, "has lost a device");
    // The rules have ended, and the device answers with its own error.
    const absl::Status gone = Must(GetDevice(TestedBackend(), 0)).Synchronize();
    EXPECT_FALSE(gone.ok());
    EXPECT_THAT(std::string(gone.message()),
                ::testing::Not(HasSubstr("injected")));
    EXPECT_FALSE(sim::FaultSweep(options, body).status.ok());
  });
}

}  // namespace
}  // namespace devrt::testing
