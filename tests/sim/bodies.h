// SPDX-License-Identifier: Apache-2.0
//
// Bodies for the tests of devrt/sim/explore.h.

#ifndef DEVRT_TESTS_SIM_BODIES_H_
#define DEVRT_TESTS_SIM_BODIES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {

// Streams and one integer in device memory, which end with the object.
class Scene {
 public:
  explicit Scene(int streams = 2) {
    for (int i = 0; i < streams; ++i) {
      streams_.push_back(Must(Stream::Create(device_)));
    }
    cell_ = static_cast<int64_t*>(Must(Allocate(device_, sizeof *cell_)));
    Must(simulator_.Poke(cell_, &kStart, sizeof kStart));
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  ~Scene() { Free(device_, cell_).IgnoreError(); }

  Device device() const { return device_; }
  StreamRef stream(int i) const { return streams_[static_cast<size_t>(i)]; }

  // cell = cell * factor + term, read at the begin and written at the end.
  void Update(int stream, int64_t factor, int64_t term,
              const char* name = "update",
              CallSite site = CallSite::Here()) const {
    int64_t* const cell = cell_;
    LaunchOptions options;
    options.name = name;
    Must(Launch(
        this->stream(stream), {ReadWrite(cell, sizeof *cell)},
        [=](const LaunchContext& context) {
          if (int64_t* p = context.Local(cell)) *p = *p * factor + term;
        },
        options, site));
  }
  // A kernel that touches no memory that others touch.
  void Nothing(int stream) const { Must(Spin(this->stream(stream), 1000)); }
  void Order(int earlier, int later) const {
    const Event event = Must(Event::Create(device_));
    Must(event.Record(stream(earlier)));
    Must(stream(later).Wait(event));
  }
  // The value when all work is complete.
  int64_t Value() const {
    Must(device_.Synchronize());
    int64_t value = 0;
    Must(simulator_.Peek(cell_, &value, sizeof value));
    return value;
  }

  static constexpr int64_t kStart = 1;

 private:
  const Simulator simulator_ = Must(Simulator::Get());
  const Device device_ = Must(GetDevice("mtia:0"));
  std::vector<Stream> streams_;
  int64_t* cell_ = nullptr;
};

inline absl::Status ExpectValue(int64_t value, int64_t expected) {
  if (value == expected) return absl::OkStatus();
  return absl::InternalError("the value is " + std::to_string(value) +
                             ", expected " + std::to_string(expected));
}

// Two updates on two streams: (1 * 2) + 3.
inline absl::Status TwoUpdates(bool ordered) {
  const Scene scene;
  scene.Update(0, 2, 0, "double");
  if (ordered) scene.Order(0, 1);
  scene.Update(1, 1, 3, "add");
  return ExpectValue(scene.Value(), 5);
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SIM_BODIES_H_
