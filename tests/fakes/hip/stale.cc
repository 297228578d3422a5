// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/hip/stale.h"

#include <cstring>
#include <set>
#include <vector>

namespace devrt::fake {
namespace {

struct Write {
  void* dst;
  std::vector<char> bytes;
};

struct State {
  std::mutex mutex;  // guards what follows
  std::set<const void*> incoherent;
  std::vector<Write> unseen;  // in order
};

State& TheState() {
  static auto* const state = new State();
  return *state;
}

}  // namespace

void AddIncoherent(const void* base) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  TheState().incoherent.insert(base);
}

void RemoveIncoherent(const void* base) {
  ShowWrites();
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  TheState().incoherent.erase(base);
}

bool IsIncoherent(const void* base) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  return TheState().incoherent.count(base) != 0;
}

hipError_t CopyUnseen(const Target& target, void* dst, const void* src,
                      size_t size) {
  return static_cast<hipError_t>(engine::LaunchBody(
      target.sim, "copy to memory that is not coherent",
      [=](const devrt_kernel_context_v0& context) {
        const auto* const local = static_cast<const char*>(
            context.local(&context, src, size, DEVRT_ACCESS_READ));
        if (local == nullptr) return;
        State& state = TheState();
        const std::lock_guard<std::mutex> lock(state.mutex);
        state.unseen.push_back({dst, std::vector<char>(local, local + size)});
      }));
}

void ShowWrites() {
  if (!Has(kC37Stale)) return;
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  for (const Write& write : state.unseen) {
    std::memcpy(write.dst, write.bytes.data(), write.bytes.size());
  }
  state.unseen.clear();
}

}  // namespace devrt::fake
