// SPDX-License-Identifier: Apache-2.0
//
// The type devrt.Device: one object for each device, and one for the host,
// "cpu", where arrays in host memory are.  The objects live as long as the
// process.
//
// Everything here needs the GIL, and returns null or false with an exception
// set on failure, unless it says otherwise.

#ifndef DEVRT_PYTHON_SRC_DEVICE_H_
#define DEVRT_PYTHON_SRC_DEVICE_H_

#include <string>
#include <string_view>
#include <vector>

#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "python/src/python.h"

namespace devrt::python {

struct BackendEntry;

struct DeviceObject {
  PyObject_HEAD  // NOLINT
      Device device;
  BackendEntry* backend;     // null for the host
  PyObject* name;            // "mtia:1"
  PyObject* default_stream;  // null until first asked for
  uint32_t index;            // counts all devices of the process
  bool entered;              // its context exists
};

// A backend that was opened.
struct BackendEntry {
  Backend backend;
  std::vector<DeviceObject*> devices;  // by ordinal
  int device_type;                     // a DeviceType of devrt._types
  bool simulator;
  bool has_cuda_streams;
};

extern PyTypeObject* g_device_type;

// Makes the type and adds it to the module.
bool AddDeviceType(PyObject* module);

inline bool IsDevice(PyObject* object) {
  return Py_TYPE(object) == g_device_type;
}

// Returns the object of a device, borrowed.
DeviceObject* WrapDevice(Device device);

// Returns the object of the host, borrowed.
DeviceObject* HostDevice();
// Returns true if `object` is the host's object or the text "cpu".
bool IsHostDevice(PyObject* object);
// Raises that `name` is not an accelerator.  `backend` is the backend that was
// asked for, null for any.
void RaiseNoAccelerator(std::string_view name, const BackendEntry* backend);

// Returns the backend of that name and opens it if needed.  Asks the finder for
// plugins that are installed as Python packages.  Fails in a forked child too.
BackendEntry* OpenBackend(std::string_view name);
BackendEntry* WrapBackend(Backend backend);
// The backends that OpenBackend and WrapBackend have returned.
const std::vector<BackendEntry*>& OpenedBackends();

// Returns the backend of a device that is given as an index only: the backend
// whose device or stream this thread made current last, else the first backend
// that has devices.
BackendEntry* ActiveBackend();

// Returns this thread's current device of the backend, or of the active one.
DeviceObject* CurrentDeviceOf(BackendEntry* backend);
DeviceObject* CurrentDeviceObject();

// Reads a device: a Device, "mtia:1", "mtia", an index of `backend` (null: of
// the active one), or None or null for the current device.  Fails in a forked
// child too (C105).
DeviceObject* ParseDevice(PyObject* object, BackendEntry* backend = nullptr);

// Returns `device`.  Fails in a forked child, where objects of the parent's
// devices still exist.
DeviceObject* UsableDevice(DeviceObject* device);

// ParseDevice for functions that nanobind calls: throws on failure.
Device DeviceOf(PyObject* object);

// Returns true if the backend simulates in virtual time, where devices proceed
// only while host threads wait for them.  Needs no GIL.
bool IsVirtual(const BackendEntry& backend);

// Sets the callable that finds backends by entry points: see
// devrt/_backends.py.
void SetBackendFinder(PyObject* finder);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DEVICE_H_
