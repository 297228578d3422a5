// SPDX-License-Identifier: Apache-2.0
//
// One rank of one part of scripts/multi-node-check, which starts this program
// on every rank.
//
//   multi_node_check --part=values --device=cuda:0 --json=values.3.json
//
//   values   operations have the values of their definitions
//   latency  times of all-reduce by size
//   killed   the last rank is killed: the others return within the timeout and
//            a second
//
// The bootstrap is that of the environment (FromEnvironment).  --engine=folder
// takes FolderEngine, in the folder --bytes.  Exits with 1 if a check fails.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "bench/bench_support.h"
#include "bench/folder_engine.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"

namespace bench {
namespace {

namespace ops = devrt::collectives;
using devrt::Array;
using ops::Communicator;

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A JSON object: its members are JSON already.
class Object {
 public:
  void Number(const std::string& name, double value) {
    members_.push_back(absl::StrCat("\"", name, "\": ", value));
  }
  void Text(const std::string& name, const std::string& value) {
    std::string quoted;
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    members_.push_back(absl::StrCat("\"", name, "\": \"", quoted, "\""));
  }
  void List(const std::string& name, const std::vector<Object>& values) {
    members_.push_back(absl::StrCat(
        "\"", name, "\": [",
        absl::StrJoin(
            values, ", ",
            [](std::string* out, const Object& of) { *out += of.Json(); }),
        "]"));
  }
  std::string Json() const {
    return absl::StrCat("{", absl::StrJoin(members_, ", "), "}");
  }

 private:
  std::vector<std::string> members_;
};

class RankCheck {
 public:
  RankCheck(Communicator rank, Object* report)
      : rank_(std::move(rank)), n_(rank_.size()), report_(report) {}

  int Values();
  int Latency(int64_t max_bytes);
  int Killed(double timeout);

 private:
  Array Of(int64_t count, double value, devrt::DType dtype) const {
    return Value(Array::Full({count}, dtype, value, rank_.device()));
  }
  // Notes whether the elements are `wanted`, in equal parts.
  void Expect(const char* what, const absl::Status& status, const Array& x,
              const std::vector<double>& wanted);

  Communicator rank_;
  const int n_;
  Object* const report_;
  std::vector<Object> checks_;
  int failures_ = 0;
};

void RankCheck::Expect(const char* what, const absl::Status& status,
                       const Array& x, const std::vector<double>& wanted) {
  std::string wrong = status.ok() ? "" : status.ToString();
  const Array host =
      Value(Value(x.Cast(devrt::kFloat64)).To(devrt::Place::Host()));
  const auto part = static_cast<size_t>(host.size()) / wanted.size();
  for (size_t i = 0; wrong.empty() && i < part * wanted.size(); ++i) {
    const double found = host.data_as<double>()[i];
    if (found != wanted[i / part]) {
      wrong = absl::StrCat("element ", i, " is ", found, ", expected ",
                           wanted[i / part]);
    }
  }
  Object check;
  check.Text("check", what);
  check.Text("wrong", wrong);
  checks_.push_back(check);
  if (!wrong.empty()) ++failures_;
}

int RankCheck::Values() {
  const double mine = rank_.rank() + 1;
  const double sum = n_ * (n_ + 1) / 2.0;
  std::vector<double> all;
  for (int rank = 1; rank <= n_; ++rank) all.push_back(rank);
  for (const devrt::DType dtype : {devrt::kFloat32, devrt::kInt32}) {
    const Array x = Of(1000, mine, dtype);
    const Array out = Of(1000, 0, dtype);
    Expect("all_reduce", rank_.AllReduce(out, x), out, {sum});
    const Array gathered = Of(int64_t{1000} * n_, 0, dtype);
    Expect("all_gather", rank_.AllGather(gathered, x), gathered, all);
    Expect("broadcast", rank_.Broadcast(x, n_ - 1), x,
           {static_cast<double>(n_)});
  }
  if (n_ > 1) {
    const Array sent = Of(1000, mine, devrt::kFloat32);
    const Array received = Of(1000, 0, devrt::kFloat32);
    const int left = (rank_.rank() + n_ - 1) % n_;
    ops::Group ring;
    ring.Add(rank_, ops::Send(sent, (rank_.rank() + 1) % n_));
    ring.Add(rank_, ops::Recv(received, left));
    Expect("a ring of sends and receives", ring.Submit(), received,
           {left + 1.0});
  }
  report_->List("checks", checks_);
  return failures_;
}

int RankCheck::Latency(int64_t max_bytes) {
  constexpr int kRounds = 5;
  std::vector<Object> rows;
  for (int64_t bytes = 1024; bytes <= max_bytes; bytes *= 8) {
    const Array x = Of(bytes / 4, 1, devrt::kFloat32);
    const Array out = Of(bytes / 4, 0, devrt::kFloat32);
    const int64_t calls =
        rank_.provider().name == "folder"
            ? 2
            : std::max<int64_t>(5, std::min<int64_t>(50, (1 << 28) / bytes));
    std::vector<double> samples;
    for (int round = 0; round <= kRounds; ++round) {
      Check(rank_.Wait());
      const double begin = Now();
      for (int64_t i = 0; i < calls; ++i) Check(rank_.AllReduce(out, x));
      Check(rank_.Wait());
      if (round > 0) samples.push_back((Now() - begin) / calls * 1e6);
    }
    std::sort(samples.begin(), samples.end());
    const double us = samples[kRounds / 2];
    const double algbw = static_cast<double>(bytes) / us / 1e3;
    Object row;
    row.Number("bytes", static_cast<double>(bytes));
    row.Number("us", us);
    row.Number("algbw", algbw);
    row.Number("busbw", algbw * 2 * (n_ - 1) / n_);
    rows.push_back(row);
  }
  report_->List("rows", rows);
  return 0;
}

int RankCheck::Killed(double timeout) {
  constexpr int kCalls = 5;  // before the last rank is killed
  const Array x = Of(1000, 1, devrt::kFloat32);
  absl::Status status;
  double begin = 0;
  for (int call = 0; status.ok(); ++call) {
    if (call == kCalls && rank_.rank() == n_ - 1) raise(SIGKILL);
    begin = Now();
    status = rank_.AllReduce(x, x);
    if (status.ok()) status = rank_.Wait();
    if (status.ok() && call > kCalls) break;  // nobody was killed
  }
  const double seconds = Now() - begin;
  report_->Number("seconds", seconds);
  report_->Number("limit", timeout + 1);
  report_->Text("state", ops::ToString(rank_.state()));
  report_->Text("error", status.ToString());
  rank_.Abort("the check is over").IgnoreError();
  return !status.ok() && seconds <= timeout + 1 ? 0 : 1;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

int Run(std::map<std::string, std::string> settings) {
  const double timeout = std::atof(settings["timeout"].c_str());
  const std::string& engine = settings["engine"];
  if (engine == "folder") {
    Check(
        ops::RegisterEngine(std::make_unique<FolderEngine>(settings["bytes"])));
  }
  const auto bootstrap = Value(ops::FromEnvironment());
  ops::Options options;
  options.name = settings["part"];
  options.provider = engine;
  options.shared_device = !engine.empty();
  options.init_timeout = absl::Seconds(120);
  options.timeout = absl::Seconds(timeout);
  Communicator rank = Value(Communicator::Create(
      Value(devrt::GetDevice(settings["device"])), *bootstrap, options));
  Object report;
  report.Number("rank", rank.rank());
  report.Number("ranks", rank.size());
  report.Text("host", HostName());
  report.Text("device", Value(rank.device().Properties()).name);
  const ops::ProviderInfo provider = rank.provider();
  report.Text("engine", absl::StrCat(provider.name, " ", provider.version));
  RankCheck check(std::move(rank), &report);
  const std::string& part = settings["part"];
  const int failures =
      part == "values" ? check.Values()
      : part == "latency"
          ? check.Latency(std::atoll(settings["max_bytes"].c_str()))
          : check.Killed(timeout);
  // The name comes with the whole file, for readers on other machines.
  const std::string draft = settings["json"] + ".draft";
  std::ofstream file(draft);
  file << report.Json() << "\n";
  file.close();
  if (!file || std::rename(draft.c_str(), settings["json"].c_str()) != 0) {
    std::fprintf(stderr, "%s cannot be written\n", settings["json"].c_str());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  std::map<std::string, std::string> settings = {
      {"part", "values"}, {"device", "cuda:0"}, {"engine", ""},
      {"bytes", ""},      {"timeout", "10"},    {"max_bytes", "67108864"},
      {"json", ""}};
  for (int i = 1; i < argc; ++i) {
    const std::pair<std::string, std::string> option =
        absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    const std::string name = option.first.substr(0, 2) == "--"
                                 ? option.first.substr(2)
                                 : std::string();
    const auto found = settings.find(name);
    if (found == settings.end()) {
      std::fprintf(stderr, "%s is no option of multi_node_check\n", argv[i]);
      return 2;
    }
    found->second = option.second;
  }
  return bench::Run(std::move(settings));
}
