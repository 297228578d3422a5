// SPDX-License-Identifier: Apache-2.0
//
// The program's line of a call, for timelines, memory histories, traces and
// reports.  Everything here needs the GIL.

#ifndef DEVRT_PYTHON_SRC_CALL_SITE_H_
#define DEVRT_PYTHON_SRC_CALL_SITE_H_

#include <cstdint>

#include "devrt/runtime/call_site.h"
#include "python/src/python.h"

namespace devrt::python {

struct NotedFrames;

// What reads the line of the program that a call came from.  Finding the line
// takes longer than most calls, so it is found only if there is a reader.
enum class SiteReader : uint32_t {
  kTimeline = 1,       // timeline of a simulator
  kMemoryHistory = 2,  // memory history of any device
  kLayers = 4,         // layers such as trace
};
extern uint32_t g_site_readers;  // bits of the present readers
void SetSiteReader(SiteReader reader, bool reads);

// The line of the program that made this call, or {} without a reader.  While
// the object lives, storages that end on this thread are recorded with that
// line, and layers that want the program's call stack get it.
class SiteHere {
 public:
  SiteHere() {
    if (__builtin_expect(g_site_readers != 0, 0)) Find();
  }
  // Finds the line also without a reader: for calls that are always recorded.
  struct Always {};
  explicit SiteHere(Always) { Find(); }
  SiteHere(const SiteHere&) = delete;
  SiteHere& operator=(const SiteHere&) = delete;
  ~SiteHere() {
    if (__builtin_expect(site_.file != nullptr, 0)) Leave();
  }
  operator CallSite() const { return site_; }  // NOLINT: its only meaning

 private:
  void Find();
  void Leave();

  CallSite site_{};
  CallSite former_{};              // the end line from outside this scope
  NotedFrames* frames_ = nullptr;  // nullptr: no layer wants them
};

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_CALL_SITE_H_
