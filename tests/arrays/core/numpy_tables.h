// SPDX-License-Identifier: Apache-2.0
//
// NumPy's answers, tabulated: see numpy_tables.py.

#ifndef DEVRT_TESTS_ARRAYS_CORE_NUMPY_TABLES_H_
#define DEVRT_TESTS_ARRAYS_CORE_NUMPY_TABLES_H_

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "devrt/arrays/dtype.h"
#include "tests/support/status_matchers.h"

namespace devrt {

struct Promotion {
  const char* dtype;
  const char* results;
};

struct Conversion {
  DTypeKind kind;
  uint64_t bits;
  const char* elements;
};

#include "tests/arrays/core/numpy_tables.inc"

inline std::vector<std::string> Words(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

inline std::vector<DType> TableColumns() {
  std::vector<DType> columns;
  for (const std::string& name : Words(kNames)) {
    columns.push_back(testing::Must(DType::FromName(name)));
  }
  return columns;
}

}  // namespace devrt

#endif  // DEVRT_TESTS_ARRAYS_CORE_NUMPY_TABLES_H_
