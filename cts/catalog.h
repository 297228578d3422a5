// SPDX-License-Identifier: Apache-2.0
//
// All tests, in the order in which they run, and who is chosen among them.

#ifndef DEVRT_CTS_CATALOG_H_
#define DEVRT_CTS_CATALOG_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cts/cts.h"
#include "cts/test.h"

namespace devrt::cts {

// One function a file of cts/tests.
absl::Span<const TestCase> LoadTests();
absl::Span<const TestCase> LoadPropertyTests();
absl::Span<const TestCase> LoadErrorTests();
absl::Span<const TestCase> LoadCapabilityTests();
absl::Span<const TestCase> DeviceTests();
absl::Span<const TestCase> DeviceSyncTests();
absl::Span<const TestCase> StreamTests();
absl::Span<const TestCase> StreamFifoTests();
absl::Span<const TestCase> StreamLegacyTests();
absl::Span<const TestCase> StreamDefaultTests();
absl::Span<const TestCase> StreamLifetimeTests();
absl::Span<const TestCase> StreamPriorityTests();
absl::Span<const TestCase> EventTests();
absl::Span<const TestCase> EventLifeTests();
absl::Span<const TestCase> EventTimingTests();
absl::Span<const TestCase> HostFuncTests();
absl::Span<const TestCase> HostFuncCallTests();
absl::Span<const TestCase> HostFuncFaultTests();
absl::Span<const TestCase> FillTests();
absl::Span<const TestCase> CopyTests();
absl::Span<const TestCase> MemoryTests();
absl::Span<const TestCase> PeerTests();
absl::Span<const TestCase> ErrorTests();
absl::Span<const TestCase> GuardTests();
absl::Span<const TestCase> IdentityTests();
absl::Span<const TestCase> IdentityExternalTests();
absl::Span<const TestCase> IdentityProcessTests();
absl::Span<const TestCase> OrderTests();
absl::Span<const TestCase> OrderLegacyTests();
absl::Span<const TestCase> OrderChainTests();
absl::Span<const TestCase> OrderFreeTests();
absl::Span<const TestCase> RandomTests();
absl::Span<const TestCase> ThreadTests();
absl::Span<const TestCase> ThreadEventTests();
absl::Span<const TestCase> ExtensionTests();
absl::Span<const TestCase> HeavyLoadTests();

const std::vector<TestCase>& Catalog();

// "event" of "event.never_recorded".
std::string_view GroupOf(const TestCase& test);
std::vector<std::string> ItemsOf(const TestCase& test);
TestInfo InfoOf(const TestCase& test);

// Whether some test shows the item, or is of that name.
bool IsKnown(std::string_view item_or_test);
// Whether `what`, an item or a name, is about this test.
bool IsAbout(std::string_view what, const TestInfo& test);
// The one of that name, which exists.
const TestCase& Named(std::string_view name);

// INVALID_ARGUMENT where no waiver may name it: unknown, or load.opens.
absl::Status CheckWaived(std::string_view item_or_test);

// Indices into Catalog() of what `options` choose.
absl::StatusOr<std::vector<size_t>> Choose(const Options& options);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_CATALOG_H_
