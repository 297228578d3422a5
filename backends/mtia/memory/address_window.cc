// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/address_window.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace devrt::mtia {
namespace {

// Usually free: above the heap of a small executable, below that of a
// position-independent one, and outside of AddressSanitizer's shadow.
constexpr uint64_t kFirstBase = 0x200000000000;
constexpr uint64_t kBaseStep = 0x020000000000;
constexpr int kBases = 8;

constexpr uint64_t kPoisonWhole = 64ull << 10;
constexpr uint64_t kPoisonEdge = 4ull << 10;
constexpr int kFreshByte = 0xFF;
constexpr int kFreedByte = 0xDD;

constexpr int kReserveFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

constexpr uint64_t kMinWindow = 4ull << 30;
constexpr uint64_t kDeviceFactor = 8;
constexpr uint64_t kPinnedFactor = 4;
uint64_t RoundDown(uint64_t value, uint64_t step) {
  return value & ~(step - 1);
}

std::string SystemError(const std::string& what) {
  return what + ": " + std::strerror(errno);
}

// With a file size limit below that, the system would send SIGXFSZ.
bool FileMayHave(uint64_t size) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= size;
}

int MakeFile(const char* name, uint64_t size, std::string* error) {
  const std::string what = std::string("cannot make ") + std::to_string(size) +
                           " bytes of sparse memory for " + name;
  if (!FileMayHave(size)) {
    *error = what + ": above the file size limit (ulimit -f)";
    return -1;
  }
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0) {
    *error = SystemError(what);
    return -1;
  }
  if (ftruncate(file, static_cast<off_t>(size)) != 0) {
    *error = SystemError(what);
    close(file);
    return -1;
  }
  return file;
}

// Keeps windows out of core files, which would have gigabytes.
std::byte* MapFile(int file, void* where, uint64_t size, int protection) {
  const int flags =
      MAP_SHARED | MAP_NORESERVE | (where != nullptr ? MAP_FIXED : 0);
  void* view = mmap(where, size, protection, flags, file, 0);
  if (view == MAP_FAILED) return nullptr;
  madvise(view, size, MADV_DONTDUMP);
  return static_cast<std::byte*>(view);
}

uint32_t ShiftOf(uint64_t size) {
  uint32_t shift = 0;
  while ((uint64_t{1} << shift) < size) ++shift;
  return shift;
}

}  // namespace

uint32_t WindowShift(const Config& config) {
  uint32_t shift = ShiftOf(std::max({kMinWindow, config.memory * kDeviceFactor,
                                     config.pinned * kPinnedFactor}));
  // With many devices or much memory, windows have less room for freed ranges.
  const uint32_t least = ShiftOf(std::max(config.memory, config.pinned) * 2);
  const uint64_t views = (config.devices + uint64_t{1}) * 2;
  while (shift > least && (views << shift) > kMaxAddresses) --shift;
  return shift;
}

uint64_t PageSize() {
  static const uint64_t size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}

AddressReservation::~AddressReservation() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

bool AddressReservation::Reserve(uint64_t size, std::string* error) {
  for (int i = 0; i < kBases; ++i) {
    const uint64_t address = kFirstBase + static_cast<uint64_t>(i) * kBaseStep;
    if (ReserveAt(address, size)) return true;
  }
  if (ReserveAnywhere(size)) return true;
  *error = SystemError("cannot reserve " + std::to_string(size >> 30) +
                       " GiB of addresses (fewer devices or less memory need "
                       "fewer; see also ulimit -v)");
  return false;
}

bool AddressReservation::ReserveAt(uint64_t address, uint64_t size) {
  void* wanted = reinterpret_cast<void*>(address);
  // The address is a hint and not fixed: ThreadSanitizer refuses addresses for
  // which it has no shadow, and turns a fixed mapping of them into one at 0.
  void* got = mmap(wanted, size, PROT_NONE, kReserveFlags, -1, 0);
  if (got == MAP_FAILED) return false;
  if (got != wanted) {
    munmap(got, size);
    return false;
  }
  mapping_ = got;
  mapped_ = size;
  base_ = static_cast<std::byte*>(got);
  return true;
}

bool AddressReservation::ReserveAnywhere(uint64_t size) {
  const uint64_t padded = size + kMaxAlignment;
  void* got = mmap(nullptr, padded, PROT_NONE, kReserveFlags, -1, 0);
  if (got == MAP_FAILED) return false;
  mapping_ = got;
  mapped_ = padded;
  const auto address = reinterpret_cast<uintptr_t>(got);
  base_ = static_cast<std::byte*>(got) +
          (RoundUp(address, kMaxAlignment) - address);
  return true;
}

AddressWindow::~AddressWindow() {
  if (local_ != nullptr && local_ != base_) munmap(local_, size_);
}

bool AddressWindow::Map(const char* name, std::byte* base, uint64_t size,
                        Kind kind, std::string* error) {
  const int file = MakeFile(name, size, error);
  if (file < 0) return false;
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  const bool dual = kind != Kind::kHost;
  std::byte* view =
      MapFile(file, base, size, kind == Kind::kDevice ? PROT_NONE : kReadWrite);
  std::byte* local = dual ? MapFile(file, nullptr, size, kReadWrite) : view;
  if (view == nullptr || local == nullptr) {
    *error = SystemError(std::string("cannot map the memory of ") + name);
    close(file);
    return false;
  }
  close(file);
  base_ = base;
  local_ = local;
  size_ = size;
  kind_ = kind;
  return true;
}

void AddressWindow::MakeFresh(uint64_t offset, uint64_t size, Poison poison) {
  const int value = poison == Poison::kOff ? 0 : kFreshByte;
  Paint(offset, size, poison, value, true);
}

void AddressWindow::MakeFreed(uint64_t offset, uint64_t size, Poison poison) {
  if (poison == Poison::kOff) return;
  Paint(offset, size, poison, kFreedByte, false);
}

// The bytes depend on the size alone, and not on the place in a page: the
// outcome of a run has them.
void AddressWindow::Paint(uint64_t offset, uint64_t size, Poison poison,
                          int value, bool clear_middle) {
  if (poison == Poison::kFull || size <= kPoisonWhole) {
    std::memset(local_ + offset, value, size);
    return;
  }
  const uint64_t middle = offset + kPoisonEdge;
  const uint64_t tail = offset + size - kPoisonEdge;
  std::memset(local_ + offset, value, kPoisonEdge);
  std::memset(local_ + tail, value, kPoisonEdge);
  if (!clear_middle) return;
  const uint64_t first_page = RoundUp(middle, PageSize());
  const uint64_t last_page = RoundDown(tail, PageSize());
  std::memset(local_ + middle, 0, first_page - middle);
  std::memset(local_ + last_page, 0, tail - last_page);
  Discard(first_page, last_page - first_page);
}

void AddressWindow::Discard(uint64_t offset, uint64_t size) {
  const uint64_t begin = RoundUp(offset, PageSize());
  const uint64_t end = RoundDown(offset + size, PageSize());
  if (begin >= end) return;
  if (madvise(local_ + begin, end - begin, MADV_REMOVE) != 0) {
    std::memset(local_ + begin, 0, end - begin);
  }
}

bool AddressWindow::OpenPage(uint64_t offset) {
  if (kind_ != Kind::kDevice) return false;
  const uint64_t page = offset / PageSize();
  if (mprotect(base_ + page * PageSize(), PageSize(), PROT_READ | PROT_WRITE) !=
      0) {
    return false;
  }
  // Only now, so that a ClosePages in between does not miss it.
  uint64_t before = opened_.load();
  uint64_t after;
  do {
    const uint64_t first = before == 0 ? page : std::min(before >> 32, page);
    const uint64_t last = std::max(before & 0xFFFFFFFF, page + 1);
    after = first << 32 | last;
  } while (!opened_.compare_exchange_weak(before, after));
  return true;
}

void AddressWindow::ClosePages() {
  const uint64_t opened = opened_.exchange(0);
  if (opened == 0) return;
  const uint64_t first = opened >> 32;
  const uint64_t last = opened & 0xFFFFFFFF;
  mprotect(base_ + first * PageSize(), (last - first) * PageSize(), PROT_NONE);
}

}  // namespace devrt::mtia
