// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/host_access.h"

#include <unistd.h>

#include <cstring>
#include <utility>

namespace devrt::mtia {
namespace {

// Limits the reports of host_access=continue: a loop over device memory would
// fill the disk.
constexpr uint64_t kMaxReports = 32;

// Text in a fixed buffer, for a signal handler.
class SignalText {
 public:
  SignalText& operator<<(const char* text) {
    while (*text != '\0' && size_ < sizeof(buffer_)) buffer_[size_++] = *text++;
    return *this;
  }
  SignalText& operator<<(uint64_t value) { return Number(value, 10); }
  SignalText& operator<<(const void* pointer) {
    *this << "0x";
    return Number(reinterpret_cast<uintptr_t>(pointer), 16);
  }

  void WriteToStderr() const {
    size_t at = 0;
    while (at < size_) {
      const ssize_t written = write(STDERR_FILENO, buffer_ + at, size_ - at);
      if (written <= 0) return;
      at += static_cast<size_t>(written);
    }
  }

 private:
  SignalText& Number(uint64_t value, unsigned base) {
    char digits[24];
    size_t at = sizeof(digits);
    digits[--at] = '\0';
    do {
      digits[--at] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    return *this << digits + at;
  }

  char buffer_[1024];
  size_t size_ = 0;
};

void AppendSite(const char* what, const char* file, int32_t line,
                SignalText* text) {
  *text << what;
  if (file == nullptr) {
    *text << "an unknown place";
  } else {
    *text << file << ":" << static_cast<uint64_t>(line);
  }
}

const char* Verb(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "wrote to";
    case Access::kUnknown:
      break;
  }
  return "dereferenced";
}

void AppendBlock(const BlockTable::Glimpse& block, uint64_t offset,
                 SignalText* text) {
  const uint64_t at = offset - block.offset;
  if (at >= block.size) {
    *text << at - block.size << " bytes behind the end of ";
  } else {
    *text << at << " bytes into ";
  }
  *text << (block.live ? "" : "freed ") << "block #" << block.id << " ("
        << block.size << " bytes, ";
  AppendSite("allocated at ", block.allocated_file, block.allocated_line, text);
  if (!block.live) {
    AppendSite(", freed at ", block.freed_file, block.freed_line, text);
  }
  *text << ")";
}

}  // namespace

HostAccessMonitor::HostAccessMonitor(std::vector<Memory> memories)
    : memories_(std::move(memories)) {}

HostAccessMonitor::~HostAccessMonitor() {
  if (watching_.load()) RemoveSegvListener(this);
}

void HostAccessMonitor::Reset(HostAccess mode) {
  CloseOpenedPages();
  mode_.store(mode, std::memory_order_release);
  count_.store(0, std::memory_order_relaxed);
  last_address_.store(nullptr, std::memory_order_relaxed);
}

void HostAccessMonitor::StartWatching() {
  if (mode_.load() == HostAccess::kOff) return;
  if (!watching_.exchange(true)) AddSegvListener(this);
}

bool HostAccessMonitor::OnSegv(const AccessFault& fault) noexcept {
  const HostAccess mode = mode_.load(std::memory_order_acquire);
  if (mode == HostAccess::kOff) return false;
  for (size_t device = 0; device < memories_.size(); ++device) {
    AddressWindow& window = *memories_[device].window;
    if (fault.address < window.base() ||
        fault.address >= window.base() + window.size()) {
      continue;
    }
    const auto offset = static_cast<uint64_t>(fault.address - window.base());
    const uint64_t count = count_.fetch_add(1) + 1;
    // If the former handler only returns, the access repeats.
    const bool again = last_address_.exchange(fault.address) == fault.address &&
                       last_instruction_.load() == fault.instruction;
    last_instruction_.store(fault.instruction);
    const bool resume = mode == HostAccess::kContinue;
    if (resume ? count <= kMaxReports : !again) Report(fault, device, offset);
    if (!resume || !window.OpenPage(offset)) return false;
    opened_.store(true);
    return true;
  }
  return false;
}

void HostAccessMonitor::ClosePages() {
  opened_.store(false);
  for (const Memory& memory : memories_) memory.window->ClosePages();
}

void HostAccessMonitor::Report(const AccessFault& fault, size_t device,
                               uint64_t offset) const noexcept {
  SignalText text;
  text << "devrt: the host " << Verb(fault.access) << " device memory: address "
       << fault.address << " of mtia:" << static_cast<uint64_t>(device) << ", ";
  BlockTable::Glimpse block;
  if (memories_[device].blocks->Peek(offset, &block)) {
    AppendBlock(block, offset, &text);
  } else {
    text << "in no known block";
  }
  text << ", by the instruction at " << fault.instruction
       << ". Only operations on a stream may touch device memory: copy it to "
          "the host first.\n";
  text.WriteToStderr();
}

}  // namespace devrt::mtia
