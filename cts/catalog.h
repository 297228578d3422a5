// SPDX-License-Identifier: Apache-2.0
//
// All tests in the order in which they run, and the choice among them.

#ifndef DEVRT_CTS_CATALOG_H_
#define DEVRT_CTS_CATALOG_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cts/test.h"
#include "devrt/cts/cts.h"

namespace devrt::cts {

// Each file of cts/tests has one function.
#define DEVRT_CTS_TESTS(function) absl::Span<const TestCase> function();
#include "cts/test_lists.inc"
#undef DEVRT_CTS_TESTS

const std::vector<TestCase>& Catalog();

// The part before the dot: "event" of "event.never_recorded".
std::string_view GroupOf(const TestCase& test);
std::vector<std::string> ItemsOf(const TestCase& test);
TestInfo InfoOf(const TestCase& test);

// True if a test covers the item or has the name.
bool IsKnown(std::string_view item_or_test);
// True if `what`, an item or a name, selects this test.
bool IsAbout(std::string_view what, const TestInfo& test);
// The test with that name, which must exist.
const TestCase& Named(std::string_view name);

// INVALID_ARGUMENT: unknown; load.opens; an item that is no test's first item.
absl::Status CheckWaived(std::string_view item_or_test);

// Indices into Catalog() of the tests that `options` select.
absl::StatusOr<std::vector<size_t>> Choose(const Options& options);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_CATALOG_H_
