// SPDX-License-Identifier: Apache-2.0
//
// Random programs, against the reference model of cts/random/model.h.
#include <algorithm>

#include "cts/catalog.h"
#include "cts/random/campaign.h"

namespace devrt::cts {
namespace random_tests {
namespace {

constexpr int kMostDevices = 8;
constexpr int kMostThreads = 3;

// Every second program has a single thread and few devices.
int Half(int programs) { return (programs + 1) / 2; }
int Quarter(int programs) { return (programs + 3) / 4; }

int DeviceCount(const Test& t) { return static_cast<int>(t.devices().size()); }

void Programs(Test& t) {
  ProgramShape shape;
  shape.limits = LimitsOf(t.machine());
  shape.max_devices = std::min(2, DeviceCount(t));
  RunCampaign(t, "random.programs", shape, Half(t.programs()));
}

void AcrossThreads(Test& t) {
  ProgramShape shape;
  shape.limits = LimitsOf(t.machine());
  shape.max_devices = std::min(2, DeviceCount(t));
  shape.max_threads = kMostThreads;
  shape.concurrent = true;
  RunCampaign(t, "random.programs_across_threads", shape,
              Quarter(t.programs()));
}

void ManyDevices(Test& t) {
  ProgramShape shape;
  shape.limits = LimitsOf(t.machine());
  shape.min_devices = 2;
  shape.max_devices = std::min(kMostDevices, DeviceCount(t));
  RunCampaign(t, "random.programs_many_devices", shape, Quarter(t.programs()));
}

constexpr TestCase kTests[] = {
    {"random.programs",
     "C5 C6 C8 C9 C10 C15 C16 C17 C18 C19 C21 C24 C25 C26 C27 C28 C29 C30 C33 "
     "C34 C35 C36 C37 C41 C46 C47 C48 C49 C50 C51 C52 C53 C54",
     "What a program without races reads has one legal value, whatever runs "
     "when.",
     &Programs, 0, kSlow},
    {"random.programs_across_threads", "C12 C30 R4",
     "Threads that take turns, or that share nothing, change no result.",
     &AcrossThreads, 0, kSlow},
    {"random.programs_many_devices", "C13 C32 C57 C58",
     "Waits and copies between devices give their order.", &ManyDevices, 0,
     kTwoDevices | kSlow},
};

}  // namespace
}  // namespace random_tests

absl::Span<const TestCase> RandomTests() { return random_tests::kTests; }

}  // namespace devrt::cts
