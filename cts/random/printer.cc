// SPDX-License-Identifier: Apache-2.0
#include "cts/random/printer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cts/random/step_printer.h"

namespace devrt::cts {
namespace {

constexpr char kHelpers[] = R"(#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "devrt/devrt.h"

namespace {

// Only for a simulator in virtual mode, where a waiting thread has to yield.
std::optional<devrt::Simulator> g_simulator;

[[noreturn]] void Fail(int step, const std::string& what) {
  std::fprintf(stderr, "step %d: %s\n", step, what.c_str());
  std::_Exit(1);
}

inline void Ok(int step, const absl::Status& status) {
  if (!status.ok()) Fail(step, status.ToString());
}

template <typename T>
T Ok(int step, absl::StatusOr<T> value) {
  if (!value.ok()) Fail(step, value.status().ToString());
  return *std::move(value);
}

[[maybe_unused]] void Pause() {
  if (g_simulator.has_value()) {
    (void)g_simulator->Yield();
  } else {
    std::this_thread::yield();
  }
}

// Bytes that go up by `stride` from `base`.
[[maybe_unused]] void Put(uint8_t* at, int bytes, int base, int stride) {
  for (int i = 0; i < bytes; ++i) {
    at[i] = static_cast<uint8_t>(base + i * stride);
  }
}

[[maybe_unused]] void Expect(int step, const uint8_t* at, int bytes, int base,
                             int stride) {
  for (int i = 0; i < bytes; ++i) {
    const int expected = static_cast<uint8_t>(base + i * stride);
    if (at[i] == expected) continue;
    Fail(step, "byte " + std::to_string(i) + " is " + std::to_string(at[i]) +
                   ", not " + std::to_string(expected));
  }
}

)";

class Printer {
 public:
  Printer(const Program& program, const Listing& listing)
      : p_(program),
        listing_(listing),
        steps_(program, listing.gate_timeout_ns) {}

  std::string Print() {
    Heading();
    out_ += kHelpers;
    out_ += "void RunOnce(const std::vector<devrt::Device>& d) {\n";
    Declarations();
    for (int t = 1; t < p_.threads; ++t) {
      if (!HasSteps(t)) continue;
      Line(absl::StrCat("std::thread thread", t, "([&] {"));
      Thread(t);
      Line("});");
    }
    Thread(0);
    if (p_.threads > 1 && !p_.concurrent) {
      Line(absl::StrCat("await(", p_.steps.size(), ");"));
    }
    for (int t = 1; t < p_.threads; ++t) {
      if (HasSteps(t)) Line(absl::StrCat("thread", t, ".join();"));
    }
    End();
    out_ += "}\n\n}  // namespace\n\n";
    Main();
    return std::move(out_);
  }

 private:
  void Line(const std::string& text) {
    absl::StrAppend(&out_, "  ", text, "\n");
  }
  bool HasSteps(int thread) const {
    // In concurrent programs all threads take part in barriers.
    return p_.concurrent ||
           std::any_of(p_.steps.begin(), p_.steps.end(),
                       [&](const Step& s) { return s.thread == thread; });
  }
  bool Holds(int gate) const {
    return std::any_of(p_.steps.begin(), p_.steps.end(), [&](const Step& s) {
      return s.act == Act::kHold && s.gate == gate;
    });
  }

  void Heading();
  void Declarations();
  void Thread(int thread);
  void End();
  void Main();
  // Resets the simulator, and runs once and then with 100 seeds.
  void RunUnderSchedules();
  const Program& p_;
  const Listing& listing_;
  StepPrinter steps_;
  std::string out_;
};

void Printer::Heading() {
  if (!listing_.finding.empty()) {
    absl::StrAppend(&out_, "// Finds: ",
                    absl::StrReplaceAll(listing_.finding, {{"\n", "\n// "}}),
                    "\n");
  }
  if (!listing_.replay.empty()) {
    absl::StrAppend(&out_, "// From: ", listing_.replay, "\n");
  }
  out_ +=
      "//\n//   c++ -std=c++17 program.cc $(pkg-config --cflags --libs devrt) "
      "-pthread\n//   ./a.out [PLUGIN]\n";
}

void Printer::Declarations() {
  Line("std::atomic<int> calls{0};  // of host functions");
  for (size_t i = 0; i < p_.streams.size(); ++i) {
    if (!p_.streams[i].IsCreated()) continue;
    Line(absl::StrCat("std::optional<devrt::Stream> s", i, ";"));
  }
  for (size_t i = 0; i < p_.events.size(); ++i) {
    Line(absl::StrCat("std::optional<devrt::Event> e", i, ";"));
  }
  for (size_t i = 0; i < p_.blocks.size(); ++i) {
    if (p_.blocks[i].space == Space::kPlain) {
      Line(absl::StrCat("std::vector<uint8_t> plain", i, ";"));
    }
    Line(absl::StrCat("uint8_t* b", i, " = nullptr;"));
  }
  for (size_t i = 0; i < p_.gates.size(); ++i) {
    if (!Holds(static_cast<int>(i))) continue;
    Line(absl::StrCat("const devrt::Flag g", i,
                      " = Ok(0, devrt::Flag::Create(d[", p_.gates[i].device,
                      "]));"));
  }
  if (p_.threads == 1) return;
  if (p_.concurrent) {
    Line("std::atomic<int> here{0};");
    Line("const auto meet = [&](int n) {");
    Line("  for (++here; here < n;) Pause();");
  } else {
    Line("std::atomic<int> turn{0};  // the step that comes next");
    Line("const auto await = [&](int n) {");
    Line("  while (turn != n) Pause();");
  }
  Line("};");
}

void Printer::Thread(int thread) {
  int barriers = 0;
  for (size_t i = 0; i < p_.steps.size(); ++i) {
    const Step& s = p_.steps[i];
    if (s.act == Act::kBarrier) {
      Line(absl::StrCat("meet(", ++barriers * p_.threads, ");"));
      continue;
    }
    if (s.thread != thread) continue;
    const bool in_turn = p_.threads > 1 && !p_.concurrent;
    if (in_turn && i > 0 && p_.steps[i - 1].thread != thread) {
      Line(absl::StrCat("await(", i, ");"));
    }
    out_ += steps_.Print(i);
    if (in_turn &&
        (i + 1 == p_.steps.size() || p_.steps[i + 1].thread != thread)) {
      Line(absl::StrCat("turn = ", i + 1, ";"));
    }
  }
}

void Printer::End() {
  Line("// The end.");
  for (size_t i = 0; i < p_.gates.size(); ++i) {
    if (Holds(static_cast<int>(i))) {
      Line(absl::StrCat("Ok(0, g", i, ".Set());"));
    }
  }
  Line("for (const devrt::Device& device : d) Ok(0, device.Synchronize());");
  const auto functions =
      std::count_if(p_.steps.begin(), p_.steps.end(),
                    [](const Step& s) { return s.act == Act::kHostFunc; });
  Line(
      absl::StrCat("if (calls != ", functions,
                   ") Fail(0, \"host functions were not called once each\");"));
  for (size_t i = 0; i < p_.blocks.size(); ++i) {
    const BlockInfo& info = p_.blocks[i];
    if (info.space == Space::kDevice) {
      Line(absl::StrCat("Ok(0, devrt::Free(d[", info.device, "], b", i, "));"));
    } else if (info.space == Space::kPinned) {
      Line(absl::StrCat("Ok(0, devrt::FreeHost(b", i, "));"));
    }
  }
}

void Printer::RunUnderSchedules() {
  Line("g_simulator = Ok(0, devrt::Simulator::Get(backend));");
  Line("const std::string config =");
  std::vector<std::string> lines = {""};
  for (const absl::string_view part :
       absl::StrSplit(listing_.reset, ',', absl::SkipEmpty())) {
    if (lines.back().size() + part.size() > 60) lines.emplace_back();
    absl::StrAppend(&lines.back(), part, ",");
  }
  lines.back().pop_back();
  absl::StrAppend(&out_, "      \"", absl::StrJoin(lines, "\"\n      \""),
                  "\";\n");
  Line("Ok(0, g_simulator->Reset(config));");
  Line("RunOnce(d);");
  Line("// Under other schedules, too.");
  Line("const auto without = [](std::string text, const std::string& key) {");
  Line("  const size_t at = (\",\" + text).find(\",\" + key + \"=\");");
  Line("  if (at == std::string::npos) return text;");
  Line("  const size_t end = text.find(',', at);");
  Line("  return text.erase(at, end == std::string::npos ? end");
  Line("                                                 : end - at + 1);");
  Line("};");
  Line(
      "const std::string rest = without(without(config, \"strategy\"), "
      "\"seed\");");
  Line("for (int seed = 1; seed <= 100; ++seed) {");
  Line("  Ok(0, g_simulator->Reset(\"strategy=random,seed=\" +");
  Line("                           std::to_string(seed) + \",\" + rest));");
  Line("  RunOnce(d);");
  Line("}");
}

void Printer::Main() {
  absl::StrAppend(&out_, "int main(int argc, char** argv) {\n");
  Line("const devrt::Backend backend = Ok(0, devrt::LoadBackend(");
  absl::StrAppend(&out_, "      argc > 1 ? argv[1]\n               : \"",
                  listing_.plugin, "\"));\n");
  Line("std::vector<devrt::Device> d;");
  for (int i = 0; i < p_.devices; ++i) {
    Line(absl::StrCat("d.push_back(backend.devices()[",
                      listing_.devices[static_cast<size_t>(i)], "]);"));
  }
  if (listing_.reset.empty()) {
    Line("RunOnce(d);");
  } else {
    RunUnderSchedules();
  }
  Line("std::puts(\"nothing wrong was found\");");
  absl::StrAppend(&out_, "}\n");
}

}  // namespace

std::string ToCpp(const Program& program, const Listing& listing) {
  return Printer(program, listing).Print();
}

}  // namespace devrt::cts
