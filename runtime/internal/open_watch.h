// SPDX-License-Identifier: Apache-2.0
//
// What a plugin's open did that the contract forbids and the host can see
// (docs/decisions/0007-what-is-watched-at-opening.md).

#ifndef DEVRT_RUNTIME_INTERNAL_OPEN_WATCH_H_
#define DEVRT_RUNTIME_INTERNAL_OPEN_WATCH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace devrt::internal {

// Made before open and asked after it, on the same thread.  What cannot be told
// from the doings of other threads is not told.
class OpenWatch {
 public:
  OpenWatch();
  // One line for each rule that was broken since.
  std::vector<std::string> Findings() const;

 private:
  const bool alone_;  // no other thread that could have done it
  const uint64_t environment_;
  const int64_t written_;
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_OPEN_WATCH_H_
