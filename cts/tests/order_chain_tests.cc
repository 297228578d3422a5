// SPDX-License-Identifier: Apache-2.0
#include "cts/catalog.h"
namespace devrt::cts {
absl::Span<const TestCase> OrderChainTests() { return {}; }
}  // namespace devrt::cts
