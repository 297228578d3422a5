// SPDX-License-Identifier: Apache-2.0

#include "memory/device/deferred_recovery.h"

namespace devrt::internal {

namespace {

__thread DeferredRecovery* t_deferred
    __attribute__((tls_model("initial-exec"))) = nullptr;

}  // namespace

DeferredRecovery::Scope::Scope(DeferredRecovery* deferred)
    : outer_(std::exchange(t_deferred, deferred)) {}

DeferredRecovery::Scope::~Scope() { t_deferred = outer_; }

DeferredRecovery* DeferredRecovery::Current() { return t_deferred; }

}  // namespace devrt::internal
