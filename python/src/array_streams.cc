// SPDX-License-Identifier: Apache-2.0
//
// Methods of devrt.Array about the streams that use its memory.

#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/stream.h"

namespace devrt::python {
namespace {

PyObject* RecordStream(PyObject* self, PyObject* value) {
  const Ref stream(ParseStream(value));
  if (!stream) return nullptr;
  const Array array = ArrayOf(self);
  const StreamRef ref = AsStream(stream.get())->ref;
  const SiteHere site;
  return NoneOrRaise(WithoutLock([&] { return array.RecordUse(ref, site); }));
}

PyObject* RecordUse(PyObject* self, PyObject* const* args, Py_ssize_t count,
                    PyObject* names) {
  static const Parameters kParameters = {
      "record_use", 0, 1, 2, {"stream", "writes"}};
  PyObject* values[2];
  bool writes = true;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ToBool(values[1], "writes", &writes)) {
    return nullptr;
  }
  const Ref stream(ParseStream(values[0]));
  if (!stream) return nullptr;
  const Array array = ArrayOf(self);
  const StreamRef ref = AsStream(stream.get())->ref;
  const SiteHere site;
  return NoneOrRaise(
      WithoutLock([&] { return array.NoteUse(ref, writes, site); }));
}

PyObject* OrderBefore(PyObject* self, PyObject* const* args, Py_ssize_t count,
                      PyObject* names) {
  static const Parameters kParameters = {"order_before", 0, 1, 1, {"stream"}};
  PyObject* value;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     &value)) {
    return nullptr;
  }
  const Ref stream(ParseStream(value));
  if (!stream) return nullptr;
  const Array array = ArrayOf(self);
  const StreamRef ref = AsStream(stream.get())->ref;
  const SiteHere site;
  return NoneOrRaise(WithoutLock([&] { return array.OrderBefore(ref, site); }));
}

PyObject* Ready(PyObject* self, PyObject*) {
  const Array array = ArrayOf(self);
  return WaitUntilReady(array) ? NewRef(Py_None) : nullptr;
}

PyObject* IsReady(PyObject* self, PyObject*) {
  const Array array = ArrayOf(self);
  const SiteHere site;
  const auto ready = WithoutLock([&] { return array.IsReady(site); });
  return ready.ok() ? PyBool_FromLong(*ready) : Raise(ready.status());
}

PyObject* SetDeallocationStream(PyObject* self, PyObject* value) {
  const Ref stream(ParseStream(value));
  if (!stream) return nullptr;
  const Array array = ArrayOf(self);
  const StreamRef ref = AsStream(stream.get())->ref;
  return NoneOrRaise(
      WithoutLock([&] { return array.SetDeallocationStream(ref); }));
}

}  // namespace

PyMethodDef g_array_stream_methods[] = {
    {"record_stream", RecordStream, METH_O,
     "record_stream($self, stream, /)\n"
     "--\n\n"
     "Declares that work which devrt does not enqueue uses the memory on\n"
     "`stream`: all work that gets there before the last array over the "
     "memory\n"
     "ends."},
    {"record_use", AsMethod(RecordUse), METH_FASTCALL | METH_KEYWORDS,
     "record_use($self, /, stream=None, *, writes=True)\n"
     "--\n\n"
     "Declares that work which devrt did not enqueue uses the memory on\n"
     "`stream`: the work that is there now.  Later operations of devrt come\n"
     "after it."},
    {"order_before", AsMethod(OrderBefore), METH_FASTCALL | METH_KEYWORDS,
     "order_before($self, /, stream=None)\n"
     "--\n\n"
     "Orders work that `stream` gets from now on after all uses of the memory\n"
     "so far.  Does not wait."},
    {"ready", Ready, METH_NOARGS,
     "ready($self, /)\n"
     "--\n\n"
     "Waits for all uses of the memory that devrt knows of, and for nothing\n"
     "else.\n\n"
     "The work of a DLPack consumer is known from when the consumer releases\n"
     "the memory.  Raises the error of that work, if any.  Ctrl-C ends the\n"
     "wait."},
    {"synchronize", Ready, METH_NOARGS,
     "synchronize($self, /)\n"
     "--\n\n"
     "As ready()."},
    {"is_ready", IsReady, METH_NOARGS,
     "is_ready($self, /)\n"
     "--\n\n"
     "Returns True if no use of the memory is pending that ready() would wait\n"
     "for."},
    {"set_deallocation_stream", SetDeallocationStream, METH_O,
     "set_deallocation_stream($self, stream, /)\n"
     "--\n\n"
     "Sets the stream in whose order the memory will be freed, whichever\n"
     "stream is current then.\n\n"
     "If `stream` has ended by then, the memory is freed after all work that\n"
     "it had got.  Raises ValueError for a stream of another device."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace devrt::python
