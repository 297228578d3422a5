// SPDX-License-Identifier: Apache-2.0
//
// DEVRT_SIM_REPLAY: the first machine of a process repeats a run.  Each machine
// of these tests is the first of a child process.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "backends/text/replay_token.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "tests/support/fake_host.h"

namespace devrt::test {
namespace {

// What `child` returns, run in a child process with the two variables.
std::string InChild(const char* machine, const std::string& replay,
                    const std::function<std::string()>& child) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("DEVRT_MTIA", machine, 1);
    unsetenv("DEVRT_SIM_REPLAY");
    if (!replay.empty()) setenv("DEVRT_SIM_REPLAY", replay.c_str(), 1);
    const std::string text = child();
    const bool sent = write(ends[1], text.data(), text.size()) ==
                      static_cast<ssize_t>(text.size());
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char part[512];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  return status == 0 ? text : "the child ended with " + std::to_string(status);
}

// The token and the trace hash of a small program, and what it has logged; or
// the error of the opening.
std::string RunOnce() {
  FakeHost host;
  devrt_backend_v0 backend = {};
  backend.struct_size = sizeof backend;
  {
    const OwnedStatus opened(devrt_plugin_open_v0(host.table(), &backend));
    if (!opened.ok()) return opened.text();
  }
  void* const self = backend.self;
  const devrt_ops_v0& ops = *backend.ops;
  const auto& sim = *static_cast<const devrt_sim_v1*>(
      ops.get_extension(self, DEVRT_SIM_EXTENSION));
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_CREATE;
  devrt_stream streams[3] = {};
  void* memory = nullptr;
  bool ok = ops.alloc(self, 0, 3, 0, &memory) == nullptr;
  for (devrt_stream& stream : streams) {
    ok = ok && ops.stream_create(self, 0, &desc, &stream) == nullptr;
  }
  for (int i = 0; i < 8; ++i) {
    ok = ok &&
         ops.fill_async(self, streams[i % 3],
                        static_cast<char*>(memory) + i % 3, 1, 1) == nullptr;
  }
  ok = ok && ops.device_sync(self, 0) == nullptr;
  char token[4096];
  uint64_t size = 0, hash = 0, steps = 0;
  ok = ok && sim.token(self, token, sizeof token, &size) == nullptr &&
       sim.trace_hash(self, &hash, &steps) == nullptr;
  if (!ok) return "a call failed";
  std::string text = std::string(token, size) + " " + std::to_string(hash);
  for (const std::string& line : host.logs()) text += "\n" + line;
  return text;
}

std::string TokenOf(const std::string& run) {
  return run.substr(0, run.find(' '));
}

constexpr const char* kMachine = "strategy=random,seed=11,memory=64MiB";

TEST(FirstMachine, RepeatsTheRunOfTheToken) {
  const std::string run = InChild(kMachine, "", RunOnce);
  EXPECT_EQ(run.substr(0, 5), "dvs1:");
  // Neither the seed nor the strategy of the configuration counts.
  EXPECT_EQ(InChild("memory=64MiB", TokenOf(run), RunOnce), run);
  EXPECT_NE(InChild("memory=64MiB", "", RunOnce), run);
}

TEST(FirstMachine, ATokenOfAnotherProgramIsWarnedOf) {
  internal::ReplayToken parts;
  std::string error;
  ASSERT_TRUE(internal::ParseReplayToken(
      TokenOf(InChild("memory=64MiB", "", RunOnce)), &parts, &error));
  parts.runs = {{1, 9, 2}};
  const std::string text =
      InChild("memory=64MiB", FormatReplayToken(parts), RunOnce);
  const std::string warning =
      "DEVRT_SIM_REPLAY: the replay token is of another program, or of an "
      "earlier state of this one: its decision 2 takes way 10";
  const size_t found = text.find(warning);
  EXPECT_NE(found, std::string::npos) << text;
  EXPECT_EQ(text.find(warning, found + 1), std::string::npos) << text;
}

TEST(FirstMachine, AnEmptyVariableIsNone) {
  const auto empty = [] {
    setenv("DEVRT_SIM_REPLAY", "", 1);
    return RunOnce();
  };
  EXPECT_EQ(InChild(kMachine, "", empty), InChild(kMachine, "", RunOnce));
}

TEST(FirstMachine, ABadTokenIsOneErrorOfTheOpening) {
  for (const char* token : {"x", "dvs1:1:2:random", "dvs9:1:2:random:",
                            "dvs1:1:2:odd:", "dvs1:1:2:random:!"}) {
    const std::string text = InChild(kMachine, token, RunOnce);
    EXPECT_EQ(text.find("DEVRT_SIM_REPLAY: "), 0u) << text;
    EXPECT_NE(text.find("token"), std::string::npos) << text;
  }
}

TEST(FirstMachine, TheErrorSaysWhatDiffersFromTheTokensConfiguration) {
  const std::string usual = TokenOf(InChild("", "", RunOnce));
  const std::string small = TokenOf(InChild("memory=64MiB", "", RunOnce));
  std::string text = InChild("memory=64MiB", usual, RunOnce);
  EXPECT_NE(text.find("memory=64MiB here, 256MiB there"), std::string::npos)
      << text;
  text = InChild("memory=64MiB,gap=0", usual, RunOnce);
  EXPECT_NE(text.find("memory=64MiB,gap=0"), std::string::npos) << text;
  text = InChild("", small, RunOnce);
  EXPECT_NE(text.find("here all keys have their default"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace devrt::test
