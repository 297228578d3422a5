// SPDX-License-Identifier: Apache-2.0
//
// Collectives beside the raw calls of NCCL, in the columns of nccl-tests.
//
//   collectives_bench --device=cuda --ranks=2 --max_bytes=1073741824
//
// All ranks are in this process.  One thread submits for all by a group.  With
// --threads=N, the number of ranks, each rank has a thread.  A row is one
// operation and size, and has a time for each way to make the call:
//
//   devrt             Communicator::Submit or Group::Submit, over pointers
//   devrt, arrays     the same over arrays, which other streams may use
//   NCCL              the native call, on communicators that block
//   NCCL, unblocked   the native call on communicators that do not block; it
//                     polls until the call is enqueued
//   NCCL, blocking child  the native call on children of those, which block, as
//                     those of devrt do
//
// Native calls have a stream of their own.  Who has a stream's handle may
// capture the stream, so devrt would ask the driver about it at each call.
//
// A time is that of one call in a row of calls, from the first submission to
// the end of the last operation; the host's is that of the submissions alone.
// All figures are medians of rounds, in which the ways take turns.
//
// --device=mtia, the default, has devrt's rows alone.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "bench/bench_support.h"
#include "bench/raw_nccl.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/guards/device_guard.h"

namespace bench {
namespace {

using devrt::Array;
using devrt::collectives::Communicator;
using devrt::collectives::Group;
using devrt::collectives::Operation;
using devrt::collectives::OpKind;
using devrt::collectives::RawOperation;

struct Settings {
  std::string device = "mtia";
  int64_t ranks = 1;
  int64_t threads = 1;  // or as many as ranks
  int64_t min_bytes = 1024;
  int64_t max_bytes = 1 << 20;
  int64_t factor = 4;  // from one size to the next
  int64_t rounds = 9;
  int64_t calls = 200;  // of small sizes in a round
  std::string json;
};

[[noreturn]] void Exit(int code, const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(code);
}

// What nccl-tests call the operation, and its bus bandwidth: bytes on a link
// for each byte of the buffer, by the number of ranks.
struct Kind {
  const char* name;
  OpKind kind;
  double (*bus)(double ranks);
};
double Ring(double n) { return (n - 1) / n; }
constexpr Kind kKinds[] = {
    {"all_reduce", OpKind::kAllReduce, [](double n) { return 2 * Ring(n); }},
    {"all_gather", OpKind::kAllGather, &Ring},
    {"reduce_scatter", OpKind::kReduceScatter, &Ring},
    {"broadcast", OpKind::kBroadcast, [](double) { return 1.0; }},
};

struct Rank {
  devrt::Device device;
  devrt::Stream stream;
  devrt::Stream other;  // of the second communicator
  devrt::Stream raw;    // of native calls
  Array in, out;
};

// ---- Rows -------------------------------------------------------------------

// Makes the call once, for `count` ranks from `first` on.
using Call = std::function<void(size_t first, size_t count)>;

// A way to make the call, and its times.
struct Way {
  Way(std::string of_name, Call makes)
      : name(std::move(of_name)), call(std::move(makes)) {}
  std::string name;
  Call call;
  std::vector<double> us, host_us;
};

struct Row {
  std::string op, redop;
  uint64_t bytes = 0, count = 0;
  bool in_place = false;
  double bus = 0;
  std::map<std::string, double> us, host_us;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  explicit Bench(Settings settings);
  void Run();

 private:
  void Measure(const Kind& kind, uint64_t bytes, bool in_place);
  void MeasureTwo();
  void Time(std::vector<Way>* ways, int64_t calls);
  void TimeOnce(const Way& way, int64_t calls, double* us, double* host_us);
  void Synchronize() { Synchronize(0, ranks_.size()); }
  void Synchronize(size_t first, size_t count);
  void Verify(const Kind& kind, const Row& row, const std::string& way);
  void Submit(std::vector<Communicator>* comms,
              const std::vector<Operation>& ops, size_t first, size_t count,
              bool second = false);
  void Print(const Row& row) const;
  void WriteJson() const;

  const Settings settings_;
  std::vector<Rank> ranks_;
  std::vector<Communicator> comms_, others_;
  std::vector<std::pair<std::string, std::unique_ptr<RawNccl>>> raw_;
  std::vector<Row> rows_;
  double alone_us_ = 0, turns_us_ = 0;
};

Bench::Bench(Settings settings) : settings_(std::move(settings)) {
  std::vector<devrt::Device> devices = Value(devrt::Devices(settings_.device));
  const auto ranks = static_cast<size_t>(settings_.ranks);
  if (devices.size() < ranks) {
    Exit(77, absl::StrCat(settings_.device, " has ", devices.size(),
                          " devices, and --ranks=", ranks));
  }
  devices.erase(devices.begin() + static_cast<std::ptrdiff_t>(ranks),
                devices.end());
  absl::StatusOr<std::vector<Communicator>> made =
      Communicator::CreateAll(devices);
  if (absl::IsUnavailable(made.status())) Exit(77, made.status().ToString());
  comms_ = Value(std::move(made));
  others_ = Value(Communicator::CreateAll(devices));
  // All-gather has `ranks` times the bytes on one side; a size is of that side.
  const int64_t count = settings_.max_bytes / 4;
  for (const devrt::Device device : devices) {
    devrt::Stream stream = Value(devrt::Stream::Create(device));
    devrt::Stream other = Value(devrt::Stream::Create(device));
    devrt::Stream raw = Value(devrt::Stream::Create(device));
    Check(devrt::SetCurrentStream(stream));
    Array in = Value(Array::Full({count}, devrt::kFloat32, 1.0F, device));
    Array out = Value(Array::Zeros({count}, devrt::kFloat32, device));
    ranks_.push_back(Rank{device, std::move(stream), std::move(other),
                          std::move(raw), std::move(in), std::move(out)});
  }
  Synchronize();
  const devrt::collectives::ProviderInfo provider = comms_[0].provider();
  if (provider.name != "nccl") return;
  std::vector<RawNccl::Place> places;
  for (const Rank& rank : ranks_) {
    places.push_back({rank.device, Value(rank.raw.Native())});
  }
  using Calls = RawNccl::Calls;
  for (const auto& [name, calls] : std::map<std::string, Calls>{
           {"NCCL", Calls::kBlock},
           {"NCCL, unblocked", Calls::kPoll},
           {"NCCL, blocking child", Calls::kBlockInChild}}) {
    if (calls == Calls::kBlockInChild && ranks_.size() == 1) continue;
    auto raw = std::make_unique<RawNccl>(provider.path, places, calls);
    if (raw->works()) raw_.emplace_back(name, std::move(raw));
  }
}

void Bench::Synchronize(size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    Check(ranks_[i].stream.Synchronize());
    Check(ranks_[i].other.Synchronize());
    Check(ranks_[i].raw.Synchronize());
  }
}

void Bench::Submit(std::vector<Communicator>* comms,
                   const std::vector<Operation>& ops, size_t first,
                   size_t count, bool second) {
  const auto stream = [&](size_t i) {
    return second ? ranks_[i].other.ref() : ranks_[i].stream.ref();
  };
  if (count == 1) {
    Check((*comms)[first].Submit({&ops[first], 1}, stream(first)));
    return;
  }
  Group group;
  for (size_t i = first; i < first + count; ++i) {
    group.Add((*comms)[i], ops[i], stream(i));
  }
  Check(group.Submit());
}

void Bench::TimeOnce(const Way& way, int64_t calls, double* us,
                     double* host_us) {
  using Clock = std::chrono::steady_clock;
  const auto threads = static_cast<size_t>(settings_.threads);
  const size_t share = ranks_.size() / threads;
  std::vector<Clock::time_point> begin(threads), submitted(threads),
      end(threads);
  std::atomic<size_t> not_ready{threads};
  const auto run = [&](size_t thread) {
    const size_t first = thread * share;
    const devrt::DeviceGuard guard(ranks_[first].device);
    way.call(first, share);  // the first one of a thread costs more
    Synchronize(first, share);
    --not_ready;
    while (not_ready != 0) {
    }
    begin[thread] = Clock::now();
    for (int64_t i = 0; i < calls; ++i) way.call(first, share);
    submitted[thread] = Clock::now();
    Synchronize(first, share);
    end[thread] = Clock::now();
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
  for (std::thread& other : others) other.join();
  const Clock::time_point start = *std::min_element(begin.begin(), begin.end());
  const auto until = [&](const std::vector<Clock::time_point>& times) {
    const Clock::time_point last =
        *std::max_element(times.begin(), times.end());
    return std::chrono::duration<double, std::micro>(last - start).count() /
           static_cast<double>(calls);
  };
  *us = until(end);
  *host_us = until(submitted);
}

void Bench::Time(std::vector<Way>* ways, int64_t calls) {
  // The first round is not counted.
  for (int64_t round = 0; round <= settings_.rounds; ++round) {
    for (Way& way : *ways) {
      double us = 0, host_us = 0;
      TimeOnce(way, calls, &us, &host_us);
      if (round == 0) continue;
      way.us.push_back(us);
      way.host_us.push_back(host_us);
    }
  }
}

void Bench::Measure(const Kind& kind, uint64_t bytes, bool in_place) {
  const auto n = static_cast<uint64_t>(ranks_.size());
  const bool gathers = kind.kind == OpKind::kAllGather;
  const bool scatters = kind.kind == OpKind::kReduceScatter;
  const bool reduces = scatters || kind.kind == OpKind::kAllReduce;
  const uint64_t count = bytes / 4 / (gathers || scatters ? n : 1);
  std::vector<RawOperation> raw;
  std::vector<Operation> pointers, arrays;
  for (const Rank& rank : ranks_) {
    const auto part = [&](const Array& of, bool whole) {
      return Value(of.SliceAxis(
          0, {0, static_cast<int64_t>(whole ? count * n : count)}));
    };
    Array in = part(rank.in, scatters);
    Array out = in_place ? in : part(rank.out, gathers);
    RawOperation op;
    op.kind = kind.kind;
    op.count = count;
    op.src = in.data();
    op.dst = out.data();
    raw.push_back(op);
    pointers.emplace_back(op);
    arrays.emplace_back(kind.kind, &out, &in, op.reduction, 0,
                        devrt::CallSite::Here());
  }
  std::vector<Way> ways;
  ways.emplace_back("devrt", [&](size_t first, size_t of) {
    Submit(&comms_, pointers, first, of);
  });
  ways.emplace_back("devrt, arrays", [&](size_t first, size_t of) {
    Submit(&comms_, arrays, first, of);
  });
  for (auto& [name, nccl] : raw_) {
    ways.emplace_back(name, [&raw, one = nccl.get()](size_t first, size_t of) {
      one->Run(raw, first, of);
    });
  }
  Row row;
  row.op = kind.name;
  row.redop = reduces ? "sum" : "none";
  row.bytes = bytes;
  row.count = count;
  row.in_place = in_place;
  row.bus = kind.bus(static_cast<double>(n));
  if (!in_place && bytes <= 1 << 20) {
    for (const Way& way : ways) {
      double us = 0, host_us = 0;
      TimeOnce(way, 0, &us, &host_us);
      Verify(kind, row, way.name);
    }
  }
  const int64_t most = (int64_t{1} << 28) / static_cast<int64_t>(bytes);
  Time(&ways, std::max<int64_t>(5, std::min(settings_.calls, most)));
  for (const Way& way : ways) {
    row.us[way.name] = Median(way.us);
    row.host_us[way.name] = Median(way.host_us);
  }
  Print(row);
  rows_.push_back(row);
}

// Ends the program if an output is wrong.  All inputs are 1.
void Bench::Verify(const Kind& kind, const Row& row, const std::string& way) {
  Synchronize();
  const auto n = static_cast<float>(ranks_.size());
  const float expected = row.redop == "sum" ? n : 1.0F;
  const uint64_t count =
      kind.kind == OpKind::kAllGather ? row.count * ranks_.size() : row.count;
  for (const Rank& rank : ranks_) {
    Check(devrt::SetCurrentStream(rank.stream));
    const Array out =
        Value(rank.out.SliceAxis(0, {0, static_cast<int64_t>(count)}));
    const Array host = Value(out.To(devrt::Place::Host()));
    for (uint64_t i = 0; i < count; ++i) {
      if (host.data_as<float>()[i] == expected) continue;
      Exit(1, absl::StrCat(way, " of ", kind.name, ": element ", i, " is ",
                           host.data_as<float>()[i], ", expected ", expected));
    }
    Check(out.Fill(0.0F));
  }
  Synchronize();
}

// Two communicators in turns, each on its own stream, beside one alone.
void Bench::MeasureTwo() {
  std::vector<Operation> ops;
  for (const Rank& rank : ranks_) {
    RawOperation op;
    op.count = 256;
    op.src = rank.in.data();
    op.dst = rank.out.data();
    ops.emplace_back(op);
  }
  std::vector<int64_t> turn(ranks_.size());  // of each thread
  std::vector<Way> ways;
  ways.emplace_back("alone", [&](size_t first, size_t of) {
    Submit(&comms_, ops, first, of);
  });
  ways.emplace_back("turns", [&](size_t first, size_t of) {
    const bool second = ++turn[first] % 2 == 0;
    Submit(second ? &others_ : &comms_, ops, first, of, second);
  });
  Time(&ways, settings_.calls);
  alone_us_ = Median(ways[0].us);
  turns_us_ = Median(ways[1].us);
  std::printf(
      "\ntwo communicators in turns on two streams: %.2f us a call, %.2f us "
      "for one alone\n",
      turns_us_, alone_us_);
}

void Bench::Print(const Row& row) const {
  for (const auto& [name, us] : row.us) {
    const double algbw = static_cast<double>(row.bytes) / us / 1e3;
    std::printf("%14s %12llu %12llu %8s %6s %10.2f %10.2f %8.2f %8.2f  %s%s\n",
                row.op.c_str(), static_cast<unsigned long long>(row.bytes),
                static_cast<unsigned long long>(row.count), "float",
                row.redop.c_str(), us, row.host_us.at(name), algbw,
                algbw * row.bus, name.c_str(),
                row.in_place ? ", in place" : "");
  }
  std::fflush(stdout);
}

std::string JsonOf(const std::map<std::string, double>& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", name, "\": ", value);
  }
  return absl::StrCat("{", text, "}");
}

void Bench::WriteJson() const {
  std::ofstream file(settings_.json);
  const devrt::collectives::ProviderInfo provider = comms_[0].provider();
  file << "{\"provider\": \"" << provider.name << "\", \"version\": \""
       << provider.version << "\", \"ranks\": " << ranks_.size()
       << ", \"threads\": " << settings_.threads
       << ", \"rounds\": " << settings_.rounds
       << ",\n \"alone_us\": " << alone_us_ << ", \"turns_us\": " << turns_us_
       << ",\n \"rows\": [";
  for (const Row& row : rows_) {
    file << (&row == rows_.data() ? "\n  " : ",\n  ") << "{\"op\": \"" << row.op
         << "\", \"bytes\": " << row.bytes << ", \"count\": " << row.count
         << ", \"in_place\": " << (row.in_place ? "true" : "false")
         << ", \"bus\": " << row.bus << ", \"us\": " << JsonOf(row.us)
         << ", \"host_us\": " << JsonOf(row.host_us) << "}";
  }
  file << "]}\n";
  if (!file.flush()) Exit(1, settings_.json + " cannot be written");
}

void Bench::Run() {
  const devrt::DeviceGuard guard(ranks_[0].device);
  const devrt::collectives::ProviderInfo provider = comms_[0].provider();
  std::printf("# %s %s, %zu ranks on %lld threads, medians of %lld rounds\n",
              provider.name.c_str(), provider.version.c_str(), ranks_.size(),
              static_cast<long long>(settings_.threads),
              static_cast<long long>(settings_.rounds));
  std::printf("%14s %12s %12s %8s %6s %10s %10s %8s %8s\n", "# op", "size",
              "count", "type", "redop", "time us", "host us", "algbw", "busbw");
  for (const Kind& kind : kKinds) {
    // The others show nothing more with one rank.
    if (ranks_.size() == 1 && kind.kind != OpKind::kAllReduce) continue;
    for (int64_t bytes = settings_.min_bytes; bytes <= settings_.max_bytes;
         bytes *= settings_.factor) {
      Measure(kind, static_cast<uint64_t>(bytes), /*in_place=*/false);
    }
  }
  // The inputs are sums of sums afterwards.
  Measure(kKinds[0], static_cast<uint64_t>(settings_.min_bytes),
          /*in_place=*/true);
  MeasureTwo();
  if (!settings_.json.empty()) WriteJson();
  raw_.clear();
  Check(Communicator::FinishAll(comms_));
  Check(Communicator::FinishAll(others_));
}

// False for an argument that is none of the settings.
bool Take(absl::string_view argument, Settings* settings) {
  const std::map<std::string, int64_t*> numbers = {
      {"ranks", &settings->ranks},         {"threads", &settings->threads},
      {"min_bytes", &settings->min_bytes}, {"max_bytes", &settings->max_bytes},
      {"factor", &settings->factor},       {"rounds", &settings->rounds},
      {"calls", &settings->calls}};
  if (absl::ConsumePrefix(&argument, "--device=")) {
    settings->device = std::string(argument);
    return true;
  }
  if (absl::ConsumePrefix(&argument, "--json=")) {
    settings->json = std::string(argument);
    return true;
  }
  for (const auto& [name, number] : numbers) {
    absl::string_view rest = argument;
    if (!absl::ConsumePrefix(&rest, absl::StrCat("--", name, "="))) continue;
    return absl::SimpleAtoi(rest, number) && *number > 0;
  }
  return false;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::Settings settings;
  for (int i = 1; i < argc; ++i) {
    if (bench::Take(argv[i], &settings)) continue;
    bench::Exit(
        2, absl::StrCat(argv[i],
                        " is no option: collectives_bench [--device=NAME] "
                        "[--ranks=N] [--threads=N] [--min_bytes=N] "
                        "[--max_bytes=N] [--factor=N] [--rounds=N] [--calls=N] "
                        "[--json=FILE]"));
  }
  if (settings.factor < 2 || settings.min_bytes % (4 * settings.ranks) != 0 ||
      settings.max_bytes < settings.min_bytes ||
      (settings.threads != 1 && settings.threads != settings.ranks)) {
    bench::Exit(2,
                "sizes are multiples of 4 bytes for each rank, --factor is "
                "2 or more, and --threads is 1 or the number of ranks");
  }
  bench::Bench(settings).Run();
  return 0;
}
