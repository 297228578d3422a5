// SPDX-License-Identifier: Apache-2.0
//
// The type devrt.Array.

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "arrays/storage/storage.h"
#include "python/src/array.h"
#include "python/src/array_owner.h"
#include "python/src/call_site.h"
#include "python/src/stream.h"

namespace devrt::python {

PyTypeObject* g_array_type = nullptr;
PyObject* g_core_module = nullptr;

namespace {

// Memory of ended ArrayObjects, reused for new ones.
constexpr size_t kKept = 8;
PyObject* g_kept[kKept];
size_t g_kept_count = 0;

// Returns an object that the cycle collector does not track yet.
PyObject* NewObject() {
  PyObject* const object =
      g_kept_count != 0 ? PyObject_Init(g_kept[--g_kept_count], g_array_type)
                        : reinterpret_cast<PyObject*>(
                              PyObject_GC_New(ArrayObject, g_array_type));
  if (object == nullptr) return nullptr;
  AsArray(object)->weak_references = nullptr;
  AsArray(object)->exported_stream = nullptr;
  AsArray(object)->owner = nullptr;
  AsArray(object)->cai_version = 0;
  AsArray(object)->mapped = false;
  AsArray(object)->ends_with_lock = false;
  return object;
}

void FreeObject(PyTypeObject* type, PyObject* object) {
  if (g_kept_count < kKept) {
    g_kept[g_kept_count++] = object;
  } else {
    type->tp_free(object);
  }
}

// Gives a new object its array and `owner`, whose reference it takes.  `owner`
// may be null.
void Fill(PyObject* object, Array&& array, PyObject* owner) {
  new (&AsArray(object)->array) Array(std::move(array));
  if (owner == nullptr) return;
  AsArray(object)->owner = owner;
  PyObject_GC_Track(object);
}

// Calls Storage::EndUnused, which runs code of another library.
bool EndUnused(internal::Storage* storage) {
  const KeepException keep;
  return storage->EndUnused();
}

// The object ends before its memory is released (E25).
void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (AsArray(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  Py_XDECREF(AsArray(self)->owner);
  std::shared_ptr<internal::Storage> storage =
      AsArray(self)->array.TakeStorage();
  AsArray(self)->array.~Array();
  PyObject* stream = AsArray(self)->exported_stream;
  const bool with_lock = AsArray(self)->ends_with_lock;
  FreeObject(type, self);
  Py_DECREF(type);
  // If devrt enqueued no work on the memory, only the owner ends here, with the
  // GIL (decision 16).
  if (!with_lock || storage.use_count() != 1 || !EndUnused(storage.get())) {
    DropUnlocked(std::move(storage));
  }
  Py_XDECREF(stream);
}

// The collector tracks only arrays over memory of a Python object.
int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(AsArray(self)->owner);
  Py_VISIT(AsArray(self)->exported_stream);
  return 0;
}

PyObject* New(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "arrays are made by devrt.empty, zeros, array, asarray, "
                  "from_dlpack, from_pointer and others");
  return nullptr;
}

PyObject* Repr(PyObject* self) {
  const Array array = ArrayOf(self);
  // Printing reads the values, which may wait.
  if (!WaitUntilReady(array)) {
    if (!PyErr_ExceptionMatches(g_exceptions.error)) return nullptr;
    PyErr_Clear();  // the text says so
  }
  if (!WaitForCurrentStream(array.place())) return nullptr;
  Array::TextOptions options;
  const SiteHere site;
  options.site = site;
  const std::string text = WithoutLock([&] { return array.ToString(options); });
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()),
                              "replace");
}

Py_ssize_t Length(PyObject* self) {
  const Array& array = ArrayOf(self);
  if (array.ndim() != 0) return static_cast<Py_ssize_t>(array.shape()[0]);
  PyErr_SetString(PyExc_TypeError, "a 0-d array has no len()");
  return -1;
}

// ---- What it is -------------------------------------------------------------

PyObject* GetShape(PyObject* self, void*) {
  return DimsToTuple(ArrayOf(self).shape());
}

PyObject* GetStrides(PyObject* self, void*) {
  return DimsToTuple(ArrayOf(self).strides());
}

PyObject* GetDType(PyObject* self, void*) {
  return WrapDType(ArrayOf(self).dtype());
}

PyObject* GetNdim(PyObject* self, void*) {
  return PyLong_FromLong(ArrayOf(self).ndim());
}

PyObject* GetSize(PyObject* self, void*) {
  return PyLong_FromLongLong(ArrayOf(self).size());
}

PyObject* GetItemSize(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(ArrayOf(self).item_size());
}

PyObject* GetBytes(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(ArrayOf(self).nbytes());
}

PyObject* GetPointer(PyObject* self, void*) {
  return PyLong_FromVoidPtr(ArrayOf(self).data());
}

PyObject* GetStoragePointer(PyObject* self, void*) {
  return PyLong_FromVoidPtr(ArrayOf(self).storage()->base());
}

PyObject* GetDevice(PyObject* self, void*) {
  const Place place = ArrayOf(self).place();
  const bool on_host =
      place.kind() == MemoryKind::kHost || place.kind() == MemoryKind::kPinned;
  DeviceObject* device = on_host ? HostDevice() : WrapDevice(*place.device());
  return device != nullptr ? NewRef(device) : nullptr;
}

PyObject* GetPlace(PyObject* self, void*) {
  const std::string name = ArrayOf(self).place().name();
  return PyUnicode_FromStringAndSize(name.data(),
                                     static_cast<Py_ssize_t>(name.size()));
}

PyObject* GetContiguous(PyObject* self, void*) {
  return PyBool_FromLong(ArrayOf(self).IsContiguous());
}

PyObject* GetReadOnly(PyObject* self, void*) {
  return PyBool_FromLong(ArrayOf(self).read_only());
}

PyObject* GetTranspose(PyObject* self, void*) {
  return WrapView(self, ArrayOf(self).Transpose());
}

PyObject* GetHomeStream(PyObject* self, void*) {
  const auto stream = ArrayOf(self).home_stream();
  return stream.has_value() ? WrapStream(*stream) : NewRef(Py_None);
}

// ---- Putting the parts together ---------------------------------------------

constexpr char kDoc[] =
    "A shape, strides and a dtype over reference-counted memory, on a device\n"
    "or the host.\n\n"
    "    with devrt.device('mtia:1'):\n"
    "        x = devrt.full((4, 3), 1.0, devrt.float32)\n"
    "    y = x[:, 2] + 0.5              # runs on mtia:1, whatever is current\n"
    "    y.tolist()                     # [1.5, 1.5, 1.5, 1.5]\n\n"
    "Arrays are made by devrt.empty, zeros, ones, full, arange, array,\n"
    "asarray, from_dlpack, from_cuda_array_interface and from_pointer.\n\n"
    "Order.  Every operation runs on the current stream of the data's device,\n"
    "after the pending uses of its operands on other streams.  A call waits\n"
    "only if its text says so.  Memory is freed in the order of the stream\n"
    "that it was allocated on, when the last array over it ends.\n\n"
    "Views (indexing, transpose, reshape, ...) share memory.  Strides are in\n"
    "bytes.  Operators broadcast and promote by NumPy's rules. == compares\n"
    "elements, so arrays are not hashable.  Comparisons with lists, tuples\n"
    "and ranges raise TypeError; other objects that are neither arrays nor\n"
    "numbers are unequal.  A host ndarray is never moved to a device by\n"
    "itself: devrt.array(a) does that.  NumPy's functions, numpy.sum(x) for\n"
    "example, work if devrt has the operation.  A 0-d array is formatted as\n"
    "its number.\n\n"
    "Other libraries take arrays without a copy through DLPack,\n"
    "__cuda_array_interface__ and, for host memory, the buffer protocol.\n\n"
    "Any number of threads may use one array.  Their operations on one block\n"
    "of memory run in the order of the calls.";

PyMemberDef g_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, kWeakReferences, READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyObject* Reduce(PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "a devrt.Array cannot be pickled: pickle x.numpy() and make "
                  "an array of it with devrt.array(...)");
  return nullptr;
}

// An array without axes is formatted as its number, as in NumPy.
PyObject* Format(PyObject* self, PyObject* spec) {
  if (!PyUnicode_Check(spec)) {
    PyErr_Format(PyExc_TypeError, "__format__() needs a str, not %s",
                 Py_TYPE(spec)->tp_name);
    return nullptr;
  }
  const int axes = ArrayOf(self).ndim();
  if (axes == 0) {
    const Ref number(PyObject_CallMethod(self, "item", nullptr));
    return number ? PyObject_Format(number.get(), spec) : nullptr;
  }
  if (PyUnicode_GET_LENGTH(spec) == 0) return PyObject_Str(self);
  PyErr_Format(PyExc_TypeError,
               "format %R is one of numbers, and only 0-d arrays are formatted "
               "as their number; this one has %d axes: x.item() is the only "
               "element's, x.numpy() and x.tolist() have all",
               spec, axes);
  return nullptr;
}

PyMethodDef g_own_methods[] = {{"__format__", Format, METH_O, nullptr},
                               {"__reduce__", Reduce, METH_NOARGS, nullptr},
                               {"__reduce_ex__", Reduce, METH_O, nullptr},
                               {nullptr, nullptr, 0, nullptr}};

void Append(std::vector<PyMethodDef>* to, const PyMethodDef* table) {
  for (; table->ml_name != nullptr; ++table) to->push_back(*table);
}

void Append(std::vector<PyGetSetDef>* to, const PyGetSetDef* table) {
  for (; table->name != nullptr; ++table) to->push_back(*table);
}

PyObject* MakeType() {
  // Types keep pointers to their tables, so the tables live for ever.
  static auto* methods = new std::vector<PyMethodDef>;
  static auto* getters = new std::vector<PyGetSetDef>;
  for (const PyMethodDef* table :
       {g_own_methods, g_array_view_methods, g_array_copy_methods,
        g_array_stream_methods, g_array_reduce_methods, g_array_host_methods,
        g_array_cai_methods}) {
    Append(methods, table);
  }
  for (const PyGetSetDef* table :
       {g_array_getters, g_array_host_getters, g_array_cai_getters}) {
    Append(getters, table);
  }
  methods->push_back({nullptr, nullptr, 0, nullptr});
  getters->push_back({nullptr, nullptr, nullptr, nullptr, nullptr});
  std::vector<PyType_Slot> slots = {
      {Py_tp_new, AsSlot(New)},
      {Py_tp_dealloc, AsSlot(Dealloc)},
      {Py_tp_traverse, AsSlot(Traverse)},
      {Py_tp_repr, AsSlot(Repr)},
      {Py_tp_hash, AsSlot(PyObject_HashNotImplemented)},
      {Py_sq_length, AsSlot(Length)},
      {Py_mp_length, AsSlot(Length)},
      {Py_tp_methods, methods->data()},
      {Py_tp_getset, getters->data()},
      {Py_tp_members, g_members},
      {Py_tp_doc, const_cast<char*>(kDoc)}};
  for (const PyType_Slot* table :
       {g_array_operator_slots, g_array_index_slots, g_array_host_slots}) {
    for (; table->slot != 0; ++table) slots.push_back(*table);
  }
  slots.push_back({0, nullptr});
  PyType_Spec spec = {"devrt.Array", sizeof(ArrayObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots.data()};
  return PyType_FromSpec(&spec);
}

}  // namespace

PyGetSetDef g_array_getters[] = {
    Getter("shape", GetShape, "Extents, a tuple of int."),
    Getter("strides", GetStrides,
           "Bytes from one element to the next along each axis: 0 for a "
           "broadcast\n"
           "axis, negative for a reversed one."),
    Getter("dtype", GetDType, "The devrt.DType of the elements."),
    Getter("ndim", GetNdim, "Number of axes, at most 32."),
    Getter("size", GetSize, "Number of elements."),
    Getter("itemsize", GetItemSize, "Bytes of an element."),
    Getter("nbytes", GetBytes, "Bytes of all elements: size * itemsize."),
    Getter(
        "ptr", GetPointer,
        "Address of the first element on its device, or 0 without elements."),
    Getter("storage_ptr", GetStoragePointer,
           "Address of the memory of which this array is a view."),
    Getter("device", GetDevice,
           "The devrt.Device of the memory.  For host memory, also pinned "
           "memory, it\n"
           "is the host's, == 'cpu'."),
    Getter(
        "place", GetPlace,
        "'mtia:1', 'pinned memory of mtia:1', 'managed memory of cuda:0' or\n"
        "'cpu'."),
    Getter("is_contiguous", GetContiguous,
           "True if the elements are in C order without gaps."),
    Getter("read_only", GetReadOnly, "True if writes are refused."),
    Getter("T", GetTranspose, "A view with the axes in reverse order."),
    Getter(
        "home_stream", GetHomeStream,
        "The stream that the memory was allocated or imported on.  None for\n"
        "pinned and pageable host memory, and for from_pointer without a "
        "stream."),
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

void DropUnlocked(std::shared_ptr<internal::Storage> storage) {
  if (storage == nullptr) return;
  const SiteHere site;  // storages end at this line
  // EndPlainly returns memory without a driver call, so the GIL stays (E22).
  // With other holders the long path follows, since they may end first.
  if (storage.use_count() == 1 && storage->EndPlainly()) return;
  // Another library's deleter may run Python code, which fails while an
  // exception is set.
  const KeepException keep;
  const Unlocked unlocked;
  storage.reset();
}

PyObject* WrapArray(Array&& array) {
  PyObject* owner = nullptr;
  PyObject* object = FindOwnerLink(array, &owner) ? NewObject() : nullptr;
  if (object == nullptr) {
    Py_XDECREF(owner);
    DropUnlocked(array.TakeStorage());
    return nullptr;
  }
  Fill(object, std::move(array), owner);
  return object;
}

ReservedObject::ReservedObject() : object_(NewObject()) {}

ReservedObject::~ReservedObject() {
  if (object_ == nullptr) return;
  PyTypeObject* const type = Py_TYPE(object_);
  FreeObject(type, object_);
  Py_DECREF(type);
}

PyObject* ReservedObject::Fill(Array&& array) {
  PyObject* owner = nullptr;
  // Without the link, the collector cannot see the owner; all else works.
  if (!FindOwnerLink(array, &owner)) PyErr_Clear();
  python::Fill(object_, std::move(array), owner);
  return std::exchange(object_, nullptr);
}

PyObject* WrapArray(absl::StatusOr<Array>&& array) {
  if (__builtin_expect(!array.ok(), 0)) return Raise(array.status());
  return WrapArray(*std::move(array));
}

PyObject* WrapView(PyObject* of, absl::StatusOr<Array>&& view) {
  PyObject* object = WrapArray(std::move(view));
  if (object != nullptr) AsArray(object)->mapped = AsArray(of)->mapped;
  return object;
}

bool AddArrays(PyObject* module) {
  g_core_module = module;
  if (!AddDTypes(module) || !AddOwnerLinks()) return false;
  PyObject* type = MakeType();
  if (type == nullptr) return false;
  g_array_type = reinterpret_cast<PyTypeObject*>(type);
  for (PyMethodDef* table :
       {g_array_create_functions, g_array_from_functions,
        g_array_operation_functions, g_array_cai_functions}) {
    if (PyModule_AddFunctions(module, table) != 0) return false;
  }
  const Ref priority(PyLong_FromLong(100));
  return priority &&
         PyObject_SetAttrString(type, "__array_priority__", priority.get()) ==
             0 &&
         PyModule_AddObject(module, "Array", NewRef(type)) == 0;
}

}  // namespace devrt::python
