// SPDX-License-Identifier: Apache-2.0
//
// The backend under test: its C table with the recorder in front, and its C++
// API.
//
//   uint32_t done = 0;
//   Result r = m.Call<&devrt_ops_v0::stream_query>(stream, &done);
//
// Each worker has one.  Threads: any.

#ifndef DEVRT_CTS_MACHINE_H_
#define DEVRT_CTS_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cts/result.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/devrt.h"

namespace devrt::cts {

class Machine {
 public:
  // Loads `plugin` with the recorder in front.  Tests may use all devices.  The
  // Machine lives until the process ends.
  static absl::StatusOr<Machine*> Open(const std::string& plugin);
  // Restricts tests to these ordinals.  INVALID_ARGUMENT if one does not exist.
  absl::Status Choose(const std::vector<int>& ordinals);

  // Calls a slot of the table.
  template <auto kSlot, typename... Args>
  Result Call(Args... args) {
    return ToResult((ops_->*kSlot)(self_, args...));
  }
  // Calls a function of an extension's table; the function is not NULL.
  template <typename Table, typename... Params, typename... Args>
  Result CallExtension(devrt_status (*Table::*function)(void*, Params...),
                       const Table* table, void* self, Args... args) {
    return ToResult((table->*function)(self, args...));
  }
  // Converts `status` and destroys the error object.
  Result ToResult(devrt_status status);

  Backend backend() const { return backend_; }
  uint64_t capabilities() const { return capabilities_; }
  bool Has(uint64_t bits) const { return (capabilities_ & bits) == bits; }
  const devrt_host_v0* host() const { return host_; }
  const devrt_ops_v0* ops() const { return ops_; }
  void* self() const { return self_; }

  // Breaches of P2 and P4 by the plugin's open function, found by the loader.
  const std::vector<std::string>& findings_of_open() const { return findings_; }

  const std::vector<uint32_t>& devices() const { return devices_; }
  const devrt_device_props_v0& props(uint32_t device) const {
    return props_[device];
  }

  // nullptr if the backend lacks devrt.probe/0.
  const devrt_probe_v0* probe() const { return probe_; }
  void* probe_self() const { return probe_self_; }
  const std::optional<Simulator>& simulator() const { return simulator_; }
  // True for a simulator in virtual mode, which decides the order of all work.
  bool IsVirtual() const { return is_virtual_; }
  // The simulator's configuration when it was opened.
  const std::string& config() const { return config_; }
  // Restarts the simulator with config() and `more`.
  Result Reset(const std::string& more);

 private:
  explicit Machine(Backend backend) : backend_(backend) {}
  absl::Status Inspect();

  Backend backend_;
  const devrt_host_v0* host_ = nullptr;
  const devrt_ops_v0* ops_ = nullptr;
  void* self_ = nullptr;
  uint64_t capabilities_ = 0;
  std::vector<std::string> findings_;
  std::vector<uint32_t> devices_;
  std::vector<devrt_device_props_v0> props_;
  const devrt_probe_v0* probe_ = nullptr;
  void* probe_self_ = nullptr;
  std::optional<Simulator> simulator_;
  bool is_virtual_ = false;
  std::string config_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_MACHINE_H_
