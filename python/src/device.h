// SPDX-License-Identifier: Apache-2.0
//
// The type devrt.Device: one object per device, alive as long as the process,
// and one for the host, "cpu", which arrays in host memory are on.
//
// Everything here needs the GIL unless it says otherwise.

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
  BackendEntry* backend;     // null: the host, which is no accelerator
  PyObject* name;            // "mtia:1"
  PyObject* default_stream;  // null until somebody asks for it
  uint32_t index;            // dense over all devices of the process
  bool entered;              // its context exists
};

// An opened backend.
struct BackendEntry {
  Backend backend;
  std::vector<DeviceObject*> devices;  // by ordinal
  int device_type;                     // a DeviceType of devrt._types
  bool simulator;
  bool has_cuda_streams;
};

extern PyTypeObject* g_device_type;

// Makes the type and adds it; false with an exception.
bool AddDeviceType(PyObject* module);

inline bool IsDevice(PyObject* object) {
  return Py_TYPE(object) == g_device_type;
}

// The object of a device.  Null with an exception.
DeviceObject* WrapDevice(Device device);

// The object of the host, "cpu", borrowed.  Null with an exception.
DeviceObject* HostDevice();
// Whether a program means the host: that object, or "cpu".
bool IsHostDevice(PyObject* object);
// Raises that an accelerator is expected; `backend` null: of any backend.
void RaiseNoAccelerator(std::string_view name, const BackendEntry* backend);

// The opened backend of that name; asks the finder for third-party ones.  Null
// with an exception, also in a forked child.
BackendEntry* OpenBackend(std::string_view name);
BackendEntry* WrapBackend(Backend backend);
// Those that OpenBackend and WrapBackend have returned.
const std::vector<BackendEntry*>& OpenedBackends();

// The backend that names without one mean: the one whose device or stream this
// thread has made current last, at first the first that has devices.  Null with
// an exception.
BackendEntry* ActiveBackend();

// This thread's current device.  Null with an exception.
DeviceObject* CurrentDeviceOf(BackendEntry* backend);
DeviceObject* CurrentDeviceObject();

// What a program gave as device: a Device, "mtia:1", "mtia", an index of
// `backend` (null: the active one), None or null for the current one.  Null
// with an exception, also in a forked child (C105).
DeviceObject* ParseDevice(PyObject* object, BackendEntry* backend = nullptr);

// The device itself; null with an exception in a forked child, where objects of
// the parent's devices still exist.
DeviceObject* UsableDevice(DeviceObject* device);

// For functions that nanobind calls: the same as ParseDevice; throws.
Device DeviceOf(PyObject* object);

// Whether the backend simulates in virtual time, where the device moves only
// while host threads wait for it.  Any thread.
bool IsVirtual(const BackendEntry& backend);

// Who wants to know which line of the program a call came from.  To find it
// takes longer than most calls do.
enum class SiteReader : uint32_t {
  kTimeline = 1,       // of a simulator
  kMemoryHistory = 2,  // of any device
  kLayers = 4,         // such as trace
};
extern uint32_t g_site_readers;  // bits of those that there are
void SetSiteReader(SiteReader reader, bool reads);

// The line of the program that has made the call; {} where nobody reads it.
// Storages that the thread ends in the scope end there, too.
class SiteHere {
 public:
  SiteHere() {
    if (__builtin_expect(g_site_readers != 0, 0)) Find();
  }
  SiteHere(const SiteHere&) = delete;
  SiteHere& operator=(const SiteHere&) = delete;
  ~SiteHere() {
    if (__builtin_expect(site_.file != nullptr, 0)) Leave();
  }
  operator CallSite() const { return site_; }  // NOLINT: its only meaning

 private:
  void Find();
  void Leave();

  CallSite site_{};
  CallSite former_{};  // where storages ended outside of the scope
};

// The callable that finds backends by entry points; see devrt/_backends.py.
void SetBackendFinder(PyObject* finder);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DEVICE_H_
