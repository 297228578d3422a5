// SPDX-License-Identifier: Apache-2.0

#include "memory/pinned/pinned_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "memory/common/rounding.h"

namespace devrt::internal {
namespace {

// For fewer pages a thread costs more than it saves.
constexpr uint64_t kPagesPerThread = 64;

void Touch(char* base, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += PageSize()) {
    *const_cast<volatile char*>(base + at) = 0;
  }
}

}  // namespace

uint64_t PageSize() {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return page;
}

void* MapPages(uint64_t bytes) {
  void* base = mmap(nullptr, RoundUp(bytes, PageSize()), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return base == MAP_FAILED ? nullptr : base;
}

void UnmapPages(void* base, uint64_t bytes) {
  munmap(base, RoundUp(bytes, PageSize()));
}

void TouchPages(void* base, uint64_t bytes, uint32_t threads) {
  const uint64_t page = PageSize();
  const uint64_t pages = RoundUp(bytes, page) / page;
  const uint64_t parts =
      std::clamp<uint64_t>(pages / kPagesPerThread, 1, threads);
  const uint64_t part = RoundUp(pages, parts) / parts * page;
  char* const begin = static_cast<char*>(base);
  const auto touch = [=](uint64_t i) {
    const uint64_t from = std::min(i * part, bytes);
    Touch(begin + from, std::min(part, bytes - from));
  };
  std::vector<std::thread> others;
  uint64_t next = 1;
  try {
    for (; next < parts; ++next) others.emplace_back(touch, next);
  } catch (const std::system_error&) {
    // The system gives no more threads: this one does the rest.
  }
  touch(0);
  for (; next < parts; ++next) touch(next);
  for (std::thread& other : others) other.join();
}

}  // namespace devrt::internal
