// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "devrt/runtime/backend.h"
#include "devrt/runtime/inspect.h"
#include "devrt/runtime/peer.h"
#include "python/src/bindings.h"
#include "python/src/bridge.h"

namespace devrt::python {
namespace {

// Explains why nothing was found: raises in a forked child and after Shutdown.
void CheckProcess() {
  // The state of the process is checked first.  In a usable process a null
  // table gives INVALID_ARGUMENT.
  absl::Status status =
      WithoutLock([] { return RegisterBackend(nullptr, nullptr); });
  if (absl::IsFailedPrecondition(status)) Check(status);
}

std::vector<std::string> Names() {
  std::vector<std::string> names = WithoutLock([] { return BackendNames(); });
  if (names.empty()) CheckProcess();
  return names;
}

nb::list DevicesOf(nb::object name) {
  nb::list list;
  if (!name.is_none()) {
    for (DeviceObject* device : BackendOf(name)->devices) {
      list.append(nb::borrow(reinterpret_cast<PyObject*>(device)));
    }
    return list;
  }
  const std::vector<Device> devices = WithoutLock([] { return AllDevices(); });
  if (devices.empty()) CheckProcess();
  for (const Device device : devices) {
    list.append(ToObject(device));
  }
  return list;
}

std::string Load(const std::string& path) {
  const Backend backend = Check(WithoutLock([&] { return LoadBackend(path); }));
  if (WrapBackend(backend) == nullptr) ThrowPythonError();
  return backend.name();
}

// Returns the backend that the file claims to be of, empty if it is not a
// plugin.  Loads nothing.
nb::object BackendOfPlugin(const std::string& path) {
  const PluginReport report = WithoutLock([&] { return InspectPlugin(path); });
  return ToText(report.manifest.has_value() ? report.manifest->backend : "");
}

nb::list Report() {
  nb::list list;
  const auto attempts = WithoutLock([] { return LoadReport(); });
  if (attempts.empty()) CheckProcess();
  for (const LoadAttempt& attempt : attempts) {
    nb::dict line;
    line["source"] = ToText(attempt.source);
    line["path"] = ToText(attempt.path);
    line["backend"] = ToText(attempt.backend);
    line["version"] = ToText(attempt.version);
    line["result"] = ToString(attempt.result);
    const absl::string_view reason = attempt.status.message();
    line["reason"] = ToText({reason.data(), reason.size()});
    list.append(line);
  }
  return list;
}

nb::dict Info(nb::str name) {
  const BackendEntry* entry = BackendOf(name);
  const Backend backend = entry->backend;
  nb::dict info;
  info["name"] = ToText(backend.name());
  info["vendor"] = ToText(backend.vendor());
  info["version"] = ToText(backend.version());
  info["path"] = ToText(backend.path());
  info["capabilities"] = backend.capabilities();
  info["simulator"] = entry->simulator;
  return info;
}

void EndAll() {
  Check(WithoutLock([] {
    EndBridges();
    return Shutdown();
  }));
}

bool CanAccess(nb::object device, nb::object peer) {
  const Device from = DeviceOf(device.ptr()), to = DeviceOf(peer.ptr());
  return Check(WithoutLock([&] { return CanAccessPeer(from, to); }));
}

void EnableAccess(nb::object device, nb::object peer) {
  const Device from = DeviceOf(device.ptr()), to = DeviceOf(peer.ptr());
  Check(WithoutLock([&] { return EnablePeerAccess(from, to); }));
}

void DisableAccess(nb::object device, nb::object peer) {
  const Device from = DeviceOf(device.ptr()), to = DeviceOf(peer.ptr());
  Check(WithoutLock([&] { return DisablePeerAccess(from, to); }));
}

}  // namespace

void BindBackends(nb::module_& module) {
  module.def("_backend_names", &Names);
  module.def(
      "devices", &DevicesOf, nb::arg("backend") = nb::none(),
      "Returns all devices of one backend, or of all backends that can be\n"
      "opened.");
  module.def("_load_backend", &Load, nb::arg("path"));
  module.def("_load_report", &Report);
  module.def("_plugin_backend", &BackendOfPlugin, nb::arg("path"));
  module.def(
      "backend_info", &Info, nb::arg("backend"),
      "Returns name, vendor, version, path, capabilities (bits) and simulator\n"
      "of a backend.");
  module.def(
      "shutdown", &EndAll,
      "Ends all backends for the rest of the process.  Programs need not call\n"
      "it.\n\n"
      "Raises Error with the counts if streams, events or memory are alive.");
  module.def(
      "can_access_peer", &CanAccess, nb::arg("device"), nb::arg("peer"),
      "Returns True if kernels of `device` can be given access to memory of\n"
      "`peer`.");
  module.def(
      "enable_peer_access", &EnableAccess, nb::arg("device"), nb::arg("peer"),
      "Allows kernels of `device` to use memory of `peer`, in the whole\n"
      "process.");
  module.def("disable_peer_access", &DisableAccess, nb::arg("device"),
             nb::arg("peer"), "Withdraws what enable_peer_access allowed.");
  module.def(
      "_set_backend_finder",
      [](nb::object finder) { SetBackendFinder(finder.ptr()); },
      nb::arg("finder"));
}

}  // namespace devrt::python
