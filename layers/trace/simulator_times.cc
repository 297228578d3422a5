// SPDX-License-Identifier: Apache-2.0
//
// Times from a simulator, which knows when its operations ran and what they
// waited for.
#include <mutex>
#include <unordered_map>
#include <utility>

#include "devrt/backends/abi/devrt_sim.h"
#include "layers/trace/device_times.h"

namespace devrt::trace {
namespace {

class SimulatorTimes : public DeviceTimes {
 public:
  SimulatorTimes(const devrt_host_v0* host, const devrt_sim_v1* sim, void* self,
                 Recorder* recorder, Clock* clock, uint8_t backend)
      : sim_(sim),
        self_(self),
        host_(host),
        recorder_(recorder),
        clock_(clock),
        backend_(backend),
        ring_(recorder->DeviceRing()) {
    Record r = {};
    r.backend = backend;
    r.call = kClock;
    r.name = recorder->Name("simulator");
    r.status = clock_->is_virtual() ? 1 : 0;
    recorder->Push(ring_, r);
    Ignore(sim_->timeline_take(self_, &Visit, this));  // begins the recording
  }

  void Collect() override {
    // If another thread collects already, this one need not.
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    clock_->Align();
    Ignore(sim_->timeline_take(self_, &Visit, this));
  }

 private:
  void Ignore(devrt_status error) const {
    if (error != nullptr) host_->error_destroy(host_->host, error);
  }

  static void Visit(void* arg, const devrt_sim_op_v1* op) {
    static_cast<SimulatorTimes*>(arg)->Write(*op);
  }

  // Records the native handle of the simulator's stream.  The handle separates
  // the default stream from per-thread default streams, which share one number
  // in programs.
  void TellStream(const devrt_sim_op_v1& op) {
    const auto [told, is_new] = told_.try_emplace(op.stream, op.native_stream);
    // A reset of the simulator reuses numbers.
    if (!is_new &&
        std::exchange(told->second, op.native_stream) == op.native_stream) {
      return;
    }
    Record r = {};
    r.call = kSimulatorStream;
    r.backend = backend_;
    r.stream = op.stream;
    r.object = reinterpret_cast<uint64_t>(op.native_stream);
    r.device = static_cast<uint8_t>(op.device);
    recorder_->Push(ring_, r);
  }

  void Write(const devrt_sim_op_v1& op) {
    TellStream(op);
    Record r = {};
    r.call = kDeviceOp;
    r.backend = backend_;
    r.begin_ns = clock_->OfSimulator(op.begin_ns);
    r.end_ns = clock_->OfSimulator(op.end_ns);
    r.stream = op.stream;
    r.object = op.seq;
    r.bytes = op.bytes;
    r.total = clock_->OfSimulator(op.submit_ns);
    r.name = recorder_->Name(op.name);
    r.file = recorder_->Name(op.file);
    r.line = LineField(op.line);
    if (DEVRT_HAS_FIELD(&op, devrt_sim_op_v1, host_stream)) {
      r.stream_number = NumberField(op.host_stream);
    }
    r.device = static_cast<uint8_t>(op.device);
    r.status = static_cast<uint8_t>(op.state);
    recorder_->Push(ring_, r);
    for (uint32_t i = 0; i < op.dep_count; ++i) {
      Record d = {};
      d.call = kDependency;
      d.backend = backend_;
      d.stream = op.stream;
      d.object = op.seq;
      d.bytes = op.dep_stream[i];
      d.total = op.dep_seq[i];
      d.device = r.device;
      recorder_->Push(ring_, d);
    }
  }

  const devrt_sim_v1* const sim_;
  void* const self_;
  const devrt_host_v0* const host_;
  Recorder* const recorder_;
  Clock* const clock_;
  std::mutex mutex_;
  const uint8_t backend_;
  RingHeader* const ring_;
  // The native handles that were recorded, by the simulator's stream number.
  std::unordered_map<uint64_t, const void*> told_;
};

}  // namespace

std::unique_ptr<DeviceTimes> TimesOfSimulator(const devrt_next_v0* next,
                                              const devrt_host_v0* host,
                                              Recorder* recorder, Clock* clock,
                                              uint8_t backend) {
  void* self = nullptr;
  const auto* const sim = static_cast<const devrt_sim_v1*>(
      next->extension(next, DEVRT_SIM_EXTENSION, &self));
  if (sim == nullptr || !DEVRT_HAS_FIELD(sim, devrt_sim_v1, timeline_take)) {
    return nullptr;
  }
  return std::make_unique<SimulatorTimes>(host, sim, self, recorder, clock,
                                          backend);
}

}  // namespace devrt::trace
