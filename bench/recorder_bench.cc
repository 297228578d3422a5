// SPDX-License-Identifier: Apache-2.0
//
// The recorder of collectives: what a record costs, and the report over many
// ranks of which one is behind.
//
// 4,096 ranks have files of 1.3 GB, in TMPDIR.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/bench_support.h"
#include "collectives/recorder/ring.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/collectives/recorder.h"

namespace bench {
namespace {

using devrt::collectives::internal::Call;
using devrt::collectives::internal::Ring;

constexpr int kCalls = 118;

std::unique_ptr<Ring> RingOf(uint32_t rank, uint32_t ranks,
                             const std::string& folder) {
  Ring::Identity identity;
  identity.key = 7;
  identity.id = 1;
  identity.rank = rank;
  identity.size = ranks;
  identity.label = "1";
  return Value(Ring::Make(identity, folder));
}

Call CallOf(uint64_t sequence) {
  Call call;
  call.op = DEVRT_COLLECTIVE_ALL_REDUCE;
  call.sequence = sequence;
  call.count = 4096;
  call.dtype = DEVRT_FLOAT32;
  call.site = devrt::CallSite::Here();
  return call;
}

void Append(benchmark::State& state) {
  const std::unique_ptr<Ring> ring = RingOf(0, 1, "");
  uint64_t sequence = 0;
  for (auto _ : state) {
    const uint64_t number = ring->Append(CallOf(++sequence));
    ring->End(number);
  }
}
BENCHMARK(Append);

// A new folder, which the destructor removes.
class Folder {
 public:
  Folder() {
    const char* const parent = getenv("TMPDIR");
    name_ = absl::StrCat(parent == nullptr ? "/tmp" : parent, "/ranks.XXXXXX");
    if (mkdtemp(name_.data()) == nullptr) {
      Check(absl::UnavailableError(absl::StrCat(name_, " cannot be made")));
    }
  }
  ~Folder() { std::filesystem::remove_all(name_); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

void Report(benchmark::State& state) {
  rlimit files;  // each ring has one
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const uint32_t behind = ranks / 3;
  const Folder folder;
  std::vector<std::unique_ptr<Ring>> rings;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    rings.push_back(RingOf(rank, ranks, folder.name()));
    const uint64_t calls = rank == behind ? kCalls - 1 : kCalls;
    for (uint64_t i = 1; i <= calls; ++i) rings.back()->Append(CallOf(i));
  }
  const std::string wanted =
      absl::StrCat("  rank ", behind, " is at ", kCalls - 1, " all_reduce(");
  for (auto _ : state) {
    const std::string text = Value(devrt::collectives::Report(folder.name()));
    if (!absl::StrContains(text, wanted)) state.SkipWithError(text.c_str());
  }
}
BENCHMARK(Report)->Arg(64)->Arg(4096)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bench
