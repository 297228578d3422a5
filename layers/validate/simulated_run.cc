// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/simulated_run.h"

#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "layers/validate/layer_state.h"

namespace devrt::race {
namespace {

// FNV-1a.
constexpr uint64_t kStart = 14695981039346656037U;
constexpr uint64_t kPrime = 1099511628211U;

uint64_t HashOf(const void* bytes, uint64_t size, uint64_t hash) {
  const auto* const at = static_cast<const unsigned char*>(bytes);
  for (uint64_t i = 0; i < size; ++i) hash = (hash ^ at[i]) * kPrime;
  return hash;
}

uint64_t Mixed(uint64_t hash, uint64_t value) {
  return HashOf(&value, sizeof value, hash);
}

// Returns true if the call succeeded.
bool Succeeds(devrt_status status) {
  if (status == nullptr) return true;
  g_layer.host->error_destroy(g_layer.host->host, status);
  return false;
}

}  // namespace

OpId SimulatedRun::Next(OpId::Kind kind) const {
  OpId id;
  if (finished_.load() || !DEVRT_HAS_FIELD(sim_, devrt_sim_v1, next_op)) {
    return id;
  }
  // A thread that may not call the simulator submits nothing either.
  if (Succeeds(sim_->next_op(self_, &id.thread, &id.index))) id.kind = kind;
  return id;
}

void SimulatedRun::Observe(const void* ptr, uint64_t size) {
  const MemoryKind kind = g_layer.validator->BlockAt(ptr).kind;
  if (kind == MemoryKind::kDevice || size == 0) return;
  const OpId at = Next(OpId::Kind::kNext);
  if (!at.known()) return;
  std::vector<char> bytes;
  const void* from = ptr;
  if (kind == MemoryKind::kPinned) {
    // A read by the pointer might touch a closed page.
    bytes.resize(size);
    if (!Succeeds(sim_->peek(self_, ptr, bytes.data(), size))) return;
    from = bytes.data();
  }
  observed_.fetch_add(
      HashOf(from, size, Mixed(Mixed(kStart, at.thread), at.index)));
}

devrt_status SimulatedRun::Carve(uint32_t device, void* base,
                                 uint64_t size) const {
  void* self = nullptr;
  const auto* const blocks = static_cast<const devrt_suballocation_v0*>(
      next_->extension(next_, DEVRT_SUBALLOCATION_EXTENSION, &self));
  if (blocks == nullptr) return nullptr;
  return blocks->carve(self, device, base, size);
}

devrt_status SimulatedRun::Outcome(uint64_t* hash) const {
  devrt_status status = sim_->outcome(self_, hash);
  if (status == nullptr) *hash = Mixed(Mixed(kStart, *hash), observed_.load());
  return status;
}

std::optional<RunSummary> SimulatedRun::Finish() {
  if (finished_.load()) return std::nullopt;
  uint32_t devices = 0;
  if (!Succeeds(next_->ops->device_count(next_->self, &devices))) devices = 0;
  // A program may end with work in flight, more of it in one schedule than in
  // another.
  for (uint32_t device = 0; device < devices; ++device) {
    Succeeds(next_->ops->device_sync(next_->self, device));
  }
  RunSummary summary;
  summary.backend = next_->manifest->backend;
  summary.restarts = restarts_.load();
  uint64_t hash = 0;
  if (DEVRT_HAS_FIELD(sim_, devrt_sim_v1, outcome) &&
      Succeeds(Outcome(&hash))) {
    summary.outcome = hash;
  }
  uint64_t size = 0;
  if (Succeeds(sim_->token(self_, nullptr, 0, &size))) {
    summary.token.resize(size);
    if (!Succeeds(sim_->token(self_, summary.token.data(), size, &size))) {
      summary.token.clear();
    }
  }
  finished_.store(true);
  return summary;
}

}  // namespace devrt::race
