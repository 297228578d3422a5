// SPDX-License-Identifier: Apache-2.0
#include "cts/random/printer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

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

// Only a simulator in virtual mode, where waiting threads must let others run.
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
      : p_(program), listing_(listing) {}

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
  static std::string At(const char* letter, int i) {
    return absl::StrCat(letter, i);
  }
  void Line(const std::string& text) {
    absl::StrAppend(&out_, "  ", text, "\n");
  }
  bool HasSteps(int thread) const {
    // In concurrent programs everybody comes to the barriers.
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
  void Print(size_t index);
  void PrintMade(const Step& s);
  void PrintDropped(const Step& s);
  void PrintWork(const Step& s);
  void PrintHostFunc(const Step& s);
  void PrintOrder(const Step& s);
  void PrintHost(const Step& s);
  void PrintElapsed(const Step& s);
  void PrintCompare(const Step& s, const char* indent);
  std::string Check(const std::string& call) const {
    return absl::StrCat("Ok(", number_, ", ", call, ")");
  }
  void Do(const std::string& call) { Line(Check(call) + ";"); }
  std::string DeviceText(int d) const { return absl::StrCat("d[", d, "]"); }
  std::string StreamText(int stream) const;
  // The stream as an object, for its methods.
  std::string OfStream(int stream) const;
  std::string SpanText(const Span& span) const;
  std::string Bytes(int slices) const {
    return absl::StrCat(static_cast<uint64_t>(slices) * p_.slice_bytes);
  }
  std::string PutText(const Step& s) const;
  std::string Asked(const Step& s) const;

  const Program& p_;
  const Listing& listing_;
  std::string out_;
  size_t number_ = 0;  // of the step that is printed
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
    Print(i);
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
  Line("std::puts(\"nothing wrong was found\");");
  absl::StrAppend(&out_, "}\n");
}

std::string Printer::StreamText(int stream) const {
  const StreamInfo& info = p_.streams[static_cast<size_t>(stream)];
  if (info.kind == StreamKind::kDefault) {
    return absl::StrCat("devrt::DefaultStream(d[", info.device, "])");
  }
  if (info.kind == StreamKind::kPerThread) {
    return Check(
        absl::StrCat("devrt::PerThreadDefaultStream(d[", info.device, "])"));
  }
  return absl::StrCat("*s", stream);
}

std::string Printer::OfStream(int stream) const {
  const bool created = p_.streams[static_cast<size_t>(stream)].IsCreated();
  return created ? absl::StrCat("s", stream, "->")
                 : absl::StrCat(StreamText(stream), ".");
}

std::string Printer::SpanText(const Span& span) const {
  if (span.first == 0) return At("b", span.block);
  return absl::StrCat("b", span.block, " + ", Bytes(span.first));
}

std::string Printer::PutText(const Step& s) const {
  return absl::StrCat("Put(", SpanText(s.dst), ", ", Bytes(s.dst.count), ", ",
                      +s.value.base, ", ", +s.value.stride, ");");
}

// Slices that go on where the one before ends are one.
void Printer::PrintCompare(const Step& s, const char* indent) {
  for (size_t i = 0; i < s.found.size();) {
    size_t end = i + 1;
    while (end < s.found.size() &&
           s.found[end] == s.found[end - 1].After(p_.slice_bytes)) {
      ++end;
    }
    const Span part = {s.src.block, s.src.first + static_cast<int>(i),
                       static_cast<int>(end - i)};
    Line(absl::StrCat(indent, "Expect(", number_, ", ", SpanText(part), ", ",
                      Bytes(part.count), ", ", +s.found[i].base, ", ",
                      +s.found[i].stride, ");"));
    i = end;
  }
}

void Printer::Print(size_t index) {
  const Step& s = p_.steps[index];
  number_ = index + 1;
  Line(absl::StrCat("// ", number_, ": ", ToText(s)));
  switch (s.act) {
    case Act::kNewStream:
    case Act::kNewEvent:
    case Act::kNewBlock:
      return PrintMade(s);
    case Act::kDropStream:
    case Act::kDropEvent:
    case Act::kFreeBlock:
      return PrintDropped(s);
    case Act::kFill:
    case Act::kCopy:
    case Act::kSpin:
    case Act::kHold:
      return PrintWork(s);
    case Act::kHostFunc:
      return PrintHostFunc(s);
    case Act::kRecord:
    case Act::kWait:
    case Act::kWaitStream:
      return PrintOrder(s);
    default:
      return PrintHost(s);
  }
}

void Printer::PrintMade(const Step& s) {
  if (s.act == Act::kNewStream) {
    const StreamInfo& info = p_.streams[static_cast<size_t>(s.stream)];
    const bool blocking = info.kind == StreamKind::kBlocking;
    Line(absl::StrCat(
        "s", s.stream, ".emplace(",
        Check(absl::StrCat("devrt::Stream::Create(d[", info.device, "], {0, ",
                           blocking ? "true" : "false", "})")),
        ");"));
    // So that its end is the plugin's, and it is not used again.
    if (info.native) Do(absl::StrCat("s", s.stream, "->Native().status()"));
    return;
  }
  if (s.act == Act::kNewEvent) {
    const EventInfo& info = p_.events[static_cast<size_t>(s.event)];
    Line(absl::StrCat(
        "e", s.event, ".emplace(",
        Check(absl::StrCat("devrt::Event::Create(d[", info.device, "], {",
                           info.timing ? "true" : "false", ", ",
                           info.blocking_sync ? "true" : "false", "})")),
        ");"));
    return;
  }
  const BlockInfo& info = p_.blocks[static_cast<size_t>(s.dst.block)];
  const std::string block = At("b", s.dst.block);
  if (info.space == Space::kPlain) {
    const std::string plain = At("plain", s.dst.block);
    Line(absl::StrCat(plain, ".resize(", Bytes(info.slices), ");"));
    Line(absl::StrCat(block, " = ", plain, ".data();"));
    return;
  }
  const char* const call =
      info.space == Space::kPinned ? "devrt::AllocateHost" : "devrt::Allocate";
  Line(absl::StrCat(block, " = static_cast<uint8_t*>(",
                    Check(absl::StrCat(call, "(d[", info.device, "], ",
                                       Bytes(info.slices), ")")),
                    ");"));
}

void Printer::PrintDropped(const Step& s) {
  if (s.act == Act::kDropStream) return Line(At("s", s.stream) + ".reset();");
  if (s.act == Act::kDropEvent) return Line(At("e", s.event) + ".reset();");
  const BlockInfo& info = p_.blocks[static_cast<size_t>(s.dst.block)];
  const std::string block = At("b", s.dst.block);
  if (info.space == Space::kPlain) return;  // ends with the function
  Do(info.space == Space::kPinned
         ? absl::StrCat("devrt::FreeHost(", block, ")")
         : absl::StrCat("devrt::Free(d[", info.device, "], ", block, ")"));
  Line(block + " = nullptr;");
}

void Printer::PrintWork(const Step& s) {
  const std::string stream = StreamText(s.stream);
  switch (s.act) {
    case Act::kFill:
      return Do(absl::StrCat("devrt::FillAsync(", stream, ", ", SpanText(s.dst),
                             ", ", +s.value.base, ", ", Bytes(s.dst.count),
                             ")"));
    case Act::kCopy:
      return Do(absl::StrCat(s.blocking ? "devrt::Copy(" : "devrt::CopyAsync(",
                             stream, ", ", SpanText(s.dst), ", ",
                             SpanText(s.src), ", ", Bytes(s.src.count), ")"));
    case Act::kSpin:
      return Do(absl::StrCat("devrt::Spin(", stream, ", ", s.nanoseconds, ")"));
    default:
      return Do(absl::StrCat("g", s.gate, ".WaitOn(", stream, ", ",
                             listing_.gate_timeout_ns, ")"));
  }
}

void Printer::PrintHostFunc(const Step& s) {
  Line(absl::StrCat("Ok(", number_, ", devrt::LaunchHostFunc(",
                    StreamText(s.stream), ","));
  Line("    [=, &calls](absl::Status status) {");
  Line("  ++calls;");
  Line(absl::StrCat("  Ok(", number_, ", status);"));
  if (s.src.block >= 0) PrintCompare(s, "  ");
  if (s.dst.block >= 0) Line("  " + PutText(s));
  Line("}));");
}

void Printer::PrintOrder(const Step& s) {
  if (s.act == Act::kRecord) {
    return Do(
        absl::StrCat("e", s.event, "->Record(", StreamText(s.stream), ")"));
  }
  Do(absl::StrCat(OfStream(s.stream), "Wait(",
                  s.act == Act::kWait ? At("*e", s.event) : StreamText(s.other),
                  ")"));
}

std::string Printer::Asked(const Step& s) const {
  return Check(s.event >= 0 ? At("e", s.event) + "->Query()"
                            : OfStream(s.stream) + "Query()");
}

void Printer::PrintHost(const Step& s) {
  switch (s.act) {
    case Act::kSyncStream:
      return Do(OfStream(s.stream) + "Synchronize()");
    case Act::kSyncEvent:
      return Do(At("e", s.event) + "->Synchronize()");
    case Act::kSyncDevice:
      return Do(DeviceText(s.device) + ".Synchronize()");
    case Act::kPollStream:
    case Act::kPollEvent:
      return Line(absl::StrCat("while (!", Asked(s), ") Pause();"));
    case Act::kElapsed:
      return PrintElapsed(s);
    case Act::kOpen:
      return Do(At("g", s.gate) + ".Set()");
    case Act::kHostWrite:
      return Line(PutText(s));
    case Act::kHostRead:
      return PrintCompare(s, "");
    case Act::kSelectDevice:
      return Do(
          absl::StrCat("devrt::SetCurrentDevice(", DeviceText(s.device), ")"));
    default:
      break;
  }
  // A query.
  if (s.truth == Truth::kFalse) {
    return Line(absl::StrCat("if (", Asked(s), ") Fail(", number_,
                             ", \"true behind a closed gate\");"));
  }
  Line(absl::StrCat("if (", Asked(s), ") {"));
  if (s.src.block >= 0) PrintCompare(s, "  ");
  if (s.truth == Truth::kTrue) {
    Line("} else {");
    Line(absl::StrCat("  Fail(", number_, ", \"false after a wait for it\");"));
  }
  Line("}");
}

void Printer::PrintElapsed(const Step& s) {
  const std::string time = absl::StrCat("devrt::ElapsedMilliseconds(*e",
                                        s.event, ", *e", s.other, ")");
  switch (s.truth) {
    case Truth::kError:
      Line(absl::StrCat("if (!absl::IsFailedPrecondition(", time,
                        ".status())) {"));
      Line(absl::StrCat("  Fail(", number_,
                        ", \"a time of what is pending\");"));
      return Line("}");
    case Truth::kAny:
      return Do(time + ".status()");
    default:
      Line(absl::StrCat("if (", Check(time),
                        s.truth == Truth::kTrue ? " < 0) {" : " > 0) {"));
      Line(
          absl::StrCat("  Fail(", number_, ", \"a time of the wrong sign\");"));
      return Line("}");
  }
}

}  // namespace

std::string ToCpp(const Program& program, const Listing& listing) {
  return Printer(program, listing).Print();
}

}  // namespace devrt::cts
