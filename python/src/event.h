// SPDX-License-Identifier: Apache-2.0
//
// The type devrt.Event.  The functions need the GIL.

#ifndef DEVRT_PYTHON_SRC_EVENT_H_
#define DEVRT_PYTHON_SRC_EVENT_H_

#include <optional>

#include "devrt/streams/event.h"
#include "python/src/device.h"
#include "python/src/python.h"
#include "python/src/stream.h"

namespace devrt::python {

struct EventObject {
  PyObject_HEAD                   // NOLINT
      PyObject* weak_references;  // first: see kWeakReferences
  DeviceObject* device;           // null until the first record
  EventOptions options;
  bool abandoned;              // a thread may still wait for it: never ended
  std::optional<Event> event;  // from the first record on
};

extern PyTypeObject* g_event_type;

bool AddEventType(PyObject* module);

inline bool IsEvent(PyObject* object) {
  return Py_TYPE(object) == g_event_type ||
         PyType_IsSubtype(Py_TYPE(object), g_event_type) != 0;
}
inline EventObject* AsEvent(PyObject* object) {
  return reinterpret_cast<EventObject*>(object);
}

// Makes a devrt.Event() with default options.  Returns null with an exception
// set on failure.
PyObject* NewEvent();

// Returns false with an exception set on failure.
bool RecordEvent(EventObject* event, StreamObject* stream);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_EVENT_H_
