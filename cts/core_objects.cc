// SPDX-License-Identifier: Apache-2.0
#include "cts/core_objects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace devrt::cts {
namespace {

void Note(Test* t, const absl::Status& status, const char* what) {
  if (!status.ok()) t->Fail(absl::StrCat(what, ": ", status.ToString()));
}

bool All(const uint8_t* bytes, uint64_t size, uint8_t value) {
  return std::all_of(bytes, bytes + size,
                     [value](uint8_t b) { return b == value; });
}

}  // namespace

std::vector<uint8_t> Pattern(size_t size, uint32_t salt) {
  std::vector<uint8_t> bytes(size);
  uint32_t state = salt * 2654435761u + 12345;
  for (uint8_t& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

CoreBlock::CoreBlock(Test& t, Device device, uint64_t size)
    : t_(&t),
      device_(device),
      size_(size),
      ptr_(t.Require(Allocate(device, size), "Allocate")) {
  t.Require(ptr_ != nullptr, "allocated memory is not null");
  const Stream s = t.Require(Stream::Create(device), "Stream::Create");
  t.Ok(FillAsync(s, ptr_, 0, size), "FillAsync");
  t.Ok(s.Synchronize(), "Synchronize");
}

CoreBlock::CoreBlock(CoreBlock&& other) noexcept
    : t_(other.t_),
      device_(other.device_),
      size_(other.size_),
      ptr_(std::exchange(other.ptr_, nullptr)) {}

CoreBlock::~CoreBlock() {
  if (ptr_ == nullptr) return;
  Note(t_, device_.Synchronize(), "device synchronisation");
  Note(t_, Free(device_, ptr_), "Free");
}

std::vector<uint8_t> CoreBlock::Read() const {
  std::vector<uint8_t> bytes(size_);
  const Stream s = t_->Require(Stream::Create(device_), "Stream::Create");
  t_->Ok(Copy(s, bytes.data(), ptr_, size_), "Copy from the device");
  return bytes;
}

void CoreBlock::Write(const std::vector<uint8_t>& bytes) const {
  const Stream s = t_->Require(Stream::Create(device_), "Stream::Create");
  t_->Ok(Copy(s, ptr_, bytes.data(), bytes.size()), "Copy to the device");
}

bool CoreBlock::Holds(uint8_t value) const {
  const std::vector<uint8_t> bytes = Read();
  return All(bytes.data(), bytes.size(), value);
}

const char* CoreHost::Name(Kind kind) {
  switch (kind) {
    case Kind::kPageable:
      return "pageable";
    case Kind::kPinned:
      return "pinned";
    case Kind::kRegistered:
      return "registered";
  }
  return "unknown";
}

std::vector<CoreHost::Kind> CoreHost::Kinds(Test& t) {
  const uint64_t has = t.machine().capabilities();
  std::vector<Kind> kinds = {Kind::kPageable};
  if ((has & DEVRT_CAP_PINNED_HOST) != 0) kinds.push_back(Kind::kPinned);
  if ((has & DEVRT_CAP_HOST_REGISTER) != 0) kinds.push_back(Kind::kRegistered);
  return kinds;
}

CoreHost::CoreHost(Test& t, Device device, uint64_t size, Kind kind)
    : t_(&t), device_(device), size_(size), kind_(kind) {
  if (kind == Kind::kPinned) {
    void* const memory = t.Require(AllocateHost(device, size), "AllocateHost");
    t.Require(memory != nullptr, "allocated pinned memory is not null");
    ptr_ = static_cast<uint8_t*>(memory);
  } else {
    own_.resize(size);
    ptr_ = own_.data();
  }
  std::fill_n(ptr_, size, uint8_t{0});
  if (kind == Kind::kRegistered) {
    if (!t.Ok(RegisterHost(device, ptr_, size), "RegisterHost")) {
      throw Abandon{};
    }
  }
}

CoreHost::CoreHost(CoreHost&& other) noexcept
    : t_(other.t_),
      device_(other.device_),
      size_(other.size_),
      kind_(other.kind_),
      own_(std::move(other.own_)),
      ptr_(std::exchange(other.ptr_, nullptr)) {}

CoreHost::~CoreHost() {
  if (ptr_ == nullptr) return;
  Note(t_, device_.Synchronize(), "device synchronisation");
  if (kind_ == Kind::kPinned) Note(t_, FreeHost(ptr_), "FreeHost");
  if (kind_ == Kind::kRegistered) {
    Note(t_, UnregisterHost(device_, ptr_), "UnregisterHost");
  }
}

bool CoreHost::Holds(uint8_t value) const { return All(ptr_, size_, value); }

}  // namespace devrt::cts
