// SPDX-License-Identifier: Apache-2.0
//
// ReleaseRule: what devrt does when a consumer releases memory and devrt may
// not touch the consumer's stream (ExchangeSettings::Release, which has these
// values).
//
//   if (GetReleaseRule() == ReleaseRule::kSync) ...
//
// The rule is a setting of the exchange.  The end of memory needs it too, so it
// is kept here.  The first call reads DEVRT_DLPACK_RELEASE.
//
// Threads: any.

#ifndef DEVRT_ARRAYS_STORAGE_RELEASE_RULE_H_
#define DEVRT_ARRAYS_STORAGE_RELEASE_RULE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace devrt::internal {

enum class ReleaseRule : uint8_t { kRecord, kTrust, kSync };

ReleaseRule GetReleaseRule();
void SetReleaseRule(ReleaseRule rule);
// What is wrong with DEVRT_DLPACK_RELEASE; empty if nothing is.
const std::string& ReleaseRuleMistake();

// Returns the index of the choice that an environment variable names, or
// `usual` if the variable is not set or names no choice.  A value that is no
// choice is added to `*mistakes`.
size_t ReadChoice(const char* variable,
                  std::initializer_list<const char*> choices, size_t usual,
                  std::string* mistakes);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_RELEASE_RULE_H_
