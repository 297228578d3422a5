// SPDX-License-Identifier: Apache-2.0
//
// Notice: a finding that is not about two operations on one block: a deadlock,
// or an object that nobody has destroyed.
//
//   race-1b20c7d9 [deadlock] a thread waits for what cannot go on
//     host#0 stream_sync {s1, 7}  a.cc:88
//       in main, a.cc:88
//     s1 op 7 host function "log"  a.cc:71
//     to mend it: ...

#ifndef DEVRT_LAYERS_VALIDATE_NOTICE_H_
#define DEVRT_LAYERS_VALIDATE_NOTICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "layers/validate/call_stacks.h"

namespace devrt::race {

struct Notice {
  // A call of the program that takes part.
  struct Part {
    std::string name;   // "host function"
    std::string actor;  // "s1"
    std::string site;   // "a.cc:71"; empty: unknown
    std::string line;   // of the text, without the site
    CallStack stack;    // of the call
  };
  std::string kind;         // "deadlock"
  std::string key;          // tells it from others with its lines
  std::string heading;      // the first line of the text, after the kind
  std::vector<Part> parts;  // one at least
  std::string remedy;
};

// The id, the text and the JSON of a notice; report.h has those of a Finding.
std::string NoticeId(const Notice& notice);
std::string NoticeText(const Notice& notice);
std::string NoticeJson(const Notice& notice);

// The deadlock that the simulator reports in `text`
// (devrt_sim_v1.deadlock_report).
Notice DeadlockNotice(const std::string& text);

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_NOTICE_H_
