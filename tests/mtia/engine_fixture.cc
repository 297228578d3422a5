// SPDX-License-Identifier: Apache-2.0
#include "tests/mtia/engine_fixture.h"

#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

namespace devrt::test {

Result Take(devrt_status status) {
  const OwnedStatus owned(status);
  if (owned.ok()) return Result();
  return {owned.code(), owned.native_code(), owned.flags(), owned.device(),
          owned.text()};
}

FakeHost& EngineTest::host() {
  static auto* const host = new FakeHost();
  return *host;
}

const devrt_backend_v0& EngineTest::backend() {
  static const devrt_backend_v0* const backend = [] {
    unsetenv("DEVRT_MTIA");
    auto* const made = new devrt_backend_v0();
    made->struct_size = sizeof *made;
    if (devrt_plugin_open_v0(host().table(), made) != nullptr) std::abort();
    return made;
  }();
  return *backend;
}

void EngineTest::Reset(const std::string& config) {
  std::string all = config;
  if (config.find("watchdog=") == config.npos) {
    all = "watchdog=200ms" + (config.empty() ? "" : "," + config);
  }
  OK(sim().reset(self(), all.data(), all.size()));
}

devrt_stream EngineTest::NewStream(uint32_t device, uint32_t flags,
                                   int32_t priority) {
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_CREATE;
  desc.flags = flags;
  desc.priority = priority;
  devrt_stream stream = nullptr;
  OK(ops().stream_create(self(), device, &desc, &stream));
  return stream;
}

devrt_stream EngineTest::Special(uint32_t kind, uint32_t device) {
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = kind;
  devrt_stream stream = nullptr;
  OK(ops().stream_create(self(), device, &desc, &stream));
  return stream;
}

devrt_event EngineTest::NewEvent(uint32_t device, uint32_t flags) {
  devrt_event event = nullptr;
  OK(ops().event_create(self(), device, flags, &event));
  return event;
}

devrt_flag EngineTest::NewFlag(uint32_t device) {
  devrt_flag flag = nullptr;
  OK(probe().flag_create(self(), device, &flag));
  return flag;
}

bool EngineTest::Done(devrt_stream stream) {
  uint32_t done = 2;
  OK(ops().stream_query(self(), stream, &done));
  return done == 1;
}

bool EngineTest::EventDone(devrt_event event) {
  uint32_t done = 2;
  OK(ops().event_query(self(), event, &done));
  return done == 1;
}

devrt_event EngineTest::Mark(devrt_stream stream, uint32_t device) {
  devrt_event event = NewEvent(device);
  Record(event, stream);
  return event;
}

devrt_status EngineTest::TryLaunch(devrt_stream stream, Body body,
                                   const std::vector<devrt_access_v0>& accesses,
                                   const char* name) {
  auto owned = std::make_unique<Body>(std::move(body));
  devrt_launch_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.access_count = static_cast<uint32_t>(accesses.size());
  desc.accesses = accesses.data();
  desc.name = name;
  desc.body = [](void* arg, const devrt_kernel_context_v0* context) {
    (*static_cast<Body*>(arg))(context);
  };
  desc.destroy = [](void* arg) { delete static_cast<Body*>(arg); };
  desc.arg = owned.get();
  devrt_status error = launch().launch(self(), stream, &desc);
  if (error == nullptr) static_cast<void>(owned.release());
  return error;
}

void EngineTest::Launch(devrt_stream stream, Body body,
                        const std::vector<devrt_access_v0>& accesses,
                        const char* name) {
  OK(TryLaunch(stream, std::move(body), accesses, name));
}

int64_t* EngineTest::NewCell(uint32_t device, int64_t value) {
  void* ptr = nullptr;
  OK(ops().alloc(self(), device, sizeof(int64_t), 0, &ptr));
  OK(sim().poke(self(), ptr, &value, sizeof value));
  return static_cast<int64_t*>(ptr);
}

int64_t EngineTest::Peek(const int64_t* cell) {
  int64_t value = 0;
  OK(sim().peek(self(), cell, &value, sizeof value));
  return value;
}

void EngineTest::Put(devrt_stream stream, int64_t* cell, int64_t value) {
  Launch(
      stream,
      [cell, value](const devrt_kernel_context_v0* context) {
        auto* const local = static_cast<int64_t*>(
            context->local(context, cell, sizeof *cell, DEVRT_ACCESS_WRITE));
        if (local != nullptr) *local = value;
      },
      {{cell, sizeof *cell, DEVRT_ACCESS_WRITE, 0}}, "put");
}

void EngineTest::MulAdd(devrt_stream stream, int64_t* cell, int64_t factor,
                        int64_t term) {
  constexpr uint32_t kBoth = DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE;
  Launch(
      stream,
      [cell, factor, term](const devrt_kernel_context_v0* context) {
        auto* const local = static_cast<int64_t*>(
            context->local(context, cell, sizeof *cell, kBoth));
        if (local != nullptr) *local = *local * factor + term;
      },
      {{cell, sizeof *cell, kBoth, 0}}, "mul_add");
}

void EngineTest::UntilAsleep(const std::atomic<int>& tid) {
  while (tid == 0) std::this_thread::yield();
  const std::string path = "/proc/self/task/" + std::to_string(tid) + "/stat";
  for (std::string text;; std::this_thread::yield()) {
    std::ifstream file(path);
    if (!file) return;  // it has ended
    std::getline(file, text);
    const size_t name_end = text.rfind(')');
    if (name_end != text.npos && text.substr(name_end, 3) == ") S") return;
  }
}

std::string EngineTest::Text(devrt_status (*get)(void*, char*, uint64_t,
                                                 uint64_t*)) {
  uint64_t size = 0;
  OK(get(self(), nullptr, 0, &size));
  std::string text(size, '\0');
  OK(get(self(), text.data(), text.size(), &size));
  text.resize(size < text.size() ? size : text.size());
  return text;
}

devrt_sim_stats_v1 EngineTest::Stats() {
  devrt_sim_stats_v1 stats = {};
  stats.struct_size = sizeof stats;
  OK(sim().stats(self(), &stats));
  return stats;
}

uint64_t EngineTest::TraceHash() {
  uint64_t hash = 0, steps = 0;
  OK(sim().trace_hash(self(), &hash, &steps));
  return hash;
}

}  // namespace devrt::test
