// SPDX-License-Identifier: Apache-2.0
//
// Compares a backend's error table with the error codes of its vendor's header.
//
//   constexpr NamedError kInHeader[] = {...};  // from list_errors.py
//   ExpectAllListed(kInHeader, MeaningOf);
//   ExpectSticky(kInHeader, MeaningOf, {700, 719});

#ifndef DEVRT_TESTS_SUPPORT_ERROR_TABLE_WALK_H_
#define DEVRT_TESTS_SUPPORT_ERROR_TABLE_WALK_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "backends/gpu/errors.h"

namespace devrt::gpu {

struct NamedError {
  int code;
  const char* name;
};

using Meanings = const ErrorMeaning& (*)(int code);

// The table has an entry for every code of the header, except success.
template <size_t kCount>
void ExpectAllListed(const NamedError (&header)[kCount], Meanings meaning_of) {
  for (const NamedError& error : header) {
    if (error.code == 0) continue;
    EXPECT_EQ(meaning_of(error.code).code, error.code)
        << error.name << " is not in the error table";
  }
}

// A code that no header has is INTERNAL, and suspect.
inline void ExpectOthersSuspect(Meanings meaning_of) {
  for (const int code : {-1, 0, 60, 100000}) {
    EXPECT_EQ(meaning_of(code).status, DEVRT_INTERNAL) << code;
    EXPECT_EQ(meaning_of(code).error_class, ErrorClass::kSuspect) << code;
  }
}

// Checks that exactly the codes `sticky` of the header make a device unusable.
template <size_t kCount>
void ExpectSticky(const NamedError (&header)[kCount], Meanings meaning_of,
                  std::initializer_list<int> sticky) {
  for (const NamedError& error : header) {
    if (error.code == 0) continue;
    EXPECT_EQ(
        meaning_of(error.code).error_class == ErrorClass::kSticky,
        std::find(sticky.begin(), sticky.end(), error.code) != sticky.end())
        << error.name;
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_TESTS_SUPPORT_ERROR_TABLE_WALK_H_
