// SPDX-License-Identifier: Apache-2.0
#include "python/src/plain_functions.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace devrt::python {
namespace {

// A C function learns only its module, so each bound function has a C function
// of its own.
inline constexpr std::size_t kMostFunctions = 80;
PyObject* g_bound[kMostFunctions];
PyMethodDef g_plain[kMostFunctions];

template <std::size_t place>
PyObject* Call(PyObject*, PyObject* const* args, Py_ssize_t count,
               PyObject* names) {
  return PyObject_Vectorcall(g_bound[place], args, static_cast<size_t>(count),
                             names);
}

template <std::size_t... places>
constexpr auto MakeCalls(std::index_sequence<places...>) {
  using Function =
      PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
  return std::array<Function, sizeof...(places)>{&Call<places>...};
}
constexpr auto kCalls = MakeCalls(std::make_index_sequence<kMostFunctions>());

// Turns "f(a: int, b: object = 3) -> int" into "f(a, b=3)".
std::string WithoutTypes(std::string_view line) {
  std::string plain;
  int depth = -1;  // 0 within the parameters
  bool in_type = false;
  for (const char c : line) {
    if (c == '(' || c == '[') ++depth;
    if (depth == 0 && c == ')') break;
    if (depth == 0 && (c == ',' || c == '=')) in_type = false;
    if (depth == 0 && c == ':') in_type = true;
    if (c == ' ' ? plain.back() == ',' : !in_type) plain += c;
    if (c == ')' || c == ']') --depth;
  }
  return plain + ")";
}

// Turns nanobind's doc text, "signature\n\ntext", into the form of C functions.
std::string PlainText(std::string_view text) {
  const std::size_t end = text.find('\n');
  std::string plain = WithoutTypes(text.substr(0, end)) + "\n--\n\n";
  if (end != std::string_view::npos) {
    plain += text.substr(std::min(text.find_first_not_of('\n', end),  //
                                  text.size()));
  }
  return plain;
}

// Copies the text for the rest of the process.
const char* Keep(std::string_view text) {
  char* kept = static_cast<char*>(PyMem_Malloc(text.size() + 1));
  if (kept == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  std::memcpy(kept, text.data(), text.size());
  kept[text.size()] = '\0';
  return kept;
}

// Makes a plain function that keeps `bound`.  Returns a new reference.
PyObject* MakePlain(PyObject* bound, const char* name, std::size_t place,
                    PyObject* module, PyObject* module_name) {
  const Ref doc(PyObject_GetAttrString(bound, "__doc__"));
  const char* text = doc ? PyUnicode_AsUTF8(doc.get()) : nullptr;
  if (text == nullptr) return nullptr;
  const char* kept_name = Keep(name);
  const char* kept_text = Keep(PlainText(text));
  if (kept_name == nullptr || kept_text == nullptr) return nullptr;
  g_bound[place] = NewRef(bound);
  g_plain[place] = {kept_name, AsMethod(kCalls[place]),
                    METH_FASTCALL | METH_KEYWORDS, kept_text};
  return PyCFunction_NewEx(&g_plain[place], module, module_name);
}

}  // namespace

bool MakeFunctionsPlain(PyObject* module) {
  const Ref names(PyDict_Keys(PyModule_GetDict(module)));
  const Ref module_name(PyModule_GetNameObject(module));
  if (!names || !module_name) return false;
  std::size_t place = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(names.get(), i);
    PyObject* bound = PyDict_GetItem(PyModule_GetDict(module), key);
    const char* name = PyUnicode_AsUTF8(key);
    if (name == nullptr) return false;
    if (std::string_view(Py_TYPE(bound)->tp_name) != "nanobind.nb_func") {
      continue;
    }
    if (place == kMostFunctions) {
      PyErr_SetString(PyExc_SystemError, "kMostFunctions is too small");
      return false;
    }
    const Ref plain(MakePlain(bound, name, place++, module, module_name.get()));
    if (!plain || PyObject_SetAttr(module, key, plain.get()) != 0) return false;
  }
  return true;
}

}  // namespace devrt::python
