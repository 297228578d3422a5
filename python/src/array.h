// SPDX-License-Identifier: Apache-2.0
//
// The type devrt.Array, and what its files share.
//
// An object holds an Array of the library, nothing else: views are new objects
// over the same memory.  The functions need the GIL; calls of the library that
// can reach a driver go through WithoutLock.

#ifndef DEVRT_PYTHON_SRC_ARRAY_H_
#define DEVRT_PYTHON_SRC_ARRAY_H_

#include <optional>
#include <utility>
#include <vector>

#include "devrt/arrays/array.h"
#include "devrt/arrays/place.h"
#include "devrt/arrays/scalar.h"
#include "python/src/device.h"
#include "python/src/dtype.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/number.h"
#include "python/src/python.h"

namespace devrt::python {

struct ArrayObject {
  PyObject_HEAD                   // NOLINT
      PyObject* weak_references;  // first: see kWeakReferences
  // What __cuda_array_interface__ named last; null: none that can end.
  PyObject* exported_stream;
  PyObject* owner;  // see array_owner.h; null: no object of Python's
  int cai_version;  // 0: as the thread and the process have it
  bool mapped;      // pinned memory that is offered to kernels
  // Borrowed memory whose owner is let go with the GIL, if devrt used it not.
  bool ends_with_lock;
  Array array;
};

extern PyTypeObject* g_array_type;

// Makes the types and adds them and their functions; false with an exception.
bool AddArrays(PyObject* module);

inline bool IsArray(PyObject* object) {
  return Py_TYPE(object) == g_array_type;
}
inline ArrayObject* AsArray(PyObject* object) {
  return reinterpret_cast<ArrayObject*>(object);
}
inline const Array& ArrayOf(PyObject* object) { return AsArray(object)->array; }

// A new object; null with an exception.
PyObject* WrapArray(Array&& array);
// The same, or the exception of the status.
PyObject* WrapArray(absl::StatusOr<Array>&& array);
// The same for a view of the array `of`, which is mapped where that is.
PyObject* WrapView(PyObject* of, absl::StatusOr<Array>&& view);

// The object of an array that is made later.  What gives the array, as a tensor
// that is taken, can no longer be undone then, so that memory for the object is
// found before.
class ReservedObject {
 public:
  ReservedObject();
  ReservedObject(const ReservedObject&) = delete;
  ReservedObject& operator=(const ReservedObject&) = delete;
  ~ReservedObject();

  // False: there is no memory, and a MemoryError is raised.
  explicit operator bool() const { return object_ != nullptr; }
  // A new reference; never null.  Call it once at most.
  PyObject* Fill(Array&& array);

 private:
  PyObject* object_;
};

// Raises the error of an exchange with another library: what Raise does, but
// BufferError, CopyRequiredError and AttributeError where those are meant.
PyObject* RaiseExchange(const absl::Status& status);
// Raises an exception of that type with the status's text; returns null.
PyObject* RaiseAs(PyObject* type, const absl::Status& status);
// As RaiseExchange where memory is given away: BufferError also for what a
// capture does not allow (E64).
PyObject* RaiseExport(const absl::Status& status);

// Ends arrays, of which this is the storage, without the GIL: their memory may
// go back to a driver, or to another library, whose code then runs.  What is
// raised stays raised.
void DropUnlocked(std::shared_ptr<internal::Storage> storage);

// ---- Arguments --------------------------------------------------------------

// An int or a sequence of ints; false with a TypeError or a ValueError.
bool ParseShape(PyObject* object, const char* what, Dims* shape);
PyObject* DimsToTuple(DimSpan dims);
// The numbers as axes where there are `ndim` of them; false with an AxisError.
bool ToAxes(const Dims& numbers, int ndim, std::vector<int>* axes);

// Where: `device` as of devrt.device, or "cpu", or null and None for the
// current device; `pinned`: page-locked host memory for that device.
std::optional<Place> ParsePlace(PyObject* device, bool pinned);

// ---- Other things -----------------------------------------------------------

// Waits for all uses of the memory, where Ctrl-C can end the wait.  False with
// an exception.
bool WaitUntilReady(const Array& array);

// The same before a call that waits for the array, where Ctrl-C could not end
// that wait; whatever is wrong the call says.  For memory of a device, which
// the call copies from or to, also WaitForCurrentStream.  False with the
// exception of a handler of signals.
bool WaitBefore(const Array& array);

// The same for all that the current stream of a device was given: a copy that
// waits comes behind that.  True at once for host memory.
bool WaitForCurrentStream(const Place& place);

// The same before the elements of `array` are set to a number, which the host
// does where it is host memory.
bool WaitBeforeFill(const Array& array);

// The same before elements of `b` are copied to `a`, or compared with them,
// where one of them is host memory; `pinned_too`: not only plain.
bool WaitBefore(const Array& a, const Array& b, bool pinned_too = true);

// What arrays can be made of without a copy: sharing another library's memory,
// or `fresh` if it had to be copied.  nullopt with an exception.  `dtype`: what
// it is going to be; numbers become that at once, and what it cannot hold is an
// exception.
struct Source {
  Source(Array&& made, bool is_fresh)
      : array(std::move(made)), fresh(is_fresh) {}
  Source(Source&&) = default;
  Source& operator=(Source&&) = delete;
  ~Source() {
    if (array.storage().use_count() == 1) DropUnlocked(array.TakeStorage());
  }

  Array array;
  bool fresh;
};
std::optional<Source> ToSource(PyObject* object,
                               std::optional<DType> dtype = std::nullopt);

// A number, list or tuple of numbers, nested; on the host.  nullopt with an
// exception.
std::optional<Array> FromSequence(PyObject* object, std::optional<DType> dtype);

// The memory of an object with the buffer protocol.
std::optional<Array> FromBuffer(PyObject* object);

// The memory that a dict of __cuda_array_interface__ describes, kept by
// `owner`.
std::optional<Array> FromCai(PyObject* description, PyObject* owner);

// An object of the module devrt._numpy, which is imported at the first call:
// new reference, or null with an exception.
PyObject* NumpyHelper(const char* name);

// devrt._core, borrowed.
extern PyObject* g_core_module;

// ---- The parts of the type --------------------------------------------------

// Tables of methods and attributes, each ended by a null name.
extern PyMethodDef g_array_view_methods[];
extern PyMethodDef g_array_copy_methods[];
extern PyMethodDef g_array_order_methods[];
extern PyMethodDef g_array_reduce_methods[];
extern PyMethodDef g_array_host_methods[];
extern PyMethodDef g_array_cai_methods[];
extern PyGetSetDef g_array_getters[];
extern PyGetSetDef g_array_host_getters[];
extern PyGetSetDef g_array_cai_getters[];
// Slots, ended by a 0.
extern PyType_Slot g_array_operator_slots[];
extern PyType_Slot g_array_index_slots[];
extern PyType_Slot g_array_host_slots[];
// Functions of the module.
extern PyMethodDef g_array_create_functions[];
extern PyMethodDef g_array_from_functions[];
extern PyMethodDef g_array_operation_functions[];
extern PyMethodDef g_array_cai_functions[];

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_ARRAY_H_
