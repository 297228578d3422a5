// SPDX-License-Identifier: Apache-2.0
//
// Opening a backend runs its vendor's libraries.  One that hangs or crashes
// there is named, and the command goes on without it.
//
//   GoOnApart(limit_s);                       // this is a child process now
//   absl::Status broken = TriedApart("hip");  // what became of earlier ones
//   if (broken.ok()) {
//     const OpeningScope opening("hip");
//     ...
//   }
//
// Threads: for a program that has one, and has opened no backend yet.

#ifndef DEVRT_TOOLS_APART_H_
#define DEVRT_TOOLS_APART_H_

#include <string_view>

#include "absl/status/status.h"

namespace devrt::tools {

// Goes on in a child process.  This one waits, and ends as the child does;
// unless that happens in an OpeningScope, or one takes longer than `limit_s`:
// then another child begins where this one did.  A second call does nothing.
void GoOnApart(int limit_s);

// Why a child that opened this backend is no more; OK if there was none.
// INTERNAL: it ended; DEADLINE_EXCEEDED: it was ended.
absl::Status TriedApart(std::string_view name);

// While something of that backend's is asked that may not come back.
class OpeningScope {
 public:
  explicit OpeningScope(std::string_view name);
  ~OpeningScope();
  OpeningScope(const OpeningScope&) = delete;
  OpeningScope& operator=(const OpeningScope&) = delete;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_APART_H_
