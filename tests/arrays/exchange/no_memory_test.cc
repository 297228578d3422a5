// SPDX-License-Identifier: Apache-2.0
//
// The exchange API in C where the host has no memory left.

#include <cstdlib>
#include <new>

#include "devrt/arrays/devrt_exchange.h"
#include "tests/arrays/exchange/exchange_fixture.h"
#include "tests/arrays/exchange/foreign.h"

namespace {

// How many blocks this thread still gets.
constexpr int kAny = -1;
thread_local int t_left = kAny;

void* Get(size_t size) {
  if (t_left == 0) throw std::bad_alloc();
  if (t_left != kAny) --t_left;
  void* const block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

void* operator new(size_t size) { return Get(size); }
void* operator new[](size_t size) { return Get(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return t_left == 0 ? nullptr : std::malloc(size);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t) noexcept { std::free(block); }

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
