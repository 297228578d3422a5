// SPDX-License-Identifier: Apache-2.0
//
// Public reports of mistakes in allocators, pools and buffers under streams,
// each as a small program with a pool of a few lines.
//
//   {"AReusedBlockIsStillRead", "owner/repo#12", "write-after-read",
//    [](bool mended) {
//      Machine m;
//      int64_t* const x = m.NewBlock();
//      m.Write(m.a, x, 1);
//      int64_t* const seen = m.Read(m.b, x);
//      if (mended) m.Check(m.a.Wait(m.b));
//      m.Write(m.a, x, 2);
//      m.Expect("the reader's value", m.Value(seen), 1);
//      return m.status();
//    }},
//
// A program has the mistake of the report, or with `mended` what mends it.  It
// fails by its status where it computes something else than it should.
//
// Threads: one, but where a program starts others.

#ifndef DEVRT_TESTS_SIM_REPORTS_REPORTS_H_
#define DEVRT_TESTS_SIM_REPORTS_REPORTS_H_

#include <cstdint>
#include <deque>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {

// Two devices with streams, and blocks of one integer, which end with the
// object.  After a fault of a device all calls go on and the first error stays.
class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() {
    d.Synchronize().IgnoreError();
    e.Synchronize().IgnoreError();
    for (const auto& [device, block] : blocks_) {
      Free(device, block).IgnoreError();
    }
    for (int64_t* const block : pinned_) FreeHost(block).IgnoreError();
  }

  const Device d = Must(GetDevice("mtia:0"));
  const Device e = Must(GetDevice("mtia:1"));
  const Stream a = Must(Stream::Create(d));
  const Stream b = Must(Stream::Create(d));
  const Stream c = Must(Stream::Create(d));
  const Stream f = Must(Stream::Create(e));  // of the second device

  static constexpr uint64_t kBytes = sizeof(int64_t);

  int64_t* NewBlock(Device device) {
    auto* const block = static_cast<int64_t*>(Must(Allocate(device, kBytes)));
    blocks_.emplace_back(device, block);
    return block;
  }
  int64_t* NewBlock() { return NewBlock(d); }
  // Pinned memory for `count` integers.
  int64_t* NewPinned(uint64_t count = 1) {
    pinned_.push_back(
        static_cast<int64_t*>(Must(AllocateHost(d, count * kBytes))));
    return pinned_.back();
  }

  // Kernels and copies.  Each names the line that calls it.
  void Write(StreamRef s, int64_t* block, int64_t value,
             CallSite site = CallSite::Here()) {
    LaunchOptions options;
    options.name = "write";
    const auto body = [=](const LaunchContext& kernel) {
      if (int64_t* const at = kernel.Local(block)) *at = value;
    };
    Check(Launch(s, {devrt::Write(block, kBytes)}, body, options, site));
  }
  // Returns the block that gets the value that the kernel reads.
  int64_t* Read(StreamRef s, const int64_t* block,
                CallSite site = CallSite::Here()) {
    int64_t* const seen = NewBlock(s.device());
    LaunchOptions options;
    options.name = "read";
    const auto body = [=](const LaunchContext& kernel) {
      const int64_t* const from = kernel.Local(block);
      int64_t* const to = kernel.Local(seen);
      if (from != nullptr && to != nullptr) *to = *from;
    };
    Check(Launch(s, {devrt::Read(block, kBytes), devrt::Write(seen, kBytes)},
                 body, options, site));
    return seen;
  }
  // The kernel of a collective: doubles the value.
  void Double(StreamRef s, int64_t* block, CallSite site = CallSite::Here()) {
    LaunchOptions options;
    options.name = "collective";
    const auto body = [=](const LaunchContext& kernel) {
      if (int64_t* const at = kernel.Local(block)) *at *= 2;
    };
    Check(Launch(s, {ReadWrite(block, kBytes)}, body, options, site));
  }
  void Copy(StreamRef s, int64_t* to, const int64_t* from,
            CallSite site = CallSite::Here()) {
    Check(CopyAsync(s, to, from, kBytes, CopyKind::kInfer, site));
  }
  // The host writes pinned memory, at once.
  void HostWrite(int64_t* to, int64_t value, CallSite site = CallSite::Here()) {
    Check(validate::UseOnHost({devrt::Write(to, kBytes)}, site));
    *to = value;
  }

  // An event of the stream's device that captures what the stream has so far.
  Event& Record(StreamRef s, CallSite site = CallSite::Here()) {
    events_.push_back(Must(Event::Create(s.device())));
    Check(events_.back().Record(s, site));
    return events_.back();
  }

  // The value of device or host memory when all work is complete.
  int64_t Value(const int64_t* block) {
    Check(d.Synchronize());
    Check(e.Synchronize());
    for (const int64_t* const pinned : pinned_) {
      if (block == pinned) return *block;
    }
    int64_t value = -1;
    Check(Must(Simulator::Get()).Peek(block, &value, sizeof value));
    return value;
  }

  // Lets another host thread go on, if the schedule says so.
  void Yield() { Check(Must(Simulator::Get()).Yield()); }
  // Runs one function here and one in another thread.  The schedule chooses the
  // order.
  template <typename First, typename Second>
  void InTwoThreads(First first, Second second) {
    sync::Thread thread(std::move(second));
    first();
    thread.join();
  }

  // These keep what went wrong first:
  void Check(const absl::Status& status) { status_.Update(status); }
  void Expect(const char* what, int64_t value, int64_t expected) {
    if (value == expected) return;
    Check(absl::InternalError(std::string(what) + " is " +
                              std::to_string(value) + ", expected " +
                              std::to_string(expected)));
  }
  // What went wrong first, when all work is complete.
  absl::Status status() {
    Check(d.Synchronize());
    Check(e.Synchronize());
    return status_;
  }

 private:
  absl::Status status_;
  std::deque<Event> events_;
  std::vector<std::pair<Device, int64_t*>> blocks_;
  std::vector<int64_t*> pinned_;
};

struct Report {
  const char* name;
  const char* source;  // where the mistake was reported
  // What the race detector finds in one run.  Null where only some orders of
  // host threads have a race: it finds the race in one of 128 runs.
  const char* finding;
  absl::Status (*run)(bool mended);
};

// For messages of GoogleTest.
inline void PrintTo(const Report& report, std::ostream* os) {
  *os << report.source;
}
inline std::string NameOfReport(const ::testing::TestParamInfo<Report>& info) {
  return info.param.name;
}

std::vector<Report> FreedBlockReports();
std::vector<Report> HostBufferReports();
std::vector<Report> ReusedBlockReports();

inline std::vector<Report> AllReports() {
  std::vector<Report> all;
  for (const auto& some :
       {FreedBlockReports(), HostBufferReports(), ReusedBlockReports()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SIM_REPORTS_REPORTS_H_
