// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/system/helper_thread.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace devrt::mtia {

Helpers& TheHelpers() {
  static auto* const helpers = new Helpers();
  return *helpers;
}

Helper* Helpers::Add() {
  const std::lock_guard<std::mutex> lock(mu_);
  Helper* helper = nullptr;
  for (Helper& known : all_) {
    if (!known.taken) helper = &known;
  }
  if (helper == nullptr) helper = &all_.emplace_back();
  helper->tid = 0;
  helper->idle = false;
  helper->taken = true;
  return helper;
}

void Helpers::Begin(Helper* helper) {
  t_helper = helper;
  helper->tid = static_cast<int32_t>(syscall(SYS_gettid));
}

void Helpers::AddIdle(std::vector<int32_t>* tids) {
  const std::lock_guard<std::mutex> lock(mu_);
  for (const Helper& helper : all_) {
    if (helper.taken && helper.idle && helper.tid != 0) {
      tids->push_back(helper.tid);
    }
  }
}

}  // namespace devrt::mtia
