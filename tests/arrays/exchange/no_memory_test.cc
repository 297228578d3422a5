// SPDX-License-Identifier: Apache-2.0
//
// The exchange API in C where the host has no memory left.

#include <cstddef>
#include <new>

#include "devrt/arrays/devrt_exchange.h"
#include "tests/arrays/exchange/exchange_fixture.h"
#include "tests/arrays/exchange/foreign.h"

namespace {

// How many blocks this thread still gets.
constexpr int kAny = -1;
thread_local int t_left = kAny;

void Count() {
  if (t_left == 0) throw std::bad_alloc();
  if (t_left != kAny) --t_left;
}

}  // namespace

// The linker puts these in place of operator new (meson.build): clang's
// sanitizers have an operator new of their own, which no program can replace.
extern "C" {
void* __real__Znwm(size_t size);
void* __real__Znam(size_t size);
void* __real__ZnwmRKSt9nothrow_t(size_t size, const std::nothrow_t& tag);
void* __wrap__Znwm(size_t size);
void* __wrap__Znam(size_t size);
void* __wrap__ZnwmRKSt9nothrow_t(size_t size, const std::nothrow_t& tag);

void* __wrap__Znwm(size_t size) {
  Count();
  return __real__Znwm(size);
}
void* __wrap__Znam(size_t size) {
  Count();
  return __real__Znam(size);
}
void* __wrap__ZnwmRKSt9nothrow_t(size_t size, const std::nothrow_t& tag) {
  return t_left == 0 ? nullptr : __real__ZnwmRKSt9nothrow_t(size, tag);
}
}

namespace devrt::testing {
namespace {

using NoMemory = ExchangeTest;

// Its caller deletes it then, as tvm-ffi does, and nobody else may.
TEST_F(NoMemory, ATensorStaysTheCallersWhereNoHandleCanBeMade) {
  const DLPackExchangeAPI* const api = devrt_exchange_api_v0();
  int left = 0;
  for (int answer = -1; answer != 0; ++left) {
    ForeignTensor foreign({2, 3}, kDLFloat, 32);
    void* out = nullptr;
    t_left = left;
    answer = api->managed_tensor_to_py_object_no_sync(foreign.managed(), &out);
    t_left = kAny;
    EXPECT_EQ(foreign.released(), 0) << "with memory for " << left;
    if (answer != 0) continue;
    devrt_array_release_v0(static_cast<devrt_array*>(out));
    EXPECT_EQ(foreign.released(), 1);
  }
  EXPECT_GT(left, 1);  // some were refused
}

}  // namespace
}  // namespace devrt::testing
