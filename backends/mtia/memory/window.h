// SPDX-License-Identifier: Apache-2.0
//
// The address space of the simulated memories.
//
// A Reservation is a range of addresses; a Window puts sparse memory behind a
// part of it.  Callers hold addresses of the reservation, operations touch the
// window's local ones.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_WINDOW_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_WINDOW_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/mtia/config/config.h"

namespace devrt::mtia {

// Windows begin at multiples of this, so that offsets are as aligned as
// addresses.
inline constexpr uint64_t kMaxAlignment = 1ull << 30;

uint64_t PageSize();

class Reservation {
 public:
  Reservation() = default;
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  // At the same address in every run where that is free.
  bool Reserve(uint64_t size, std::string* error);
  std::byte* base() const { return base_; }

 private:
  bool ReserveAt(uint64_t address, uint64_t size);
  bool ReserveAnywhere(uint64_t size);

  void* mapping_ = nullptr;
  uint64_t mapped_ = 0;
  std::byte* base_ = nullptr;
};

class Window {
 public:
  enum class Kind { kDevice, kHost };

  Window() = default;
  ~Window();  // the public view goes with the reservation
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Puts memory at [base, base + size), a part of a reservation.  A kDevice
  // window is inaccessible there and read-write at its local addresses; a
  // kHost window has one view for both.
  bool Map(const char* name, std::byte* base, uint64_t size, Kind kind,
           std::string* error);

  std::byte* base() const { return base_; }
  std::byte* local() const { return local_; }
  uint64_t size() const { return size_; }

  // What a block holds when it is new and when it is freed.  The parts that
  // `poison` leaves out read as zero when new, whatever was there before: a
  // run must not see the run before it.
  void MakeFresh(uint64_t offset, uint64_t size, Poison poison);
  void MakeFreed(uint64_t offset, uint64_t size, Poison poison);
  // Gives the whole pages inside back to the system; they then read as zero.
  void Discard(uint64_t offset, uint64_t size);

  // host_access=continue.  Opens the page at the public address; async-signal-
  // safe.  ClosePages closes what was opened before it.
  bool OpenPage(uint64_t offset);
  void ClosePages();

 private:
  void Paint(uint64_t offset, uint64_t size, Poison poison, int value,
             bool discard_middle);

  std::byte* base_ = nullptr;
  std::byte* local_ = nullptr;
  uint64_t size_ = 0;
  Kind kind_ = Kind::kHost;
  std::atomic<uint64_t> opened_{0};  // first page << 32 | behind the last
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_WINDOW_H_
