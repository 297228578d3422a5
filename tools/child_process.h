// SPDX-License-Identifier: Apache-2.0
//
// Opening a backend runs its vendor's libraries.  The command names a backend
// that hangs or crashes there, and goes on without it.
//
//   ContinueInChild(limit_s);                     // this is the child now
//   absl::Status broken = ChildFailure("hip");    // OK, or why a child ended
//   if (broken.ok()) {
//     const OpeningScope opening("hip");
//     ...
//   }
//
// Threads: call ContinueInChild in a program with one thread, before it opens a
// backend.

#ifndef DEVRT_TOOLS_CHILD_PROCESS_H_
#define DEVRT_TOOLS_CHILD_PROCESS_H_

#include <string_view>

#include "absl/status/status.h"

namespace devrt::tools {

// Goes on in a child process.  The calling process waits for the child and ends
// as the child ends.  If the child ends in an OpeningScope, or a scope lasts
// longer than `limit_s`, another child returns from this call and finds out by
// ChildFailure.  A second call does nothing.
void ContinueInChild(int limit_s);

// OK if no child broke while it opened this backend.  INTERNAL: a child ended;
// DEADLINE_EXCEEDED: a child took too long and was ended.
absl::Status ChildFailure(std::string_view name);

// Lives while calls into that backend may crash or never return.
class OpeningScope {
 public:
  explicit OpeningScope(std::string_view name);
  ~OpeningScope();
  OpeningScope(const OpeningScope&) = delete;
  OpeningScope& operator=(const OpeningScope&) = delete;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_CHILD_PROCESS_H_
