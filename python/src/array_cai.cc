// SPDX-License-Identifier: Apache-2.0
//
// Exports and imports of __cuda_array_interface__ (E47, E13 to E15).

#include <string>
#include <utility>

#include "devrt/arrays/cuda_array_interface.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/exchange.h"
#include "devrt/runtime/raw_memory.h"
#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/dlpack.h"
#include "python/src/keep_current.h"
#include "python/src/owner.h"
#include "python/src/stream.h"

namespace devrt::python {
namespace {

// The version that this thread exports.  0: the process's setting.
thread_local int t_version = 0;

// Interned keys of the dict.
struct Keys {
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* typestr = PyUnicode_InternFromString("typestr");
  PyObject* data = PyUnicode_InternFromString("data");
  PyObject* strides = PyUnicode_InternFromString("strides");
  PyObject* version = PyUnicode_InternFromString("version");
  PyObject* stream = PyUnicode_InternFromString("stream");
};

const Keys& TheKeys() {
  static const Keys* keys = new Keys;
  return *keys;
}

bool Put(PyObject* dict, PyObject* key, PyObject* stolen) {
  const Ref value(stolen);
  return value && PyDict_SetItem(dict, key, value.get()) == 0;
}

PyObject* DataPair(const CudaArrayInterface& cai) {
  const Ref address(PyLong_FromUnsignedLongLong(cai.data));
  return address ? PyTuple_Pack(2, address.get(),
                                cai.read_only ? Py_True : Py_False)
                 : nullptr;
}

// Returns one cached object for each type string.
PyObject* TypeString(DType dtype) {
  static PyObject* made[32] = {};  // in the order of DType::All()
  const absl::Span<const DType> all = DType::All();
  size_t i = 0;
  while (all[i] != dtype) ++i;
  if (made[i] == nullptr) made[i] = PyUnicode_FromString(dtype.typestr());
  Py_XINCREF(made[i]);
  return made[i];
}

// Makes a dict with all keys of that version.  Every value but "version" is
// None.
PyObject* MakeTemplate(int64_t version) {
  const Keys& keys = TheKeys();
  Ref dict(PyDict_New());
  if (!dict) return nullptr;
  for (PyObject* key : {keys.shape, keys.typestr, keys.data, keys.strides}) {
    if (PyDict_SetItem(dict.get(), key, Py_None) != 0) return nullptr;
  }
  if (!Put(dict.get(), keys.version, PyLong_FromLongLong(version)) ||
      (version >= 3 && PyDict_SetItem(dict.get(), keys.stream, Py_None) != 0)) {
    return nullptr;
  }
  return dict.Release();
}

// Copies a template, which is one allocation: a dict that is filled key by key
// grows on the way.
PyObject* NewInterface(int64_t version) {
  static PyObject* made[2] = {};
  PyObject** const found = &made[version >= 3 ? 1 : 0];
  if (*found == nullptr) *found = MakeTemplate(version);
  return *found != nullptr ? PyDict_Copy(*found) : nullptr;
}

PyObject* ToDict(const CudaArrayInterface& cai, DType dtype) {
  const Keys& keys = TheKeys();
  Ref dict(NewInterface(cai.version));
  if (!dict || !Put(dict.get(), keys.shape, DimsToTuple(cai.shape)) ||
      !Put(dict.get(), keys.typestr, TypeString(dtype)) ||
      !Put(dict.get(), keys.data, DataPair(cai)) ||
      (cai.strides.has_value() &&
       !Put(dict.get(), keys.strides, DimsToTuple(*cai.strides))) ||
      (cai.version >= 3 && cai.stream.has_value() &&
       !Put(dict.get(), keys.stream, PyLong_FromLongLong(*cai.stream)))) {
    return nullptr;
  }
  return dict.Release();
}

// The memory keeps the native stream that was named (E14).  The object keeps a
// Stream for the last one, so that the Stream can be found by its number.
bool KeepStream(PyObject* self, const CudaArrayInterface& cai) {
  if (!cai.stream.has_value() || (*cai.stream >= 0 && *cai.stream <= 2)) {
    return true;
  }
  DeviceObject* device = WrapDevice(*ArrayOf(self).place().device());
  PyObject* stream = device != nullptr ? CurrentStreamObject(device) : nullptr;
  if (stream == nullptr) return false;
  PyObject* former = std::exchange(AsArray(self)->exported_stream, stream);
  Py_XDECREF(former);
  return true;
}

PyObject* GetInterface(PyObject* self, void*) {
  const Array& array = ArrayOf(self);  // valid while the caller has the object
  const auto held = array.storage();   // see array_owner.h
  CudaArrayExport options;
  if (AsArray(self)->cai_version != 0) {
    options.version = AsArray(self)->cai_version;
  } else if (t_version != 0) {
    options.version = t_version;
  }
  options.pinned_is_mapped = AsArray(self)->mapped;
  const SiteHere site;
  const auto cai =
      WithoutLock([&] { return ToCudaArrayInterface(array, options, site); });
  if (!cai.ok()) return RaiseExport(cai.status());
  if (!KeepStream(self, *cai)) return nullptr;
  return ToDict(*cai, array.dtype());
}

// ---- Settings ---------------------------------------------------------------

// Reads 2, 3, or None as 0.
bool ParseVersion(PyObject* value, int* version) {
  *version = 0;
  if (value == Py_None) return true;
  int64_t number = 0;
  if (!ToInt64(value, "version", &number)) return false;
  if (number == 2 || number == 3) {
    *version = static_cast<int>(number);
    return true;
  }
  PyErr_Format(g_exceptions.invalid_argument,
               "version is %R: __cuda_array_interface__ can be exported in 2 "
               "and 3",
               value);
  return false;
}

PyObject* VersionToObject(int version) {
  return version != 0 ? PyLong_FromLong(version) : NewRef(Py_None);
}

PyObject* GetVersion(PyObject* self, void*) {
  return VersionToObject(AsArray(self)->cai_version);
}

int SetVersion(PyObject* self, PyObject* value, void*) {
  int version = 0;
  if (!ParseVersion(value != nullptr ? value : Py_None, &version)) return -1;
  AsArray(self)->cai_version = version;
  return 0;
}

PyObject* SetThreadVersion(PyObject*, PyObject* value) {
  int version = 0;
  if (!ParseVersion(value, &version)) return nullptr;
  return VersionToObject(std::exchange(t_version, version));
}

// ---- Imports ----------------------------------------------------------------

bool RaiseType(const char* key, const char* expected, PyObject* value) {
  PyErr_Format(PyExc_TypeError,
               "'%s' of __cuda_array_interface__ must be %s, not %s", key,
               expected, TypeName(value));
  return false;
}

bool IsPlainInt(PyObject* value) {
  return PyLong_Check(value) && !PyBool_Check(value);
}

// Raises ValueError if the key is missing.  Returns an owning reference, as
// Optional does: reading values may run code that removes them from the dict.
Ref Required(PyObject* dict, PyObject* key) {
  Ref value = Ref::To(PyDict_GetItemWithError(dict, key));
  if (!value && PyErr_Occurred() == nullptr) {
    PyErr_Format(g_exceptions.invalid_argument,
                 "__cuda_array_interface__ has no '%U'", key);
  }
  return value;
}

// Reads an entry of shape or strides.  No memory spans what 64 bits cannot
// hold.
bool TakeDim(const char* key, PyObject* item, bool negative, int64_t* number) {
  if (!IsPlainInt(item)) return RaiseType(key, "a tuple of int", item);
  int overflow = 0;
  *number = PyLong_AsLongLongAndOverflow(item, &overflow);
  if (overflow == 0) return true;
  PyErr_Format(overflow < 0 && !negative ? g_exceptions.invalid_argument
                                         : PyExc_BufferError,
               "'%s' of __cuda_array_interface__ has %R, which is %s", key,
               item, overflow < 0 && !negative ? "negative" : "out of range");
  return false;
}

bool TakeDims(const char* key, PyObject* value, bool negative, Dims* dims) {
  if (!PyTuple_Check(value) && !PyList_Check(value)) {
    return RaiseType(key, "a tuple of int", value);
  }
  const Ref items(PySequence_Tuple(value));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    int64_t number = 0;
    if (!TakeDim(key, item, negative, &number)) return false;
    dims->push_back(number);
  }
  return true;
}

bool TakeData(PyObject* value, CudaArrayInterface* cai) {
  const char* expected = "a pair (int, bool)";
  if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 2) {
    return RaiseType("data", expected, value);
  }
  PyObject* address = PyTuple_GET_ITEM(value, 0);
  PyObject* read_only = PyTuple_GET_ITEM(value, 1);
  if (!IsPlainInt(address)) return RaiseType("data", expected, address);
  if (!PyBool_Check(read_only)) return RaiseType("data", expected, read_only);
  void* pointer = nullptr;
  if (!ToAddress(address, "data", &pointer)) return false;
  cai->data = reinterpret_cast<uintptr_t>(pointer);
  cai->read_only = read_only == Py_True;
  return true;
}

bool TakeRequired(PyObject* dict, CudaArrayInterface* cai) {
  const Keys& keys = TheKeys();
  const Ref shape = Required(dict, keys.shape);
  if (!shape || !TakeDims("shape", shape.get(), false, &cai->shape)) {
    return false;
  }
  const Ref typestr = Required(dict, keys.typestr);
  if (!typestr) return false;
  if (!PyUnicode_Check(typestr.get())) {
    return RaiseType("typestr", "a str", typestr.get());
  }
  Py_ssize_t size = 0;
  const char* text = ToUtf8(typestr.get(), "typestr", &size);
  if (text == nullptr) return false;
  cai->typestr.assign(text, static_cast<size_t>(size));
  const Ref data = Required(dict, keys.data);
  if (!data || !TakeData(data.get(), cai)) return false;
  const Ref version = Required(dict, keys.version);
  if (!version) return false;
  if (!IsPlainInt(version.get())) {
    return RaiseType("version", "an int", version.get());
  }
  int overflow = 0;  // later versions only add keys
  cai->version = PyLong_AsLongLongAndOverflow(version.get(), &overflow);
  if (overflow > 0) cai->version = INT64_MAX;
  return overflow >= 0 || ToInt64(version.get(), "version", &cai->version);
}

// Returns true if `descr` adds nothing to the typestr.
bool IsPlainDescription(PyObject* descr, const std::string& typestr) {
  if (descr == Py_None) return true;
  const Ref plain(Py_BuildValue("[(ss)]", "", typestr.c_str()));
  if (!plain) return false;
  const int equal = PyObject_RichCompareBool(descr, plain.get(), Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

// Returns None if the key is missing, or null with an exception set.
Ref Optional(PyObject* dict, const char* name) {
  const Ref key(PyUnicode_FromString(name));
  if (!key) return Ref();
  PyObject* value = PyDict_GetItemWithError(dict, key.get());
  if (value == nullptr && PyErr_Occurred() == nullptr) value = Py_None;
  return Ref::To(value);
}

// Returns true for memory of cuda, whose protocol has stream numbers of its
// own.  HIP's null stream is 0.
bool IsOfCuda(const CudaArrayInterface& cai) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is the protocol
  auto* const address = reinterpret_cast<void*>(cai.data);
  return WithoutLock([&] {
    const absl::StatusOr<PointerInfo> info = GetPointerInfo(address);
    return info.ok() && info->device.has_value() &&
           DLPackDevice(Place(*info->device)).device_type == kDLCUDA;
  });
}

bool TakeStream(PyObject* stream, CudaArrayInterface* cai) {
  if (stream == Py_None) return true;
  if (!IsPlainInt(stream)) {
    return RaiseType("stream", "an int or None", stream);
  }
  int64_t number = 0;
  if (!ToInt64(stream, "stream", &number)) return false;
  cai->stream = number;
  if (number != 0 || GetExchangeSettings().strict || !IsOfCuda(*cai)) {
    return true;
  }
  cai->stream = 1;
  return WarnOfStreamZero("'stream' of __cuda_array_interface__ is 0");
}

bool TakeOptional(PyObject* dict, CudaArrayInterface* cai) {
  const Ref strides = Optional(dict, "strides");
  if (!strides) return false;
  if (strides.get() != Py_None) {
    cai->strides.emplace();
    if (!TakeDims("strides", strides.get(), true, &*cai->strides)) return false;
  }
  const Ref mask = Optional(dict, "mask");
  const Ref descr = mask ? Optional(dict, "descr") : Ref();
  const Ref stream = descr ? Optional(dict, "stream") : Ref();
  if (!stream) return false;
  cai->has_mask = mask.get() != Py_None;
  cai->has_descr = !IsPlainDescription(descr.get(), cai->typestr);
  return TakeStream(stream.get(), cai);
}

std::optional<Array> Import(PyObject* description, PyObject* owner,
                            const CudaArrayImport& options) {
  if (!PyDict_Check(description)) {
    PyErr_Format(PyExc_TypeError,
                 "__cuda_array_interface__ must be a dict, not %s",
                 TypeName(description));
    return std::nullopt;
  }
  CudaArrayInterface cai;
  if (!TakeRequired(description, &cai) || !TakeOptional(description, &cai)) {
    return std::nullopt;
  }
  std::shared_ptr<void> kept;
  if (owner != nullptr && owner != Py_None) kept = KeepAlive(owner);
  const SiteHere site;
  absl::StatusOr<Array> made = WithoutLock([&] {
    return FromCudaArrayInterface(cai, std::move(kept), options, site);
  });
  if (made.ok()) return *std::move(made);
  RaiseExchange(made.status());
  return std::nullopt;
}

bool ParseImport(PyObject* device, PyObject* copy, PyObject* sync,
                 CudaArrayImport* options) {
  if (device != nullptr && device != Py_None) {
    options->place = ParsePlace(device, false);
    if (!options->place.has_value()) return false;
  }
  if (copy != nullptr && copy != Py_None) {
    options->copy = false;
    if (!ToBool(copy, "copy", &*options->copy)) return false;
  }
  if (sync != nullptr && sync != Py_None) {
    options->sync = true;
    return ToBool(sync, "sync", &*options->sync);
  }
  return true;
}

PyObject* FromInterface(PyObject*, PyObject* const* args, Py_ssize_t count,
                        PyObject* names) {
  static const Parameters kParameters = {
      "from_cuda_array_interface",
      1,
      1,
      5,
      {"object, by position", "owner", "device", "copy", "sync"}};
  PyObject* values[5];
  CudaArrayImport options;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ParseImport(values[2], values[3], values[4], &options)) {
    return nullptr;
  }
  PyObject* owner = values[1];
  Ref description(NewRef(values[0]));
  if (!PyDict_Check(values[0])) {
    const KeepCurrent keep;
    description =
        Ref(PyObject_GetAttrString(values[0], "__cuda_array_interface__"));
    if (!description) return nullptr;
    if (owner == nullptr || owner == Py_None) owner = values[0];
  }
  std::optional<Array> made = Import(description.get(), owner, options);
  return made.has_value() ? WrapArray(*std::move(made)) : nullptr;
}

PyObject* AsMapped(PyObject* self, PyObject*) {
  if (ArrayOf(self).place().kind() != MemoryKind::kPinned) {
    return Raise(absl::InvalidArgumentError(
        "only pinned memory can be mapped, and this array is in " +
        ArrayOf(self).place().name()));
  }
  PyObject* view = WrapArray(Array(ArrayOf(self)));
  if (view != nullptr) AsArray(view)->mapped = true;
  return view;
}

}  // namespace

std::optional<Array> FromCai(PyObject* description, PyObject* owner) {
  return Import(description, owner, {});
}

PyMethodDef g_array_cai_methods[] = {
    {"as_mapped", AsMapped, METH_NOARGS,
     "as_mapped($self, /)\n"
     "--\n\n"
     "Returns a view of pinned memory that other libraries may pass to\n"
     "kernels.\n\n"
     "It offers __cuda_array_interface__, on CUDA, and so do views of it."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef g_array_cai_getters[] = {
    Getter("__cuda_array_interface__", GetInterface,
           "The dict of CUDA Array Interface, for memory that CUDA reaches.\n\n"
           "The dtype needs a type string, and strides must not be negative.  "
           "The\n"
           "stream in the dict comes after all pending uses of the memory."),
    {"cai_export_version", GetVersion, SetVersion,
     "The version in which this object exports __cuda_array_interface__: 2, "
     "3,\n"
     "or None for that of the thread and of DEVRT_CAI_EXPORT_VERSION.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef g_array_cai_functions[] = {
    {"from_cuda_array_interface", AsMethod(FromInterface),
     METH_FASTCALL | METH_KEYWORDS,
     "from_cuda_array_interface(object, /, *, owner=None, device=None, "
     "copy=None, sync=None)\n"
     "--\n\n"
     "Returns an array over the memory of an object with\n"
     "__cuda_array_interface__, or over the memory that such a dict "
     "describes.\n\n"
     "owner: the object that keeps the memory alive while devrt uses it.  "
     "None\n"
     "is `x`; a dict keeps nothing alive.\n"
     "device: copies if the memory is elsewhere.\n"
     "copy: True copies, False never does.\n"
     "sync: order the current stream of the data's device after the stream\n"
     "that is named.  None means unless DEVRT_CAI_SYNC is 0.\n\n"
     "Raises TypeError for entries of wrong types, ValueError for missing and\n"
     "impossible ones, BufferError for memory that devrt cannot describe,\n"
     "CopyRequiredError, and AttributeError if `x` has no such interface."},
    {"_set_cai_export_version", SetThreadVersion, METH_O,
     "_set_cai_export_version(version)\n"
     "--\n\n"
     "Sets the version for the calling thread.  None is the setting.  Returns\n"
     "the former value."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace devrt::python
