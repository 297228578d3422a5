// SPDX-License-Identifier: Apache-2.0
//
// EventTest: tests of events run with and without the blocking-sync flag, which
// changes only how the host waits (C40).
//
//   using EventRecord = EventTest;
//
//   TEST_F(EventRecord, LaterWorkIsNotCovered) {
//     ForEachForm([&] {
//       Event e = New();    // has the flag in the second half of the runs
#ifndef DEVRT_TESTS_SUPPORT_EVENT_FIXTURE_H_
#define DEVRT_TESTS_SUPPORT_EVENT_FIXTURE_H_

#include <functional>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {

class EventTest : public MtiaTest {
 protected:
  // Runs `body` in every schedule, for events with each form of host wait.
  void ForEachForm(const std::function<void()>& body) {
    ForBoth([&] { InEverySchedule(body); });
  }
  // Like ForEachForm, without threaded mode.
  void ForEachVirtualForm(const std::function<void()>& body) {
    ForBoth([&] { InVirtualSchedules(body); });
  }
  Event New(Device device = dev(), EventOptions options = {}) {
    options.blocking_sync = blocking_sync_;
    return NewEvent(device, options);
  }
  static EventOptions Timing() {
    EventOptions options;
    options.timing = true;
    return options;
  }

 private:
  void ForBoth(const std::function<void()>& run) {
    for (const bool blocking_sync : {false, true}) {
      blocking_sync_ = blocking_sync;
      SCOPED_TRACE(blocking_sync ? "blocking_sync" : "no blocking_sync");
      run();
      if (HasFailure()) return;
    }
  }

  bool blocking_sync_ = false;
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SUPPORT_EVENT_FIXTURE_H_
