// SPDX-License-Identifier: Apache-2.0
//
// Which sanitizer the test is compiled with: DEVRT_TEST_ASAN and
// DEVRT_TEST_TSAN are 1 or 0.  gcc defines macros of its own, clang has
// __has_feature.

#ifndef DEVRT_TESTS_SUPPORT_SANITIZERS_H_
#define DEVRT_TESTS_SUPPORT_SANITIZERS_H_

#if defined(__SANITIZE_ADDRESS__)
#define DEVRT_TEST_ASAN 1
#elif defined(__has_feature)
#define DEVRT_TEST_ASAN __has_feature(address_sanitizer)
#else
#define DEVRT_TEST_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define DEVRT_TEST_TSAN 1
#elif defined(__has_feature)
#define DEVRT_TEST_TSAN __has_feature(thread_sanitizer)
#else
#define DEVRT_TEST_TSAN 0
#endif

#endif  // DEVRT_TESTS_SUPPORT_SANITIZERS_H_
