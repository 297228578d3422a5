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

// While code of a plugin or a layer runs to load or open it.  Should the
// process end by exit() meanwhile, on whichever thread, an error that names it
// is logged; so it is at level debug before, for the ways to end that run no
// exit handlers: abort, _exit, a crash.  Threads: one at a time.
class Opening {
 public:
  // "loading", "opening"; "plugin", "layer"; its path, or its name if it is
  // linked in.
  Opening(const char* doing, const char* noun, const std::string& path);
  ~Opening();
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_OPEN_WATCH_H_
