// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/faults.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace devrt::mtia {
namespace {

// The text says where the fault happened.  libdevrt logs the error later, when
// a call returns it.
void LogFault(const Fault& fault) {
  if (DEVRT_LOG_INFO < g_host->log_min_level(g_host->host)) return;
  g_host->log(g_host->host, DEVRT_LOG_INFO, __FILE__, __LINE__,
              fault.text.data(), fault.text.size());
}

}  // namespace

Fault DescribeFault(const Op& op, int32_t code, const std::string& what,
                    const Config& config) {
  Fault fault;
  fault.native_code = code;
  fault.device = op.device;
  fault.process = config.fault_scope_process;
  fault.text = std::string(KindName(op.kind)) + " \"" + op.Name() +
               "\" on device mtia:" + std::to_string(op.device);
  if (op.site.file != nullptr) {
    fault.text += std::string(", submitted at ") + op.site.file + ":" +
                  std::to_string(op.site.line);
  }
  fault.text += std::string(": ") + NativeName(code);
  if (!what.empty()) fault.text += ": " + what;
  return fault;
}

// ---- what calls return ----

devrt_status Faults::DeviceError(uint32_t device, const char* entry) const {
  const Fault& fault = devices_[device];
  if (!fault) return nullptr;
  return MakeFaultStatus(fault, entry);
}

devrt_status Faults::StreamError(StreamCore* s, const char* entry) {
  const Fault& fault = devices_[s->device];
  if (fault) return MakeFaultStatus(fault, entry);
  if (s->failed_from == kNever) return nullptr;
  streams_->NoteReported(s);
  return MakeFaultStatus(*s->origin, entry);
}

devrt_status Faults::PointsError(const Points& points, const char* entry) {
  devrt_status error = nullptr;
  for (const Point& p : points) {
    if (!Failed(p)) continue;
    if (error == nullptr) error = MakeFaultStatus(*p.stream->origin, entry);
    streams_->NoteReported(p.stream);
  }
  return error;
}

// ---- what fails ----

void Faults::FailOp(Op* op, Fault fault, VTime end) {
  op->state = OpState::kFailed;
  op->ended = end;
  if (history_->outcome.is_on()) {
    history_->outcome.AddFault(*op, fault.native_code);
  }
  if (op->timeline != kNever) history_->timeline.Update(op);
  FailDevice(op->device, std::move(fault));
}

void Faults::FailDevice(uint32_t device, Fault fault) {
  if (devices_[device]) return;  // the first fault stays
  LogFault(fault);
  if (config_->fault_delivery_abort) {
    std::fprintf(stderr, "devrt mtia: fault_delivery=abort: %s\n",
                 fault.text.c_str());
    std::abort();
  }
  history_->trace.Add(7, device, static_cast<uint64_t>(fault.native_code));
  ++history_->progress;
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    if ((i != device && !fault.process) || devices_[i]) continue;
    devices_[i] = fault;
  }
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i]) scheduler_->FailStreams(i, &devices_[i]);
  }
  scheduler_->Drain();
}

}  // namespace devrt::mtia
