// SPDX-License-Identifier: Apache-2.0
//
// The type devrt.Device.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "devrt/runtime/simulator.h"
#include "python/src/arguments.h"
#include "python/src/call_site.h"
#include "python/src/device.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/helpers.h"
#include "python/src/host_call.h"
#include "python/src/stream.h"
#include "python/src/thread_state.h"
#include "python/src/wait.h"

namespace devrt::python {
namespace {

DeviceObject* Self(PyObject* self) {
  return reinterpret_cast<DeviceObject*>(self);
}

// Raises for attributes that the host lacks, and returns null.
DeviceObject* Accelerator(PyObject* self) {
  if (__builtin_expect(Self(self)->backend != nullptr, 1)) return Self(self);
  RaiseNoAccelerator("cpu", nullptr);
  return nullptr;
}

// Opens the backend for a name that is given with an index.
BackendEntry* OpenNamed(PyObject* text, PyObject* index) {
  Py_ssize_t size = 0;
  const char* utf8 = ToUtf8(text, "backend", &size);
  if (utf8 == nullptr) return nullptr;
  const std::string_view name(utf8, static_cast<size_t>(size));
  if (name.find(':') == std::string_view::npos) return OpenBackend(name);
  PyErr_Format(g_exceptions.invalid_argument,
               "device is %R and index %R: the index is given twice; a "
               "backend's name goes with an index",
               text, index);
  return nullptr;
}

PyObject* New(PyTypeObject*, PyObject* args, PyObject* keywords) {
  static const Parameters kParameters = {
      "Device", 1, 2, 2, {"device", "index"}};
  PyObject* values[2];
  if (!SortArguments(kParameters, args, keywords, values)) return nullptr;
  DeviceObject* device = nullptr;
  if (values[1] == nullptr || values[1] == Py_None) {
    device = IsHostDevice(values[0]) ? HostDevice() : ParseDevice(values[0]);
  } else if (!PyUnicode_Check(values[0])) {
    PyErr_Format(PyExc_TypeError, "a backend's name goes with an index, not %s",
                 TypeName(values[0]));
  } else if (IsInt(values[1], "index")) {
    BackendEntry* backend = OpenNamed(values[0], values[1]);
    if (backend != nullptr) device = ParseDevice(values[1], backend);
  }
  return device != nullptr ? NewRef(device) : nullptr;
}

PyObject* Repr(PyObject* self) {
  return PyUnicode_FromFormat("devrt.Device('%U')", Self(self)->name);
}

PyObject* Str(PyObject* self) { return NewRef(Self(self)->name); }

// A device equals its name, so their hashes must be equal.
Py_hash_t Hash(PyObject* self) { return PyObject_Hash(Self(self)->name); }

PyObject* Compare(PyObject* self, PyObject* other, int operation) {
  const bool is_text = PyUnicode_Check(other);
  if ((operation != Py_EQ && operation != Py_NE) ||
      (!is_text && !IsDevice(other))) {
    return NewRef(Py_NotImplemented);
  }
  const bool equal =
      is_text ? PyUnicode_Compare(Self(self)->name, other) == 0 : self == other;
  return PyBool_FromLong(equal == (operation == Py_EQ));
}

PyObject* Enter(PyObject* self, PyObject*) {
  return Accelerator(self) != nullptr ? EnterDeviceObject(self) : nullptr;
}

PyObject* Exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  return LeaveObject(self);
}

PyObject* WaitForWork(PyObject* self, PyObject*) {
  if (Accelerator(self) == nullptr) return nullptr;
  const Device device = Self(self)->device;
  const SiteHere here;
  const CallSite site = here;  // for the waiting thread too
  return WaitFor(*Self(self)->backend, nullptr,
                 [=] { return device.Synchronize(site); });
}

PyObject* Synchronize(PyObject* self, PyObject*) {
  if (Accelerator(self) == nullptr) return nullptr;
  const std::vector<uint64_t> calls =
      HostCallsOf(Self(self)->device, std::nullopt);
  const Ref done(WaitForWork(self, nullptr));
  return done ? WaitForHostCalls(calls) : nullptr;
}

PyObject* MemoryInformation(PyObject* self, PyObject*) {
  if (Accelerator(self) == nullptr) return nullptr;
  const Device device = Self(self)->device;
  const auto info = WithoutLock([&] { return device.GetMemoryInfo(); });
  if (!info.ok()) return Raise(info.status());
  return Py_BuildValue("(KK)",
                       static_cast<unsigned long long>(info->free_bytes),
                       static_cast<unsigned long long>(info->total_bytes));
}

PyObject* Health(PyObject* self, PyObject*) {
  if (Self(self)->backend == nullptr) return NewRef(Py_None);
  const absl::Status status = Self(self)->device.Health();
  return status.ok() ? NewRef(Py_None) : MakeException(status);
}

PyObject* Reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(O)", g_device_type, Self(self)->name);
}

PyObject* CurrentStreamMethod(PyObject* self, PyObject*) {
  DeviceObject* device = Accelerator(self);
  if (device != nullptr) device = UsableDevice(device);
  return device != nullptr ? CurrentStreamObject(device) : nullptr;
}

PyObject* DefaultStreamMethod(PyObject* self, PyObject*) {
  DeviceObject* device = Accelerator(self);
  if (device != nullptr) device = UsableDevice(device);
  return device != nullptr ? DefaultStreamObject(device) : nullptr;
}

PyObject* GetBackendName(PyObject* self, void*) {
  if (Self(self)->backend == nullptr) return NewRef(Self(self)->name);
  const std::string& name = Self(self)->backend->backend.name();
  return PyUnicode_FromStringAndSize(name.data(),
                                     static_cast<Py_ssize_t>(name.size()));
}

PyObject* GetIndex(PyObject* self, void*) {
  if (Self(self)->backend == nullptr) return PyLong_FromLong(0);
  return PyLong_FromLong(Self(self)->device.index());
}

PyObject* GetName(PyObject* self, void*) { return NewRef(Self(self)->name); }

PyObject* GetDeviceType(PyObject* self, void*) {
  if (Self(self)->backend == nullptr) return PyLong_FromLong(0);  // CPU
  return PyLong_FromLong(Self(self)->backend->device_type);
}

PyMethodDef g_methods[] = {
    {"__enter__", Enter, METH_NOARGS, nullptr},
    {"__exit__", AsMethod(Exit), METH_FASTCALL, nullptr},
    {"__reduce__", Reduce, METH_NOARGS, nullptr},
    {"synchronize", Synchronize, METH_NOARGS,
     "synchronize($self, /)\n"
     "--\n\n"
     "Waits for all work on all streams of this device, of all threads, and\n"
     "for its functions of launch_host_func.\n\n"
     "Raises the error of earlier work, if any.  Ctrl-C ends the wait."},
    {"_wait_for_work", WaitForWork, METH_NOARGS,
     "_wait_for_work($self, /)\n"
     "--\n\n"
     "Waits as synchronize() does, but not for the functions of\n"
     "launch_host_func."},
    {"memory_info", MemoryInformation, METH_NOARGS,
     "memory_info($self, /)\n--\n\n"
     "(free, total): bytes of the device's memory now, as the backend sees\n"
     "it."},
    {"health", Health, METH_NOARGS,
     "health($self, /)\n"
     "--\n\n"
     "Returns None, or the error that ended this device.  Asks nothing of the\n"
     "driver."},
    {"current_stream", CurrentStreamMethod, METH_NOARGS,
     "current_stream($self, /)\n"
     "--\n\n"
     "Returns the calling thread's current stream of this device."},
    {"default_stream", DefaultStreamMethod, METH_NOARGS,
     "default_stream($self, /)\n"
     "--\n\n"
     "Returns this device's default stream, id 0."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef g_getters[] = {
    Getter("name", GetName, "\"mtia:1\"; devrt.device(name) is this device."),
    Getter("backend", GetBackendName, "Name of the backend, \"mtia\"."),
    Getter("type", GetBackendName, "As backend."),
    Getter("index", GetIndex, "Index of the device within its backend."),
    Getter("device_type", GetDeviceType, "A devrt.DeviceType, as int."),
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

constexpr char kDoc[] =
    "Device(device, index=None)\n"
    "--\n\n"
    "One device of a backend, and the context in which it is current.\n\n"
    "    with devrt.device('mtia:1'):\n"
    "        ...           # mtia:1 is current in this thread\n\n"
    "'mtia:1' is device 1 of backend mtia, 'mtia' the thread's current device\n"
    "of that backend, and a number is a device of the active backend.\n"
    "('mtia', 1) is 'mtia:1'.  There is one object for each device, and it\n"
    "equals its name: x.device == 'mtia:1'.\n\n"
    "'cpu' is the host, where arrays can be but where nothing is computed: it\n"
    "has no streams and cannot be entered.\n\n"
    "Contexts can be nested, and entered by many threads at once.  Leaving\n"
    "restores what was current before, also devices of other libraries.  A\n"
    "device is also a decorator.\n\n"
    "Raises InvalidArgumentError for wrong names and numbers, Error for a\n"
    "backend that does not exist, and TypeError for anything else.";

PyType_Slot g_slots[] = {{Py_tp_new, AsSlot(New)},
                         {Py_tp_repr, AsSlot(Repr)},
                         {Py_tp_str, AsSlot(Str)},
                         {Py_tp_call, AsSlot(Decorate)},
                         {Py_tp_hash, AsSlot(Hash)},
                         {Py_tp_richcompare, AsSlot(Compare)},
                         {Py_tp_methods, g_methods},
                         {Py_tp_getset, g_getters},
                         {Py_tp_doc, const_cast<char*>(kDoc)},
                         {0, nullptr}};

PyType_Spec g_spec = {"devrt.Device", sizeof(DeviceObject), 0,
                      Py_TPFLAGS_DEFAULT, g_slots};

}  // namespace

bool AddDeviceType(PyObject* module) {
  PyObject* type = PyType_FromSpec(&g_spec);
  if (type == nullptr) return false;
  g_device_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObject(module, "Device", NewRef(type)) == 0;
}

}  // namespace devrt::python
