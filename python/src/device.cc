// SPDX-License-Identifier: Apache-2.0
#include "python/src/device.h"

#include <new>
#include <string>
#include <utility>

#include "devrt/arrays/dtype.h"
#include "devrt/runtime/gate.h"
#include "devrt/runtime/layer.h"
#include "devrt/runtime/simulator.h"
#include "python/src/arguments.h"
#include "python/src/call_site.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/thread_state.h"

namespace devrt::python {

PyTypeObject* g_device_type = nullptr;

namespace {

// Never destroyed: these objects are used until the interpreter ends.
std::vector<BackendEntry*>* g_backends = new std::vector<BackendEntry*>;
std::vector<DeviceObject*>* g_devices = new std::vector<DeviceObject*>;
BackendEntry* g_default_backend = nullptr;
PyObject* g_finder = nullptr;

// The values of devrt.DeviceType.
int DeviceTypeOf(const std::string& name) {
  if (name == "cuda") return 1;
  if (name == "hip") return 6;
  if (name == "mtia") return 19;
  return 20;
}

BackendEntry* FindEntry(std::string_view name) {
  for (BackendEntry* entry : *g_backends) {
    if (entry->backend.name() == name) return entry;
  }
  return nullptr;
}

// All members but the name are zero, as they stay for the host.
DeviceObject* MakeObject(const std::string& name) {
  auto* object = reinterpret_cast<DeviceObject*>(
      g_device_type->tp_alloc(g_device_type, 0));
  if (object == nullptr) return nullptr;
  object->name = PyUnicode_FromStringAndSize(
      name.data(), static_cast<Py_ssize_t>(name.size()));
  return object->name != nullptr ? object : nullptr;
}

DeviceObject* MakeDevice(Device device, BackendEntry* backend) {
  DeviceObject* object = MakeObject(device.name());
  if (object == nullptr) return nullptr;
  new (&object->device) Device(device);
  object->backend = backend;
  object->index = device.gate()->index;
  return object;
}

bool IsForkedChild(const DeviceObject* device) {
  const internal::DeviceGate* gate = device->device.gate();
  return (gate->state.load(std::memory_order_relaxed) &
          internal::kForkedChild) != 0;
}

// Returns 1 if the finder has loaded a backend of that name, 0 if not, and -1
// with an exception set.
int AskFinder(std::string_view name) {
  if (g_finder == nullptr) return 0;
  const Ref answer(PyObject_CallFunction(g_finder, "s#", name.data(),
                                         static_cast<Py_ssize_t>(name.size())));
  return answer ? PyObject_IsTrue(answer.get()) : -1;
}

}  // namespace

void SetBackendFinder(PyObject* finder) {
  Py_XDECREF(std::exchange(g_finder, NewRef(finder)));
}

BackendEntry* WrapBackend(Backend backend) {
  if (BackendEntry* found = FindEntry(backend.name())) return found;
  const std::vector<Device> devices = backend.devices();
  // The layers are fixed from the first opened backend on.
  SetSiteReader(SiteReader::kLayers,
                !WithoutLock([] { return Layers(); }).empty());
  auto* entry = new BackendEntry{backend,
                                 {},
                                 DeviceTypeOf(backend.name()),
                                 Simulator::Get(backend).ok(),
                                 backend.name() == "cuda"};
  for (const Device device : devices) {
    DeviceObject* object = MakeDevice(device, entry);
    if (object == nullptr) return nullptr;
    entry->devices.push_back(object);
    if (object->index >= g_devices->size()) {
      g_devices->resize(object->index + 1);
    }
    (*g_devices)[object->index] = object;
  }
  g_backends->push_back(entry);
  return entry;
}

DeviceObject* HostDevice() {
  static DeviceObject* host = nullptr;  // guarded by the GIL
  if (host == nullptr) host = MakeObject("cpu");
  return host;
}

bool IsHostDevice(PyObject* object) {
  if (object == nullptr) return false;
  if (IsDevice(object)) {
    return reinterpret_cast<DeviceObject*>(object)->backend == nullptr;
  }
  return PyUnicode_Check(object) &&
         PyUnicode_CompareWithASCIIString(object, "cpu") == 0;
}

void RaiseNoAccelerator(std::string_view name, const BackendEntry* backend) {
  Raise(absl::InvalidArgumentError(
      (backend != nullptr ? "Expected a " + backend->backend.name()
                          : std::string("Expected an accelerator")) +
      " device, but got: " + std::string(name)));
}

const std::vector<BackendEntry*>& OpenedBackends() { return *g_backends; }

DeviceObject* WrapDevice(Device device) {
  const uint32_t index = device.gate()->index;
  if (index < g_devices->size() && (*g_devices)[index] != nullptr) {
    return (*g_devices)[index];
  }
  return WrapBackend(device.backend()) != nullptr ? (*g_devices)[index]
                                                  : nullptr;
}

DeviceObject* UsableDevice(DeviceObject* device) {
  if (__builtin_expect(!IsForkedChild(device), 1)) return device;
  Raise(WithoutLock([&] {
          return GetBackend(device->backend->backend.name());
        }).status());
  return nullptr;
}

BackendEntry* OpenBackend(std::string_view name) {
  BackendEntry* found = FindEntry(name);
  // A backend without devices is asked again below.
  if (found != nullptr && !found->devices.empty() &&
      !IsForkedChild(found->devices.front())) {
    return found;
  }
  auto backend = WithoutLock([&] { return GetBackend(name); });
  if (!backend.ok() && backend.status().code() == absl::StatusCode::kNotFound) {
    const int loaded = AskFinder(name);
    if (loaded < 0) return nullptr;
    if (loaded > 0) backend = WithoutLock([&] { return GetBackend(name); });
  }
  if (!backend.ok()) {
    Raise(backend.status());
    return nullptr;
  }
  return WrapBackend(*backend);
}

namespace {

BackendEntry* DefaultBackend() {
  if (g_default_backend != nullptr) return g_default_backend;
  const auto first = WithoutLock([]() -> absl::StatusOr<Backend> {
    const std::vector<std::string> names = BackendNames();
    // GetBackend says what was searched, or that this is a forked child.
    if (names.empty()) return GetBackend("mtia");
    absl::Status why = absl::UnavailableError("no backend has a device");
    for (const std::string& name : names) {
      absl::StatusOr<Backend> backend = GetBackend(name);
      if (backend.ok() && backend->device_count() > 0) return backend;
      if (!backend.ok()) why = backend.status();
    }
    return why;
  });
  if (!first.ok()) {
    Raise(first.status());
    return nullptr;
  }
  return g_default_backend = WrapBackend(*first);
}

}  // namespace

BackendEntry* ActiveBackend() {
  ThreadState* thread = Thread();
  if (thread == nullptr) return nullptr;
  return thread->active != nullptr ? thread->active : DefaultBackend();
}

namespace {

// Returns the calling thread's current device, after a call of Thread().
DeviceObject* DeviceOfThread(BackendEntry* backend) {
  // Reads only state of this thread, so the GIL stays.
  const auto device = CurrentDevice(backend->backend);
  if (__builtin_expect(!device.ok(), 0)) {
    Raise(device.status());
    return nullptr;
  }
  return WrapDevice(*device);
}

}  // namespace

DeviceObject* CurrentDeviceOf(BackendEntry* backend) {
  return Thread() != nullptr ? DeviceOfThread(backend) : nullptr;
}

DeviceObject* CurrentDeviceObject() {
  BackendEntry* backend = ActiveBackend();  // calls Thread()
  return backend != nullptr ? DeviceOfThread(backend) : nullptr;
}

namespace {

// Names of devices of other libraries that are not accelerators.
bool IsNoAccelerator(std::string_view name) {
  const std::string_view type = name.substr(0, name.find(':'));
  return type == "cpu" || type == "meta";
}

// Raises the error of GetDevice, with better advice for the name of a dtype and
// for "cpu0", which look as if only a colon were missing.
void RaiseNoDevice(std::string_view name, const absl::Status& status) {
  const std::string invalid = "Invalid device string: '" + std::string(name);
  if (DType::FromName(name).ok()) {
    Raise(absl::InvalidArgumentError(
        invalid +
        "' is a dtype: pass it as dtype, and a device such as "
        "'mtia:1' as device"));
  } else if (name.substr(0, 3) == "cpu" && name.size() > 3 &&
             name.find_first_not_of("0123456789", 3) == name.npos) {
    Raise(absl::InvalidArgumentError(invalid + "'; did you mean 'cpu'?"));
  } else {
    Raise(status);
  }
}

DeviceObject* ParseDeviceName(PyObject* object, BackendEntry* backend) {
  Py_ssize_t size = 0;
  const char* text = ToUtf8(object, "device", &size);
  if (text == nullptr) return nullptr;
  const std::string_view name(text, static_cast<size_t>(size));
  for (DeviceObject* known : *g_devices) {
    if (known != nullptr && PyUnicode_Compare(known->name, object) == 0) {
      if (backend == nullptr || known->backend == backend) return known;
    }
  }
  if (IsNoAccelerator(name)) {
    RaiseNoAccelerator(name, backend);
    return nullptr;
  }
  auto found = WithoutLock([&] { return GetDevice(name); });
  if (!found.ok() && found.status().code() == absl::StatusCode::kNotFound) {
    const int loaded = AskFinder(name.substr(0, name.find(':')));
    if (loaded < 0) return nullptr;
    if (loaded > 0) found = WithoutLock([&] { return GetDevice(name); });
  }
  if (!found.ok()) {
    RaiseNoDevice(name, found.status());
    return nullptr;
  }
  DeviceObject* device = WrapDevice(*found);
  if (device != nullptr && backend != nullptr && device->backend != backend) {
    const Backend wanted = backend->backend;
    Raise(absl::InvalidArgumentError(
        "Expected a " + wanted.name() +
        " device, but got: " + found->backend().name()));
    return nullptr;
  }
  return device;
}

DeviceObject* ParseIndex(PyObject* object, BackendEntry* backend) {
  int64_t index = 0;
  if (!ToInt64(object, "device", &index)) return nullptr;
  if (backend == nullptr) backend = ActiveBackend();
  if (backend == nullptr) return nullptr;
  const auto count = static_cast<int64_t>(backend->devices.size());
  if (index >= 0 && index < count) {
    return backend->devices[static_cast<size_t>(index)];
  }
  const auto device =
      WithoutLock([&] { return GetDevice(backend->backend.name(), index); });
  Raise(device.status());
  return nullptr;
}

DeviceObject* ParseAny(PyObject* object, BackendEntry* backend) {
  if (object == nullptr || object == Py_None) {
    return backend != nullptr ? CurrentDeviceOf(backend)
                              : CurrentDeviceObject();
  }
  if (IsDevice(object)) {
    auto* device = reinterpret_cast<DeviceObject*>(object);
    if (device->backend == nullptr) {
      RaiseNoAccelerator("cpu", backend);
      return nullptr;
    }
    if (backend == nullptr || device->backend == backend) return device;
    Raise(absl::InvalidArgumentError(
        "Expected a " + backend->backend.name() +
        " device, but got: " + device->backend->backend.name()));
    return nullptr;
  }
  if (PyUnicode_Check(object)) return ParseDeviceName(object, backend);
  if (PyLong_Check(object) && !PyBool_Check(object)) {
    return ParseIndex(object, backend);
  }
  PyErr_Format(PyExc_TypeError,
               "device must be a devrt.Device, str, int or None, not %s",
               TypeName(object));
  return nullptr;
}

}  // namespace

DeviceObject* ParseDevice(PyObject* object, BackendEntry* backend) {
  DeviceObject* device = ParseAny(object, backend);
  return device != nullptr ? UsableDevice(device) : nullptr;
}

Device DeviceOf(PyObject* object) {
  DeviceObject* device = ParseDevice(object);
  if (device == nullptr) ThrowPythonError();
  return device->device;
}

bool IsVirtual(const BackendEntry& backend) {
  if (!backend.simulator) return false;
  const auto simulator = Simulator::Get(backend.backend);
  if (!simulator.ok()) return false;
  const auto config = simulator->Config();
  return config.ok() && config->find("mode=virtual") != std::string::npos;
}

}  // namespace devrt::python
