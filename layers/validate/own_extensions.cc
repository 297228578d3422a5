// SPDX-License-Identifier: Apache-2.0
//
// The extensions that the layer adds to each backend: blocks of allocators
// (devrt_suballocation.h), and what only the program knows (devrt_race.h).
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "layers/validate/layer_state.h"
#include "layers/validate/pinned_pages.h"

namespace devrt::race {
namespace {

Mode ModeOf(uint32_t access) {
  if ((access & DEVRT_ACCESS_REDUCE) != 0) return Mode::kReduce;
  if (access == DEVRT_ACCESS_READ) return Mode::kRead;
  return access == DEVRT_ACCESS_WRITE ? Mode::kWrite : Mode::kReadWrite;
}

constexpr devrt_suballocation_v0 kBlocks = {
    sizeof(devrt_suballocation_v0),
    0,
    [](void*, uint32_t, void*, uint64_t) -> devrt_status { return nullptr; },
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

constexpr devrt_race_v0 kRace = {
    sizeof(devrt_race_v0),
    0,
    [](void* self, devrt_stream stream, const char* name,
       const devrt_access_v0* accesses, uint32_t count) -> devrt_status {
      JudgeTouches();
      if (static_cast<const Captures*>(self)->Has(stream)) return nullptr;
      const std::vector<MemoryAccess> used = Accesses(accesses, count);
      devrt_status refusal = Verdict(g_layer.validator->Enqueue(
          CallerOn(name == nullptr ? "native work" : name, stream), stream,
          used));
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
      return Verdict(g_layer.validator->UseByHost(CallerOf(name),
                                                  Accesses(accesses, count)));
    },
    [](void*, uint64_t after,
       void (*visit)(void* arg, const devrt_finding_v0* finding), void* arg,
       uint64_t* total) -> devrt_status {
      JudgeTouches();
      *total = g_layer.validator->VisitFindings(
          after, [&](const std::string& id, const Findings::Made& made) {
            const devrt_finding_v0 finding = {
                sizeof finding,    0,
                id.c_str(),        made.kind.c_str(),
                made.text.c_str(), made.json.c_str()};
            if (visit != nullptr) visit(arg, &finding);
          });
      return nullptr;
    },
};

}  // namespace

std::vector<MemoryAccess> Accesses(const devrt_access_v0* accesses,
                                   uint32_t count) {
  std::vector<MemoryAccess> translated;
  translated.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    translated.push_back(
        Accessed(accesses[i].ptr, accesses[i].size, ModeOf(accesses[i].mode)));
    translated.back().reduction = accesses[i].reduction;
    translated.back().by_kernel = true;
  }
  return translated;
}

Caller CallerOf(const char* name) {
  const devrt_call_site_v0* const site =
      g_layer.host->call_site(g_layer.host->host);
  return {site->label == nullptr ? name : site->label, site->file, site->line,
          0};
}

Caller CallerOn(const char* name, devrt_stream stream) {
  Caller caller = CallerOf(name);
  if (g_layer.numbers != nullptr) {
    caller.stream_number = g_layer.numbers->number(g_layer.host->host, stream);
  }
  return caller;
}

void JudgeTouches() {
  PinnedPages* const pages = g_layer.pages.load(std::memory_order_acquire);
  if (pages != nullptr) pages->JudgeTouches();
}

bool Captures::Has(devrt_stream stream) const {
  if (table == nullptr) return false;
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

devrt_status Verdict(const std::string& found) {
  if (!g_layer.throws || found.empty()) return nullptr;
  return plugin::Error(g_layer.host, DEVRT_FAILED_PRECONDITION, 0, found);
}

const void* OwnExtension(const char* name) {
  if (g_layer.validator == nullptr) return nullptr;
  if (std::strcmp(name, DEVRT_RACE_EXTENSION) == 0) return &kRace;
  if (std::strcmp(name, DEVRT_SUBALLOCATION_EXTENSION) == 0) return &kBlocks;
  return nullptr;
}

}  // namespace devrt::race
