// SPDX-License-Identifier: Apache-2.0
#include "cts/catalog.h"
#include "cts/objects.h"

namespace devrt::cts {

absl::Span<const TestCase> ErrorTests() { return {}; }

}  // namespace devrt::cts
