// SPDX-License-Identifier: Apache-2.0
//
// BackendProbe: what is asked of mtia, call by call, and code that runs in
// between.
//
//   BackendProbe probe;
//   probe.between = [&] { ... };   // whenever the layer may have been left
//   ASSERT_OK(x.CopyFrom(y));
//   EXPECT_EQ(probe.calls(), "kc");
//
// One at a time, in a test of one thread or with hooks that lock.

#ifndef DEVRT_TESTS_ARRAYS_COPY_PROBE_H_
#define DEVRT_TESTS_ARRAYS_COPY_PROBE_H_

#include <array>
#include <functional>
#include <string>
#include <utility>

#include "streams/objects/device_streams.h"
#include "streams/objects/stream_record.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {

class BackendProbe {
 public:
  BackendProbe() {
    probe_ = this;
    real_ = Ops();
    Hook();
    if (const auto* const real = Streams(0)->capture.table) capture_ = *real;
    capture_.struct_size = sizeof capture_;
    capture_.stream_is_capturing = &IsCapturing;
    for (int i = 0; i < MtiaTest::kDevices; ++i) {
      auto* const streams = Streams(i);
      real_capture_[i] = streams->capture;
      streams->capture.table = &capture_;
      real_kernels_ = *streams->elementwise.table;
      real_table_ = streams->elementwise.table;
      streams->elementwise.table = &kernels_;
    }
    kernels_ = real_kernels_;
    kernels_.fill = [](void* self, devrt_stream s, const devrt_tensor_v0* out,
                       const void* value) {
      probe_->Note('k');
      return probe_->real_kernels_.fill(self, s, out, value);
    };
    kernels_.apply = [](void* self, devrt_stream s, uint32_t op,
                        const devrt_tensor_v0* out, const devrt_tensor_v0* in,
                        uint32_t count) {
      probe_->Note('k');
      return probe_->real_kernels_.apply(self, s, op, out, in, count);
    };
  }
  ~BackendProbe() {
    Ops() = real_;
    for (int i = 0; i < MtiaTest::kDevices; ++i) {
      Streams(i)->capture = real_capture_[i];
      Streams(i)->elementwise.table = real_table_;
    }
    probe_ = nullptr;
  }
  BackendProbe(const BackendProbe&) = delete;
  BackendProbe& operator=(const BackendProbe&) = delete;

  // Before each copy of `stream` between host and device, or within one.
  std::function<void(devrt_stream stream)> before_copy;
  // Called before each wait of the host.
  std::function<void()> before_wait;
  // Called where a step of an operation on arrays may begin.  No lock is held
  // there.
  std::function<void()> between;

  // Returns the calls since the last TakeCalls: (c)opies, (p)eer copies,
  // (f)ills, (k)ernels, (r)ecords, (w)aits of streams.
  std::string TakeCalls() { return std::exchange(calls_, ""); }
  const std::string& calls() const { return calls_; }
  // Asks the backend, not devrt.
  bool IsIdle(devrt_stream stream) const {
    uint32_t done = 0;
    EXPECT_EQ(real_.stream_query(Self(), stream, &done), nullptr);
    return done != 0;
  }
  // Makes the devices look as if they had no kernels.
  static void TakeKernelsAway() {
    for (int i = 0; i < MtiaTest::kDevices; ++i) {
      Streams(i)->elementwise.table = nullptr;
    }
  }

 private:
  static internal::DeviceStreams* Streams(int device) {
    return internal::DeviceStreams::Of(MtiaTest::dev(device).record());
  }
  static devrt_ops_v0& Ops() { return MtiaTest::dev().record()->backend->ops; }
  static void* Self() { return MtiaTest::dev().record()->self; }

  static devrt_status IsCapturing(void* self, devrt_stream s, uint32_t* yes) {
    Run(probe_->between);
    *yes = 0;
    const devrt_capture_v0* const real = probe_->real_capture_[0].table;
    return real == nullptr ? nullptr : real->stream_is_capturing(self, s, yes);
  }
  // Calls the hook.  Calls that the hook itself makes do not call it again.
  static void Run(std::function<void()>& hook) {
    if (!hook) return;
    std::function<void()> taken;
    std::swap(taken, hook);
    taken();
    if (!hook) hook = std::move(taken);
  }
  void Note(char call) { calls_ += call; }
  void Hook();

  inline static BackendProbe* probe_ = nullptr;
  std::string calls_;
  devrt_ops_v0 real_;
  devrt_capture_v0 capture_ = {};
  devrt_elementwise_v0 kernels_;
  devrt_elementwise_v0 real_kernels_;
  const devrt_elementwise_v0* real_table_ = nullptr;
  std::array<internal::ExtensionOf<devrt_capture_v0>, MtiaTest::kDevices>
      real_capture_;
};

inline void BackendProbe::Hook() {
  devrt_ops_v0& ops = Ops();
  ops.copy_async = [](void* self, devrt_stream s, void* dst, const void* src,
                      uint64_t size, uint32_t kind) {
    probe_->Note('c');
    if (probe_->before_copy) probe_->before_copy(s);
    return probe_->real_.copy_async(self, s, dst, src, size, kind);
  };
  ops.copy_peer_async = [](void* self, devrt_stream s, void* dst, uint32_t to,
                           const void* src, uint32_t from, uint64_t size) {
    probe_->Note('p');
    return probe_->real_.copy_peer_async(self, s, dst, to, src, from, size);
  };
  ops.fill_async = [](void* self, devrt_stream s, void* dst, uint32_t value,
                      uint64_t size) {
    probe_->Note('f');
    return probe_->real_.fill_async(self, s, dst, value, size);
  };
  ops.event_record = [](void* self, devrt_event e, devrt_stream s) {
    probe_->Note('r');
    return probe_->real_.event_record(self, e, s);
  };
  ops.stream_wait_event = [](void* self, devrt_stream s, devrt_event e) {
    probe_->Note('w');
    return probe_->real_.stream_wait_event(self, s, e);
  };
  ops.stream_sync = [](void* self, devrt_stream s) {
    Run(probe_->before_wait);
    return probe_->real_.stream_sync(self, s);
  };
  ops.event_sync = [](void* self, devrt_event e) {
    Run(probe_->before_wait);
    return probe_->real_.event_sync(self, e);
  };
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_COPY_PROBE_H_
