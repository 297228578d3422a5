// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/probe.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "runtime/registry/records.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/stream_target.h"

namespace devrt {

using internal::DeviceRecord;
using internal::DeviceStreams;
using internal::StreamTarget;

namespace {

using Probe = internal::ExtensionOf<devrt_probe_v0>;

absl::StatusOr<Probe> ProbeOf(DeviceRecord* device) {
  const Probe probe = DeviceStreams::Of(device)->probe;
  if (probe.table != nullptr) return probe;
  return absl::UnimplementedError(
      absl::StrCat("backend \"", device->backend->name,
                   "\" has no probe kernels (" DEVRT_PROBE_EXTENSION ")"));
}

// Enqueues a probe kernel: `submit(table, target)` makes the call.
template <typename Submit>
absl::Status Enqueue(StreamRef stream, const char* call, CallSite site,
                     Submit submit) {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(internal::ResolveStreamForWork(stream, call, site, &t));
  DEVRT_ASSIGN_OR_RETURN(const Probe probe, ProbeOf(t.device));
  absl::Status status = FromPlugin(t.device, submit(probe, t), call);
  t.MarkDirty();
  return status;
}

}  // namespace

absl::Status Spin(StreamRef stream, uint64_t nanoseconds, CallSite site) {
  return Enqueue(stream, "Spin", site,
                 [&](const Probe& probe, const StreamTarget& t) {
                   return probe.table->spin(probe.self, t.handle, nanoseconds);
                 });
}

absl::Status CommitFault(StreamRef stream, FaultForm form, CallSite site) {
  bool has_fault = true;
  absl::Status status =
      Enqueue(stream, "CommitFault", site,
              [&](const Probe& probe, const StreamTarget& t) -> devrt_status {
                has_fault = probe.table->fault != nullptr;
                if (!has_fault) return nullptr;
                return probe.table->fault(probe.self, t.handle,
                                          static_cast<uint32_t>(form));
              });
  if (has_fault) return status;
  return absl::UnimplementedError(
      "CommitFault: the backend's " DEVRT_PROBE_EXTENSION " has no fault");
}

absl::StatusOr<Flag> Flag::Create(Device device) {
  DeviceRecord* record = device.record();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("Flag::Create");
  }
  if (!internal::IsOpen(record)) {
    return internal::RefusedCallError(record, "Flag::Create");
  }
  DEVRT_ASSIGN_OR_RETURN(const Probe probe, ProbeOf(record));
  devrt_flag flag = nullptr;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      record, probe.table->flag_create(probe.self, record->ordinal, &flag),
      "flag creation"));
  return Flag(device, flag);
}

Flag& Flag::operator=(Flag&& other) noexcept {
  if (this == &other) return *this;
  Flag old(std::move(*this));
  device_ = other.device_;
  flag_ = std::exchange(other.flag_, nullptr);
  return *this;
}

namespace {

void DestroyFlag(DeviceRecord* record, devrt_flag flag) {
  if (!internal::IsOpen(record)) return;
  const Probe& probe = DeviceStreams::Of(record)->probe;
  absl::Status status = FromPlugin(
      record, probe.table->flag_destroy(probe.self, flag), "flag destruction");
  if (!status.ok()) {
    DEVRT_LOG(kError, std::string_view(status.message().data(),
                                       status.message().size()));
  }
}

}  // namespace

Flag::~Flag() {
  if (flag_ == nullptr) return;
  internal::RunOutsideHostFunction(
      [record = device_.record(), flag = flag_] { DestroyFlag(record, flag); });
}

absl::Status Flag::WaitOn(StreamRef stream, uint64_t timeout_ns,
                          CallSite site) const {
  return Enqueue(stream, "Flag::WaitOn", site,
                 [&](const Probe& probe, const StreamTarget& t) {
                   return probe.table->flag_wait(probe.self, t.handle, flag_,
                                                 timeout_ns);
                 });
}

absl::Status Flag::SetOn(StreamRef stream, CallSite site) const {
  return Enqueue(stream, "Flag::SetOn", site,
                 [&](const Probe& probe, const StreamTarget& t) {
                   return probe.table->flag_set_async(probe.self, t.handle,
                                                      flag_, 1);
                 });
}

absl::Status Flag::Store(uint32_t value) const {
  DeviceRecord* record = device_.record();
  if (!internal::IsOpen(record)) {
    return internal::RefusedCallError(record, "Flag::Store");
  }
  const Probe& probe = DeviceStreams::Of(record)->probe;
  return FromPlugin(record, probe.table->flag_set(probe.self, flag_, value),
                    "flag");
}

absl::Status Flag::Set() const { return Store(1); }
absl::Status Flag::Clear() const { return Store(0); }

}  // namespace devrt
