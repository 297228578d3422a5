// SPDX-License-Identifier: Apache-2.0
#include "cts/catalog.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace {

constexpr TestCase kTests[] = {
    {"load.opens", "", "devrt takes the file, and opening it answers in time.",
     nullptr},
    {"load.process_ends_well", "C106",
     "A process that used the backend ends with its own exit code.", nullptr},
};

}  // namespace

absl::Span<const TestCase> LoadTests() { return kTests; }

}  // namespace devrt::cts
