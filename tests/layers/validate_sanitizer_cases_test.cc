// SPDX-License-Identifier: Apache-2.0
//
// The cases by which PyTorch tests its CUDA sanitizer, as programs of devrt,
// with the sanitizer's verdicts (class TestEventHandler in
// test/test_cuda_sanitizer.py of pytorch/pytorch).  A launch in a case is good,
// or bad: it adds findings.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "tests/layers/validate_findings.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

constexpr int kCount = 11;  // of streams, of events and of blocks
constexpr uint64_t kBlock = 512;

// Streams, events and blocks, by number.
class Case {
 public:
  explicit Case(const FindingsFile& file) : file_(file) {
    for (int i = 0; i < kCount; ++i) {
      streams_.push_back(Must(Stream::Create(device_)));
      events_.push_back(Must(Event::Create(device_)));
      blocks_.push_back(Must(Allocate(device_, kBlock)));
    }
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;
  ~Case() { EXPECT_OK(device_.Synchronize()); }

  // Kernels that read blocks and update others, or one that does neither.
  // Returns the number of new findings.
  uint64_t Launch(int stream, const std::vector<int>& reads,
                  const std::vector<int>& updates = {}) {
    const uint64_t before = file_.Count();
    if (reads.empty() && updates.empty()) Run(stream, {});
    for (const int i : reads) Run(stream, {Read(blocks_[i], kBlock)});
    for (const int i : updates) Run(stream, {ReadWrite(blocks_[i], kBlock)});
    return file_.Count() - before;
  }
  void Good(int stream, const std::vector<int>& reads,
            const std::vector<int>& updates = {}) {
    EXPECT_EQ(Launch(stream, reads, updates), 0U) << file_.Text();
  }
  void Bad(int stream, const std::vector<int>& reads,
           const std::vector<int>& updates = {}) {
    EXPECT_GT(Launch(stream, reads, updates), 0U);
  }

  void Record(int event, int stream) {
    EXPECT_OK(events_[event].Record(streams_[stream]));
  }
  void Wait(int stream, int event) {
    EXPECT_OK(streams_[stream].Wait(events_[event]));
  }
  // The event ends, and a new one takes its place.
  void Renew(int event) { events_[event] = Must(Event::Create(device_)); }

  const Device& device() const { return device_; }
  Stream& stream(int i) { return streams_[i]; }
  Event& event(int i) { return events_[i]; }
  int NewStream() {
    streams_.push_back(Must(Stream::Create(device_)));
    return static_cast<int>(streams_.size()) - 1;
  }

 private:
  // Each kernel has a name of its own, because a finding is written once for
  // each pair of names.
  void Run(int stream, std::initializer_list<Access> accesses) {
    const std::string name = "kernel " + std::to_string(++kernels_);
    LaunchOptions options;
    options.name = name.c_str();
    EXPECT_OK(devrt::Launch(
        streams_[stream], accesses, [](const LaunchContext&) {}, options));
  }

  const FindingsFile& file_;
  const Device device_ = Must(GetDevice("mtia:0"));
  std::deque<Stream> streams_;
  std::deque<Event> events_;
  std::vector<void*> blocks_;
  int kernels_ = 0;
};

struct SanitizerCase {
  const char* name;
  void (*body)(Case& c);
};

const SanitizerCase kCases[] = {
    {"empty_kernel_launch", [](Case& c) { c.Good(0, {}); }},
    {"simple_passing",
     [](Case& c) {
       c.Good(1, {1});
       c.Good(2, {1});
     }},
    {"simple_error",
     [](Case& c) {
       c.Good(1, {1});
       c.Bad(2, {}, {1});
     }},
    {"simple_sync",
     [](Case& c) {
       c.Good(1, {1});
       c.Record(0, 1);
       c.Wait(2, 0);
       c.Good(2, {}, {1});
     }},
    {"reads_check_last_write",
     [](Case& c) {
       c.Good(1, {}, {1});
       c.Record(0, 1);
       c.Wait(2, 0);
       c.Good(2, {1});
       c.Bad(3, {1});
     }},
    {"branch_sync",
     [](Case& c) {
       c.Good(1, {}, {1});
       c.Record(0, 1);
       c.Wait(2, 0);
       c.Wait(3, 0);
       c.Good(2, {1});
       c.Good(3, {1});
       c.Bad(2, {}, {1});
     }},
    {"chain_sync",
     [](Case& c) {
       c.Good(0, {1});
       for (int i = 0; i + 1 < kCount; ++i) {
         c.Record(i, i);
         c.Wait(i + 1, i);
       }
       c.Good(kCount - 1, {}, {1});
     }},
    {"expired_record",
     [](Case& c) {
       c.Good(1, {1});
       c.Record(0, 1);
       c.Good(1, {1});
       c.Wait(2, 0);
       c.Bad(2, {}, {1});
     }},
    {"deleted_record",
     [](Case& c) {
       // Created again: the new event was not recorded.
       c.Good(1, {1});
       c.Record(0, 1);
       c.Renew(0);
       c.Wait(2, 0);
       c.Bad(2, {}, {1});
       // Deleted: devrt refuses the wait, and the wait orders nothing.
       c.Good(1, {2});
       std::optional<Event> deleted(Must(Event::Create(c.device())));
       EXPECT_OK(deleted->Record(c.stream(1)));
       const EventRef reference = deleted->ref();
       deleted.reset();
       EXPECT_STATUS(c.stream(2).Wait(reference), kInvalidArgument, "");
       c.Bad(2, {}, {2});
     }},
    {"all_reads_checked_failing",
     [](Case& c) {
       for (int i = 1; i < kCount; ++i) {
         c.Good(i, {1});
         c.Record(i, i);
       }
       for (int i = 1; i + 1 < kCount; ++i) c.Wait(0, i);
       c.Bad(0, {}, {1});
     }},
    {"all_reads_checked_passing",
     [](Case& c) {
       for (int i = 1; i < kCount; ++i) {
         c.Good(i, {1});
         c.Record(i, i);
       }
       for (int i = 1; i < kCount; ++i) c.Wait(0, i);
       c.Good(0, {}, {1});
     }},
    {"multiple_errors",
     [](Case& c) {
       c.Good(0, {}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
       EXPECT_EQ(c.Launch(1, {}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), 10U);
     }},
    {"correct_state_merging",
     [](Case& c) {
       c.Good(1, {}, {1});
       c.Good(2, {}, {2});
       c.Record(1, 1);
       c.Record(2, 2);
       c.Good(1, {}, {1});
       c.Good(2, {}, {2});
       c.Wait(2, 1);
       c.Wait(1, 2);
       c.Record(3, 2);
       c.Wait(1, 3);
       c.Good(1, {}, {1, 2});
     }},
    {"record_override",
     [](Case& c) {
       c.Good(1, {1});
       c.Good(2, {2});
       c.Record(1, 1);
       c.Record(1, 2);
       c.Wait(3, 1);
       c.Bad(3, {}, {1});
     }},
    {"multiple_wait",
     [](Case& c) {
       c.Good(1, {}, {1});
       c.Record(1, 1);
       c.Wait(2, 1);
       c.Wait(3, 1);
       c.Good(2, {1});
       c.Good(3, {1});
     }},
    {"device_synchronize",
     [](Case& c) {
       for (int i = 1; i < kCount; ++i) c.Good(i, {}, {i});
       EXPECT_OK(c.device().Synchronize());
       c.Good(0, {}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
     }},
    {"device_synchronization_expired",
     [](Case& c) {
       c.Good(1, {}, {1});
       EXPECT_OK(c.device().Synchronize());
       c.Good(1, {}, {1});
       c.Bad(2, {}, {1});
     }},
    {"new_stream_is_synchronized",
     [](Case& c) {
       c.Good(1, {}, {1});
       EXPECT_OK(c.device().Synchronize());
       c.Good(c.NewStream(), {}, {1});
     }},
    {"stream_synchronize",
     [](Case& c) {
       c.Good(0, {}, {1});
       c.Good(1, {}, {2});
       EXPECT_OK(c.stream(0).Synchronize());
       c.Good(2, {1});
       c.Good(3, {1});
       c.Bad(4, {2});
     }},
    {"event_synchronize",
     [](Case& c) {
       c.Good(1, {}, {1});
       c.Record(1, 1);
       c.Good(1, {}, {2});
       EXPECT_OK(c.event(1).Synchronize());
       c.Good(2, {}, {1});
       c.Bad(2, {}, {2});
     }},
};

class SanitizerCases : public ::testing::TestWithParam<SanitizerCase> {};

TEST_P(SanitizerCases, HasTheVerdict) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([&] {
    Case program(file);
    GetParam().body(program);
  });
  EXPECT_EQ(result.exit_code, 0) << result;
}

std::string NameOf(const ::testing::TestParamInfo<SanitizerCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(PyTorch, SanitizerCases, ::testing::ValuesIn(kCases),
                         NameOf);

}  // namespace
}  // namespace devrt::testing
