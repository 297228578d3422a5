// SPDX-License-Identifier: Apache-2.0
//
// The address space of the simulated memories: the reserved range of addresses,
// and the windows in it, which have memory behind them.  A program holds
// addresses of a window; operations use the window's local addresses.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_ADDRESS_WINDOW_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_ADDRESS_WINDOW_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/mtia/config/config.h"

namespace devrt::mtia {

// Windows begin at multiples of this, so that offsets are as aligned as
// addresses.
inline constexpr uint64_t kMaxAlignment = 1ull << 30;

// The limit for both mappings of all windows, far below the 128 TiB of
// addresses that a process has.
inline constexpr uint64_t kMaxAddresses = 64ull << 40;

uint64_t PageSize();
// `step` is a power of two.
inline uint64_t RoundUp(uint64_t value, uint64_t step) {
  return (value + step - 1) & ~(step - 1);
}

// All windows of a machine have one size, 1 << WindowShift(config), so that a
// shift finds the window of an address.
uint32_t WindowShift(const Config& config);

class AddressReservation {
 public:
  AddressReservation() = default;
  ~AddressReservation();
  AddressReservation(const AddressReservation&) = delete;
  AddressReservation& operator=(const AddressReservation&) = delete;

  // Reserves `size` bytes of addresses, in every run at one place if that is
  // free.
  bool Reserve(uint64_t size, std::string* error);
  std::byte* base() const { return base_; }

 private:
  bool ReserveAt(uint64_t address, uint64_t size);
  bool ReserveAnywhere(uint64_t size);

  void* mapping_ = nullptr;
  uint64_t mapped_ = 0;
  std::byte* base_ = nullptr;
};

class AddressWindow {
 public:
  enum class Kind { kDevice, kHost, kGuarded };

  AddressWindow() = default;
  ~AddressWindow();  // the reservation unmaps the addresses of the program
  AddressWindow(const AddressWindow&) = delete;
  AddressWindow& operator=(const AddressWindow&) = delete;

  // Puts sparse memory behind [base, base + size), a part of a reservation.  A
  // kDevice window cannot be accessed there, and is read-write at its local
  // addresses.  A kHost window has one set of addresses for both.  A kGuarded
  // window is read-write at both, until PinnedGuard closes pages.
  bool Map(const char* name, std::byte* base, uint64_t size, Kind kind,
           std::string* error);

  std::byte* base() const { return base_; }
  std::byte* local() const { return local_; }
  uint64_t size() const { return size_; }

  // Writes what a new block holds.  The bytes that `poison` leaves out read as
  // zero, so that a run does not see what a run before it left.
  void MakeFresh(uint64_t offset, uint64_t size, Poison poison);
  // Writes what a freed block holds.
  void MakeFreed(uint64_t offset, uint64_t size, Poison poison);
  // Gives the whole pages inside the range back to the system.  They read as
  // zero then.
  void Discard(uint64_t offset, uint64_t size);

  // For host_access=continue: lets the host access the page at `offset`.
  // Async-signal-safe.  ClosePages ends that for all pages.
  bool OpenPage(uint64_t offset);
  void ClosePages();

 private:
  void Paint(uint64_t offset, uint64_t size, Poison poison, int value,
             bool clear_middle);

  std::byte* base_ = nullptr;
  std::byte* local_ = nullptr;
  uint64_t size_ = 0;
  Kind kind_ = Kind::kHost;
  std::atomic<uint64_t> opened_{0};  // first page << 32 | behind the last
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_ADDRESS_WINDOW_H_
