// SPDX-License-Identifier: Apache-2.0
//
// Options::check_signatures: the ranks compare the collectives that they are
// about to submit.

#ifndef DEVRT_COLLECTIVES_CORE_SIGNATURES_H_
#define DEVRT_COLLECTIVES_CORE_SIGNATURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace devrt::collectives::internal {

struct Comm;

// The collectives that one rank is about to submit, in their order.
struct Signature {
  struct Collective {
    std::string text;  // "all_reduce(float32 x 4096, sum)"
    std::string site;  // "train.cc:41"; may be empty
  };
  std::vector<Collective> collectives;
  std::string refusal;  // why the rank submits nothing
};

// Exchanges the signatures of all ranks over the bootstrap of `comm`.
//   INVALID_ARGUMENT  they differ, or a rank refuses its own: every rank finds
//                     that, with the call and the line of each
// An exchange that fails is an error of another code, with the text of the
// bootstrap: the ranks are out of step.
absl::Status CompareSignatures(const Comm& comm, const Signature& mine);

// The error for signatures by rank of which the first collective has the number
// `next`, or OK.
absl::Status CheckSignatures(const std::vector<Signature>& signatures,
                             uint64_t next);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_SIGNATURES_H_
