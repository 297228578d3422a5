// SPDX-License-Identifier: Apache-2.0
//
// The litmus of order: one stream is held, the others are looked at.
//
//   Held held(t, a);
//   e.Record(a);
//   b.Wait(e);
//   held.Blocks(b, "a stream that waits for the held one");
//   held.LetsPass(c, "a stream that does not");
//   held.Open();
//
// Declare it behind what it holds and behind all memory: making and giving up
// memory may wait for the device.

#ifndef DEVRT_CTS_HELD_H_
#define DEVRT_CTS_HELD_H_

#include <string_view>

#include "cts/objects.h"

namespace devrt::cts {

class Held {
 public:
  // What is submitted to `stream` from here on does not run before Open.
  // `stream` is still there when LetsPass or StillHolds is called.
  Held(Test& t, const RawStream& stream) : t_(t), stream_(stream), gate_(t) {
    gate_.Hold(stream);
  }

  // `object` (a stream, an event) is not complete, and does not become so
  // while devices run.
  template <typename Object>
  bool Blocks(const Object& object, std::string_view what,
              Site site = Site::Here()) {
    bool pending = !object.Query();
    t_.Settle();
    // More than one question: a simulator lets the device move on the second.
    for (int i = 0; i < 3; ++i) pending = !object.Query() && pending;
    return t_.Expect(pending, what, site);
  }

  // `object` gets complete although the stream is held.
  template <typename Object>
  bool LetsPass(const Object& object, std::string_view what,
                Site site = Site::Here()) {
    return t_.Expect(t_.Eventually([&] { return object.Query(); }), what,
                     site) &&
           StillHolds(what, site);
  }

  // What came before did not have to wait for the end of the hold, which comes
  // by itself after some seconds so that a failing test ends.
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

#endif  // DEVRT_CTS_HELD_H_
