// SPDX-License-Identifier: Apache-2.0
//
// Tests of order: one stream is held, and other streams are queried.
//
//   HeldStream held(t, a);
//   e.Record(a);
//   b.Wait(e);
//   held.Blocks(b, "a stream that waits for the held one");
//   held.LetsPass(c, "a stream that does not");
//   held.Open();
//
// Declare a HeldStream after the stream that it holds and after all memory, so
// that it is destroyed first: freeing memory may wait for the device.

#ifndef DEVRT_CTS_HELD_STREAM_H_
#define DEVRT_CTS_HELD_STREAM_H_

#include <string_view>

#include "cts/objects.h"

namespace devrt::cts {

class HeldStream {
 public:
  // Work submitted to `stream` after this does not run before Open.  `stream`
  // must be alive when LetsPass or StillHolds is called.
  HeldStream(Test& t, const RawStream& stream)
      : t_(t), stream_(stream), gate_(t) {
    gate_.Hold(stream);
  }

  // Expects that `object` (a stream or an event) is not complete, and does not
  // complete while devices run.
  template <typename Object>
  bool Blocks(const Object& object, std::string_view what,
              Site site = Site::Here()) {
    bool pending = !object.Query();
    t_.Settle();
    // Several queries, because a simulator lets the device run at the second.
    for (int i = 0; i < 3; ++i) pending = !object.Query() && pending;
    return t_.Expect(pending, what, site);
  }

  // Expects that `object` completes although the stream is held.
  template <typename Object>
  bool LetsPass(const Object& object, std::string_view what,
                Site site = Site::Here()) {
    return t_.Expect(t_.Eventually([&] { return object.Query(); }), what,
                     site) &&
           StillHolds(what, site);
  }

  // Expects that the hold has not ended.  A hold ends by itself after some
  // seconds, so that a failing test ends.
  bool StillHolds(std::string_view what, Site site = Site::Here()) {
    return t_.Expect(!stream_.Query(), what, site);
  }

  void Open() { gate_.Open(); }

 private:
  Test& t_;
  const RawStream& stream_;
  Gate gate_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_HELD_STREAM_H_
