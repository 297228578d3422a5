// SPDX-License-Identifier: Apache-2.0
#include "tests/hardware/soak_report.h"

#include <getopt.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/hardware/soak_operations.h"
#include "tools/common/json.h"

namespace devrt::soak {
namespace {

constexpr int kUsage = 2;

constexpr char kHelp[] =
    "Usage: soak [--backend=NAME] [--seconds=S] [--threads=N] [--seed=N]\n"
    "            [--size=BYTES] [--samples=N] [--json=FILE]\n"
    "\n"
    "Works on all devices of a backend with many threads, checks all data,\n"
    "and measures what must not grow: memory, descriptors, threads, latency.\n"
    "\n"
    "  --backend=NAME  its devices (default: cuda)\n"
    "  --seconds=S     how long (default: 600)\n"
    "  --threads=N     how many threads (default: 16)\n"
    "  --seed=N        of what the threads choose (default: 1)\n"
    "  --size=BYTES    of the largest block (default: 1048576)\n"
    "  --samples=N     how often to measure (default: 60)\n"
    "  --json=FILE     also write all samples and verdicts\n"
    "  --help          print this\n"
    "\n"
    "Exit code 0: all is well; 1: an error, wrong data or growth; 2: wrong\n"
    "usage; 77: the backend is not there.\n";

// A number of at least `least`; 0 if it is none.
double AtLeast(double least, const char* text) {
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  return *text != '\0' && *end == '\0' && number >= least ? number : 0;
}

}  // namespace

int ParseOptions(int argc, char** argv, Options* options) {
  static constexpr option kOptions[] = {
      {"backend", required_argument, nullptr, 'b'},
      {"seconds", required_argument, nullptr, 't'},
      {"threads", required_argument, nullptr, 'n'},
      {"seed", required_argument, nullptr, 's'},
      {"size", required_argument, nullptr, 'm'},
      {"samples", required_argument, nullptr, 'i'},
      {"json", required_argument, nullptr, 'j'},
      {"help", no_argument, nullptr, 'h'},
      {}};
  int which = 0;
  while ((which = getopt_long(argc, argv, "", kOptions, nullptr)) != -1) {
    if (which == 'h') return std::fputs(kHelp, stdout) < 0 ? 1 : 0;
    if (which == '?') return kUsage;
    if (which == 'b') options->backend = optarg;
    if (which == 'j') options->json = optarg;
    if (which == 'b' || which == 'j') continue;
    const double least = which == 't' ? 0.1 : 1;
    const double number = AtLeast(least, optarg);
    if (number == 0) {
      std::fprintf(stderr, "soak: \"%s\": expected a number from %g on\n",
                   optarg, least);
      return kUsage;
    }
    if (which == 't') options->seconds = number;
    if (which == 'n') options->threads = static_cast<int>(number);
    if (which == 's') options->seed = static_cast<uint64_t>(number);
    if (which == 'm') {
      options->most_bytes =
          std::max<uint64_t>(8, static_cast<uint64_t>(number));
    }
    if (which == 'i') options->samples = static_cast<int>(number);
  }
  if (optind == argc) return -1;
  std::fprintf(stderr, "soak: what is \"%s\"?  See --help\n", argv[optind]);
  return kUsage;
}

bool Passed(const Report& report) {
  return report.error.ok() &&
         std::none_of(report.verdicts.begin(), report.verdicts.end(),
                      [](const Verdict& verdict) { return verdict.grows; });
}

void Print(const Options& options, const Report& report) {
  std::printf("soak of %s, %d threads, seed %llu: %llu rounds in %.1f s\n",
              options.backend.c_str(), options.threads,
              static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(report.rounds),
              report.samples.empty() ? 0 : report.samples.back().seconds);
  for (size_t i = 0; i < report.counts.size(); ++i) {
    std::printf("  %-16s %llu\n", Operations()[i].name,
                static_cast<unsigned long long>(report.counts[i]));
  }
  for (const Verdict& verdict : report.verdicts) {
    std::printf("  %-16s %14.1f  grew by %14.1f of %14.1f  %s\n",
                verdict.name.c_str(), verdict.at_first, verdict.growth,
                verdict.allowed,
                verdict.grows    ? "GROWS"
                : verdict.judged ? "ok"
                                 : "not judged, too short");
  }
  if (!report.error.ok()) {
    std::printf("error: %s\n", report.error.ToString().c_str());
  }
  std::printf("%s\n", Passed(report) ? "passed" : "FAILED");
}

bool WriteJson(const Options& options, const Report& report) {
  if (options.json.empty()) return true;
  tools::JsonWriter json;
  json.BeginObject();
  json.Key("backend").String(options.backend);
  json.Key("passed").Bool(Passed(report));
  json.Key("error").String(report.error.ok() ? "" : report.error.ToString());
  json.Key("seed").Unsigned(options.seed);
  json.Key("threads").Number(options.threads);
  json.Key("devices").BeginArray();
  for (const std::string& name : report.devices) json.String(name);
  json.End();
  json.Key("rounds").Unsigned(report.rounds);
  json.Key("operations").BeginObject();
  for (size_t i = 0; i < report.counts.size(); ++i) {
    json.Key(Operations()[i].name).Unsigned(report.counts[i]);
  }
  json.End();
  json.Key("verdicts").BeginArray();
  for (const Verdict& verdict : report.verdicts) {
    json.BeginObject();
    json.Key("name").String(verdict.name);
    json.Key("at_first").Decimal(verdict.at_first);
    json.Key("growth").Decimal(verdict.growth);
    json.Key("allowed").Decimal(verdict.allowed);
    json.Key("judged").Bool(verdict.judged);
    json.Key("grows").Bool(verdict.grows).End();
  }
  json.End();
  json.Key("samples").BeginArray();
  for (const Sample& sample : report.samples) {
    json.BeginObject();
    json.Key("seconds").Decimal(sample.seconds);
    json.Key("rounds").Decimal(sample.rounds);
    for (const Measure& measure : Measures()) {
      json.Key(measure.name).Decimal(sample.*measure.value);
    }
    json.End();
  }
  json.End();
  json.End();
  const std::string text = std::move(json).Finish();
  std::FILE* const file = std::fopen(options.json.c_str(), "w");
  const bool written = file != nullptr && std::fputs(text.c_str(), file) >= 0 &&
                       std::fclose(file) == 0;
  if (!written) {
    std::fprintf(stderr, "soak: %s: %s\n", options.json.c_str(),
                 std::strerror(errno));
  }
  return written;
}

}  // namespace devrt::soak
