// SPDX-License-Identifier: Apache-2.0
//
// The type devrt.Array, and what its files share.
//
// An ArrayObject holds an Array of the library and nothing else: views are new
// objects over one block of memory.  The functions need the GIL.  They make
// calls that can reach a driver through WithoutLock.  On failure they return
// false, null or nullopt with an exception set, unless they say otherwise.

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
  // The stream that __cuda_array_interface__ named last.  Null if that stream
  // cannot end.
  PyObject* exported_stream;
  PyObject* owner;  // see array_owner.h; null if no Python object owns it
  int cai_version;  // 0: as set for the thread or the process
  bool mapped;      // pinned memory that is offered to kernels
  // True if devrt has to release the owner of this borrowed memory with the GIL
  // held.  Applies only if devrt enqueued no work on the memory.
  bool ends_with_lock;
  Array array;
};

extern PyTypeObject* g_array_type;

// Makes the types, and adds them and their functions to the module.
bool AddArrays(PyObject* module);

inline bool IsArray(PyObject* object) {
  return Py_TYPE(object) == g_array_type;
}
inline ArrayObject* AsArray(PyObject* object) {
  return reinterpret_cast<ArrayObject*>(object);
}
inline const Array& ArrayOf(PyObject* object) { return AsArray(object)->array; }

// Makes a new object for the array.
PyObject* WrapArray(Array&& array);
// Makes a new object, or raises the exception for the status.
PyObject* WrapArray(absl::StatusOr<Array>&& array);
// Does so for a view of the array `of`.  The view is mapped if `of` is.
PyObject* WrapView(PyObject* of, absl::StatusOr<Array>&& view);

// Memory for an ArrayObject, found before its array exists.  Some steps cannot
// be undone, such as taking a tensor out of a capsule, so no allocation may
// fail after them.
class ReservedObject {
 public:
  ReservedObject();
  ReservedObject(const ReservedObject&) = delete;
  ReservedObject& operator=(const ReservedObject&) = delete;
  ~ReservedObject();

  // False if there was no memory.  A MemoryError is set then.
  explicit operator bool() const { return object_ != nullptr; }
  // Returns a new reference, never null.  Call it at most once.
  PyObject* Fill(Array&& array);

 private:
  PyObject* object_;
};

// Raises the exception for a failed exchange with another library:
// BufferError, CopyRequiredError or AttributeError if the status carries such
// an ExchangeError, else the exception of Raise.  Returns null.
PyObject* RaiseExchange(const absl::Status& status);
// Raises an exception of class `type` with the text of the status.  Returns
// null.
PyObject* RaiseAs(PyObject* type, const absl::Status& status);
// Raises as RaiseExchange does, and BufferError too if a graph capture forbids
// the export (E64).  Returns null.
PyObject* RaiseExport(const absl::Status& status);

// Drops a reference to a storage without the GIL.  The last reference may
// return memory to a driver, or run a deleter of another library.  An exception
// that is set stays set.
void DropUnlocked(std::shared_ptr<internal::Storage> storage);

// ---- Arguments --------------------------------------------------------------

// Reads an int or a sequence of ints.  Raises TypeError or ValueError.
bool ParseShape(PyObject* object, const char* what, Dims* shape);
PyObject* DimsToTuple(DimSpan dims);
// Reads `numbers` as axes of an array with `ndim` axes.  Raises AxisError.
bool ToAxes(const Dims& numbers, int ndim, std::vector<int>* axes);

// Reads a place.  `device` is what devrt.device takes, or "cpu"; null and None
// mean the current device.  With `pinned`, the place is page-locked host memory
// for that device.
std::optional<Place> ParsePlace(PyObject* device, bool pinned);

// ---- Waits ------------------------------------------------------------------

// Waits for all uses of the memory.  Ctrl-C can end the wait.
bool WaitUntilReady(const Array& array);

// Waits ahead of a library call that would itself wait for the array, because
// Ctrl-C could not end that wait.  For device memory it also does
// WaitForCurrentStream, since the call copies on that stream.  Errors of devrt
// are cleared, as the call will report them.  Returns false if a signal handler
// raised.
bool WaitBefore(const Array& array);

// Waits for all work on the current stream of the place's device, because a
// blocking copy is enqueued behind that work.  Returns true at once for host
// memory.  Treats errors as WaitBefore does.
bool WaitForCurrentStream(const Place& place);

// WaitBefore a fill: the host writes host memory itself.  Returns true at once
// for device memory.
bool WaitBeforeFill(const Array& array);

// WaitBefore a copy from `b` to `a`, or a comparison of the two.  Waits only if
// one of them is pageable host memory or, with `pinned_too`, pinned.
bool WaitBefore(const Array& a, const Array& b, bool pinned_too = true);

// An array made from a program's object, by sharing another library's memory,
// or with `fresh` by a copy.  If `dtype` is given, numbers are converted to it
// at once, and a number that it cannot hold raises.
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

// Makes a host array of a number, or of nested lists or tuples of numbers.
std::optional<Array> FromSequence(PyObject* object, std::optional<DType> dtype);

// Shares the memory of an object with the buffer protocol.
std::optional<Array> FromBuffer(PyObject* object);

// Shares the memory that a dict of __cuda_array_interface__ describes, and
// keeps `owner` alive.
std::optional<Array> FromCai(PyObject* description, PyObject* owner);

// Returns an attribute of the module devrt._numpy, as a new reference.  The
// first call imports the module.
PyObject* NumpyHelper(const char* name);

// The module devrt._core, borrowed.
extern PyObject* g_core_module;

// ---- The parts of the type --------------------------------------------------

// Tables of methods and attributes, each ended by an entry with a null name.
extern PyMethodDef g_array_view_methods[];
extern PyMethodDef g_array_copy_methods[];
extern PyMethodDef g_array_stream_methods[];
extern PyMethodDef g_array_reduce_methods[];
extern PyMethodDef g_array_host_methods[];
extern PyMethodDef g_array_cai_methods[];
extern PyGetSetDef g_array_getters[];
extern PyGetSetDef g_array_host_getters[];
extern PyGetSetDef g_array_cai_getters[];
// Slots, ended by an entry with number 0.
extern PyType_Slot g_array_operator_slots[];
extern PyType_Slot g_array_index_slots[];
extern PyType_Slot g_array_host_slots[];
// Functions of the module, ended by an entry with a null name.
extern PyMethodDef g_array_create_functions[];
extern PyMethodDef g_array_from_functions[];
extern PyMethodDef g_array_operation_functions[];
extern PyMethodDef g_array_cai_functions[];

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_ARRAY_H_
