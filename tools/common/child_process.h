// SPDX-License-Identifier: Apache-2.0
//
// Calls into a backend run its vendor's libraries.  The command names a backend
// that hangs or crashes there, and goes on without it.
//
//   ContinueInChild(limit_s);                     // this is the child now
//   absl::Status broken = ChildFailure("hip");    // OK, or why a child ended
//   if (broken.ok()) {
//     const BackendScope opening("hip");
//     ...
//   }
//
// Threads: call ContinueInChild in a program with one thread, before it opens a
// backend.

#ifndef DEVRT_TOOLS_COMMON_CHILD_PROCESS_H_
#define DEVRT_TOOLS_COMMON_CHILD_PROCESS_H_

#include <limits>
#include <string_view>

#include "absl/status/status.h"

namespace devrt::tools {

// Goes on in a child process.  The calling process waits for the child and ends
// as the child ends.  If the child ends in a BackendScope, or a scope lasts
// longer than `limit_s`, another child returns from this call and finds out by
// ChildFailure.  A second call does nothing.
void ContinueInChild(int limit_s);
inline constexpr int kNoLimit = std::numeric_limits<int>::max();

// OK if no child broke in a scope of this backend.  INTERNAL: a child ended;
// DEADLINE_EXCEEDED: a child took too long and was ended.
absl::Status ChildFailure(std::string_view name);

// Lives while calls into that backend may never return, and while a call or a
// thread of the backend may end the process.
class BackendScope {
 public:
  explicit BackendScope(std::string_view name);
  ~BackendScope();
  BackendScope(const BackendScope&) = delete;
  BackendScope& operator=(const BackendScope&) = delete;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_COMMON_CHILD_PROCESS_H_
