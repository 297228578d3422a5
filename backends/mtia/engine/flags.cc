// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/flags.h"

#include <algorithm>

namespace devrt::mtia {

Flag* Flags::Find(devrt_flag handle, devrt_status* error) const {
  const auto value = reinterpret_cast<uint64_t>(handle);
  Flag* const flag = handles_.Find(value);
  if (flag == nullptr) {
    *error = BadHandle("flag", value, handles_.WasOurs(value));
  }
  return flag;
}

Flag* Flags::New(uint32_t device) {
  Flag* const flag = handles_.New();
  flag->device = device;
  flag->value = 0;
  flag->number = ++last_number_;
  return flag;
}

void Flags::Set(Flag* flag, uint32_t value, Driver* driver) {
  flag->value = value;
  ++history_->progress;
  for (size_t i = 0; i < parked_.size();) {
    StreamCore* const s = parked_[i];
    if (s->head->flag != flag || !IsSet(s->head)) {
      ++i;
      continue;
    }
    parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(i));
    s->head_state = HeadState::kReady;
    driver->Unpark(s);
    i = 0;  // Unpark may have changed the list
  }
}

void Flags::Park(StreamCore* s) {
  s->head_state = HeadState::kParked;
  parked_.push_back(s);
}

void Flags::StopWaiting(StreamCore* s) {
  parked_.erase(std::remove(parked_.begin(), parked_.end(), s), parked_.end());
}

void Flags::Reset() {
  handles_.ForEachLive([this](Flag* flag) { handles_.Release(flag); });
  parked_.clear();
  last_number_ = 0;
}

}  // namespace devrt::mtia
