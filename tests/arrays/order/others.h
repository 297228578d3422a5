// SPDX-License-Identifier: Apache-2.0
//
// Acts as another library that works on streams without telling devrt.  Makes
// devices and streams of the simulator look like those of other backends.
//
//   Others::Copy(stream, to, from, bytes);  // calls the driver, not devrt
//   const AsHip hip;                        // mtia's DLPack types are hip's
//   Capture capture;
//   capture.Begin(stream);  // work that is submitted to the stream still runs

#ifndef DEVRT_TESTS_ARRAYS_ORDER_OTHERS_H_
#define DEVRT_TESTS_ARRAYS_ORDER_OTHERS_H_

#include <cstdint>

#include "arrays/storage/storage.h"
#include "devrt/arrays/exchange.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/stream_record.h"
#include "tests/arrays/order/capture_fixture.h"

namespace devrt::testing {

class Others {
 public:
  // Returns the native handle as a number.  devrt then counts the stream as
  // exposed.
  static int64_t Handle(StreamRef stream) {
    return static_cast<int64_t>(
        reinterpret_cast<uintptr_t>(Must(stream.Native())));
  }
  static void Copy(StreamRef stream, void* to, const void* from,
                   uint64_t bytes) {
    Must(stream.Native());
    internal::DeviceRecord* const device = stream.device().record();
    Must(internal::FromPlugin(
        device,
        device->ops->copy_async(device->self, stream.record()->handle, to, from,
                                bytes, DEVRT_COPY_INFER),
        "copy"));
  }
  // Sets all bytes to `value`.
  static void Fill(StreamRef stream, void* to, uint8_t value, uint64_t bytes) {
    Must(stream.Native());
    internal::DeviceRecord* const device = stream.device().record();
    Must(internal::FromPlugin(
        device,
        device->ops->fill_async(device->self, stream.record()->handle, to,
                                value, bytes),
        "fill"));
  }
};

// The DLPack types of device 0.
class AsHip {
 public:
  AsHip()
      : types_(&internal::DeviceStreams::Of(MtiaTest::dev().record())->dlpack),
        before_(*types_),
        settings_(GetExchangeSettings()) {
    types_->device_type = 10;
    types_->pinned_type = 11;
    types_->managed_type = 13;
    ExchangeSettings settings = settings_;
    settings.hip_cai = true;
    SetExchangeSettings(settings);
  }
  AsHip(const AsHip&) = delete;
  AsHip& operator=(const AsHip&) = delete;
  ~AsHip() {
    *types_ = before_;
    SetExchangeSettings(settings_);
  }

 private:
  devrt_dlpack_v0* const types_;
  const devrt_dlpack_v0 before_;
  const ExchangeSettings settings_;
};

// The streams of device 0 that another library captures, as devrt sees them.
// Only one object may live at a time.
class Capture {
 public:
  Capture() {
    g_captures = &captures_;
    Table() = &kCapture;
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    captures_.of.clear();
    captures_.DestroyGraphs();
    Table() = nullptr;
  }

  void Begin(StreamRef stream) {
    Must(stream.Native());  // as who captures it has it
    const devrt_stream handle = stream.record()->handle.load();
    if (captures_.of.empty()) {
      captures_.Begin(handle);
    } else {
      captures_.Join(handle, captures_.of.begin()->first);
    }
  }
  void End(StreamRef stream) {
    captures_.of.erase(stream.record()->handle.load());
  }

 private:
  static const devrt_capture_v0*& Table() {
    return internal::DeviceStreams::Of(MtiaTest::dev().record())->capture.table;
  }

  Captures captures_;
};

// The steps of the programs of litmus.h on streams of other libraries.  They
// write zeros.
class OthersPrograms : public ArraysTest {
 public:
  void TestBody() override {}

  static void Done() {
    for (int i = 0; i < kDevices; ++i) Must(dev(i).Synchronize());
    for (int i = 0; i < 10; ++i) internal::RunPendingReleases();
  }
  template <typename F>
  static void On(StreamRef stream, F f) {
    const StreamGuard guard(stream);
    Must(f());
  }
  // Keeps the stream busy, so that the next work on it runs late.
  static void Delay(StreamRef stream) { Must(Spin(stream, kLong)); }

  // Reads `from` late, on the consumer's stream.
  static void ReadAsConsumer(StreamRef stream, const Array& to,
                             const void* from) {
    Delay(stream);
    Others::Copy(stream, to.data(), from, to.nbytes());
  }
  static void WriteAsConsumer(StreamRef stream, const Array& x) {
    Delay(stream);
    Others::Fill(stream, x.data(), 0, x.nbytes());
  }
  // The next array on `stream`, which may get memory that has come back.
  static void UseAgain(StreamRef stream) {
    On(stream, [] { return NewArray(dev()).Fill(3); });
  }
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_ORDER_OTHERS_H_
