// SPDX-License-Identifier: Apache-2.0
//
// A vendor's own test program: the conformance suite on the plugin that is its
// argument.
#include <cstdio>
#include <string>

#include "devrt/cts/cts.h"

namespace {

class Failures : public devrt::cts::Observer {
 public:
  void End(const devrt::cts::TestResult& result) override {
    if (result.outcome != devrt::cts::TestResult::Outcome::kFailed) return;
    std::printf("%s: %s\n", result.test.name.c_str(),
                result.messages[0].c_str());
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  devrt::cts::Options options;
  options.plugin = argv[1];
  options.groups = {"load"};
  Failures failures;
  const absl::StatusOr<devrt::cts::Report> report =
      devrt::cts::Run(options, &failures);
  if (!report.ok()) {
    std::printf("%s\n", report.status().ToString().c_str());
    return 2;
  }
  std::printf("%s: %s\n", report->backend.c_str(),
              report->Passed() ? "passed" : "failed");
  return report->ExitCode();
}
