// SPDX-License-Identifier: Apache-2.0
//
// The extensions that the layer adds to each backend: blocks of allocators
// (devrt_suballocation.h), and what only the program knows (devrt_race.h).
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "layers/validate/layer_state.h"
#include "layers/validate/pinned_pages.h"
#include "layers/validate/simulated_run.h"

namespace devrt::race {
namespace {

// By the bits of DEVRT_ACCESS_*.
constexpr Mode kModes[] = {Mode::kReadWrite, Mode::kRead,   Mode::kWrite,
                           Mode::kReadWrite, Mode::kReduce, Mode::kReduce,
                           Mode::kReduce,    Mode::kReduce};
static_assert(DEVRT_ACCESS_READ == 1 && DEVRT_ACCESS_WRITE == 2 &&
              DEVRT_ACCESS_REDUCE == 4);

constexpr devrt_suballocation_v0 kBlocks = {
    sizeof(devrt_suballocation_v0),
    0,
    [](void*, uint32_t device, void* base, uint64_t size) -> devrt_status {
      g_layer.validator->Carve(base);
      const SimulatedRun* const run = g_layer.witnessed;
      return run == nullptr ? nullptr : run->Carve(device, base, size);
    },
    [](void*, devrt_stream stream, void* ptr, uint64_t size) -> devrt_status {
      g_layer.validator->HandOut(CallerOf("allocation"), stream, ptr, size);
      return nullptr;
    },
    [](void*, devrt_stream stream, void* ptr) -> devrt_status {
      g_layer.validator->TakeBack(CallerOf("free"), stream, ptr);
      return nullptr;
    },
    [](void*, uint32_t, void* base, uint64_t size) -> devrt_status {
      g_layer.validator->Uncarve(base, size);
      return nullptr;
    },
};

void ObserveReads(const devrt_access_v0* accesses, uint32_t count) {
  SimulatedRun* const run = g_layer.witnessed;
  if (run == nullptr) return;
  for (uint32_t i = 0; i < count; ++i) {
    if ((accesses[i].mode & DEVRT_ACCESS_READ) == 0) continue;
    run->Observe(accesses[i].ptr, accesses[i].size);
  }
}

constexpr devrt_race_v0 kRace = {
    sizeof(devrt_race_v0),
    0,
    [](void* self, devrt_stream stream, const char* name,
       const devrt_access_v0* accesses, uint32_t count) -> devrt_status {
      JudgeTouches();
      if (static_cast<const Captures*>(self)->Has(stream)) return nullptr;
      const ShortList used = Accesses(accesses, count);
      devrt_status refusal = Verdict(g_layer.validator->Enqueue(
          CallerOn("native work", stream, name), stream, used));
      if (refusal != nullptr) g_layer.validator->Retract(used);
      return refusal;
    },
    [](void*, devrt_stream earlier, devrt_stream later) -> devrt_status {
      JudgeTouches();
      g_layer.validator->OrderStreams(earlier, later);
      return nullptr;
    },
    [](void*, const char* name, const devrt_access_v0* accesses,
       uint32_t count) -> devrt_status {
      const ShortList used = Accesses(accesses, count);
      devrt_status refusal =
          Verdict(g_layer.validator->UseByHost(CallerOf("", name), used));
      // The program leaves a refused use out.
      if (refusal != nullptr) {
        g_layer.validator->Retract(used);
      } else {
        ObserveReads(accesses, count);
      }
      return refusal;
    },
    [](void*, uint64_t after,
       void (*visit)(void* arg, const devrt_finding_v0* finding), void* arg,
       uint64_t* total) -> devrt_status {
      JudgeTouches();
      *total = g_layer.validator->VisitFindings(
          after, [&](const std::string& id, const Findings::Made& made) {
            const devrt_finding_v0 finding = {
                sizeof finding,
                0,
                id.c_str(),
                made.kind.c_str(),
                made.text.c_str(),
                made.json.c_str(),
                made.hold.empty() ? nullptr : made.hold.c_str(),
                made.until.empty() ? nullptr : made.until.c_str()};
            if (visit != nullptr) visit(arg, &finding);
          });
      return nullptr;
    },
    [](void*) -> devrt_status {
      if (g_layer.run == nullptr) {
        return plugin::Error(g_layer.host, DEVRT_NOT_FOUND, 0,
                             "a witness needs a simulator, and no open backend "
                             "is one");
      }
      g_layer.witnessed = g_layer.run;
      return nullptr;
    },
    [](void*, const devrt_access_v0* accesses, uint32_t count) {
      const ShortList used = Accesses(accesses, count);
      t_host_func_accesses.assign(used.begin(), used.end());
      // Only kernels need access to a peer's memory.
      for (MemoryAccess& access : t_host_func_accesses) {
        access.by_kernel = false;
      }
    },
    [](void*, devrt_stream later) {
      g_layer.validator->OrderAfterOwnQueries(later);
    },
    [](void* self, uint32_t device, void* ptr, uint64_t size) {
      JudgeTouches();
      const DeviceKey device0 = static_cast<const Captures*>(self)->device0;
      g_layer.validator->HandOutPinned(CallerOf("allocation"), device0 + device,
                                       ptr, size);
      UpdatePages();
    },
    [](void*, void* ptr) {
      JudgeTouches();
      g_layer.validator->TakeBackPinned(CallerOf("free"), ptr);
      UpdatePages();
    },
    [](void*, devrt_stream stream, void* ptr, const devrt_stream* users,
       uint32_t count) {
      g_layer.validator->TakeBack(CallerOf("free"), stream, ptr,
                                  {users, users + count});
    },
    [](void* self, uint32_t device, uint32_t kind, const void* object) {
      Caller caller = LineOf("");
      if (caller.file == nullptr) return;  // devrt made it for itself
      caller.stack = TakeStack();
      const DeviceKey device0 = static_cast<const Captures*>(self)->device0;
      g_layer.validator->NoteMade(
          caller, device0 + device, object,
          kind == DEVRT_RACE_STREAM ? "stream" : "event");
    },
    [](void*, const void* object) { g_layer.validator->NoteEnded(object); },
    [](void*) {
      g_layer.has_told_leaks = true;
      g_layer.validator->AddLeaks();
    },
    [](void*, const void* object) {
      g_layer.validator->Release(reinterpret_cast<uint64_t>(object));
    },
    [](void*, const void* object) {
      JudgeTouches();
      g_layer.validator->Acquire(reinterpret_cast<uint64_t>(object));
    },
    [](void*, const void* object) {
      g_layer.validator->ForgetObject(reinterpret_cast<uint64_t>(object));
    },
    [](void*, devrt_event event) { g_layer.validator->OwnEvent(event); },
    [](void*) -> uint32_t {
      return g_layer.validator->HasExactHostOrder() ? DEVRT_HOST_ORDER_EXACT
                                                    : DEVRT_HOST_ORDER_OBSERVED;
    },
    [](void*, uint32_t order) -> devrt_status {
      if (order > DEVRT_HOST_ORDER_EXACT) {
        return plugin::Error(g_layer.host, DEVRT_INVALID_ARGUMENT, 0,
                             "order of host threads " + std::to_string(order) +
                                 "; expected 0, observed, or 1, exact");
      }
      JudgeTouches();
      g_layer.validator->SetExactHostOrder(order == DEVRT_HOST_ORDER_EXACT);
      return nullptr;
    },
    [](void*, uint32_t wanted) -> uint32_t {
      return SetStacks(wanted != 0) ? 1 : 0;
    },
};

}  // namespace

ShortList Accesses(const devrt_access_v0* accesses, uint32_t count) {
  ShortList translated(count);
  MemoryAccess* access = translated.data();
  for (uint32_t i = 0; i < count; ++i, ++access) {
    access->address = reinterpret_cast<uint64_t>(accesses[i].ptr);
    access->size = accesses[i].size;
    access->mode = kModes[accesses[i].mode & 7];
    access->reduction = accesses[i].reduction;
    access->by_kernel = true;
  }
  return translated;
}

Validator::HasMemory MemoryQuestion(const devrt_next_v0* next) {
  return [next](const void* ptr) {
    devrt_pointer_info_v0 info = {};
    info.struct_size = sizeof info;
    devrt_status error = next->ops->pointer_info(next->self, ptr, &info);
    g_layer.host->error_destroy(g_layer.host->host, error);
    return error == nullptr && info.kind != DEVRT_POINTER_UNREGISTERED;
  };
}

OpId NextOp(OpId::Kind kind) {
  const SimulatedRun* const run = g_layer.witnessed;
  return run == nullptr ? OpId() : run->Next(kind);
}

uint32_t TakeStack() {
  CallStacks* const stacks = g_layer.stacks;
  return stacks == nullptr ? 0 : stacks->Take();
}

bool SetStacks(bool wanted) {
  CallStacks* const stacks =
      wanted && !g_layer.never_takes_stacks ? g_layer.all_stacks : nullptr;
  const bool was_wanted = g_layer.stacks.exchange(stacks) != nullptr;
  if (was_wanted != (stacks != nullptr)) {
    g_layer.all_stacks->Want(stacks != nullptr);
  }
  return was_wanted;
}

void EndRun() {
  SimulatedRun* const run = g_layer.witnessed;
  if (run == nullptr) return;
  if (std::optional<RunSummary> summary = run->Finish()) {
    g_layer.findings->AddRun(*std::move(summary));
  }
}

void FindHostExtensions() {
  const devrt_host_v0* const host = g_layer.host;
  if (host->get_extension == nullptr) return;
  g_layer.numbers = static_cast<const devrt_stream_number_v0*>(
      host->get_extension(host->host, DEVRT_STREAM_NUMBER_EXTENSION));
  g_layer.own_queries = static_cast<const devrt_own_query_v0*>(
      host->get_extension(host->host, DEVRT_OWN_QUERY_EXTENSION));
}

void UpdatePages() {
  PinnedPages* const pages = g_layer.pages.load(std::memory_order_acquire);
  if (pages != nullptr) pages->Update();
}

bool Captures::Ask(devrt_stream stream) const {
  uint32_t captures = 0;
  g_layer.host->error_destroy(
      g_layer.host->host, table->stream_is_capturing(self, stream, &captures));
  if (captures == 0) return false;
  static std::once_flag once;
  std::call_once(once, [] {
    plugin::Log(g_layer.host, DEVRT_LOG_WARNING, __FILE__, __LINE__,
                "validate: a stream records a graph. Runs of the graph are not "
                "seen; declare what they use with AnnotateWork");
  });
  return true;
}

devrt_status Refusal(const std::string& found) {
  if (!g_layer.throws) return nullptr;
  return plugin::Error(g_layer.host, DEVRT_FAILED_PRECONDITION, 0, found);
}

const void* OwnExtension(const char* name) {
  if (g_layer.validator == nullptr) return nullptr;
  if (std::strcmp(name, DEVRT_RACE_EXTENSION) == 0) return &kRace;
  if (std::strcmp(name, DEVRT_SUBALLOCATION_EXTENSION) == 0) return &kBlocks;
  return nullptr;
}

}  // namespace devrt::race
