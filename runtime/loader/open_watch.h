// SPDX-License-Identifier: Apache-2.0
//
// Detects breaches of the contract by a plugin's open function, as far as the
// host can see them (docs/decisions/0007-what-is-watched-at-opening.md).

#ifndef DEVRT_RUNTIME_LOADER_OPEN_WATCH_H_
#define DEVRT_RUNTIME_LOADER_OPEN_WATCH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace devrt::internal {

// Constructed before open; Findings is called after it, on the constructing
// thread.  Omits a finding that another thread of the process may have caused.
class OpenWatch {
 public:
  OpenWatch();
  // One line for each rule that was broken since construction.
  std::vector<std::string> Findings() const;

 private:
  const bool alone_;  // the process had no other thread at construction
  const uint64_t environment_;
  const int64_t written_;
};

// Lives while code of a plugin or layer is loaded or opened.  If any thread
// calls exit() meanwhile, devrt logs an error that names the plugin.  abort,
// _exit and crashes run no exit handlers; for these the constructor logs the
// name at level debug.  Threads: one Opening at a time.
class Opening {
 public:
  // `doing` is "loading" or "opening", `noun` is "plugin" or "layer"; `path` is
  // the name if the plugin is linked in.
  Opening(const char* doing, const char* noun, const std::string& path);
  ~Opening();
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_OPEN_WATCH_H_
