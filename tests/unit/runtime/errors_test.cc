// SPDX-License-Identifier: Apache-2.0
//
// Statuses of plugin errors: texts, payloads, quarantine
// (docs/reference/semantics.md 2.3 to 2.5).

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "devrt/backends/abi/devrt_program_stack.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "devrt/runtime/thread_state.h"
#include "runtime/plugins/host_table.h"
#include "runtime/registry/records.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/runtime/fake_backend.h"

namespace devrt {
namespace {

using ::testing::ElementsAre;
using testing::FakeBackend;
using testing::FakeFailure;
using ::testing::HasSubstr;
using testing::Must;
using ::testing::StartsWith;
using testing::StatusIs;

constexpr auto kInternal = absl::StatusCode::kInternal;
constexpr uint32_t kLost = DEVRT_ERROR_STICKY | DEVRT_ERROR_ASYNC;

std::vector<std::string>& Logged() {
  static std::vector<std::string>& lines = *new std::vector<std::string>;
  return lines;
}
std::vector<std::string>& Quarantined() {
  static std::vector<std::string>& names = *new std::vector<std::string>;
  return names;
}

// A backend of its own for each test: a lost device stays lost.
class ErrorsTest : public ::testing::Test {
 protected:
  ErrorsTest() {
    Logged().clear();
    Quarantined().clear();
    SetLogSink([](LogLevel level, const char*, int, std::string_view text) {
      if (level == LogLevel::kError) Logged().emplace_back(text);
    });
    internal::SetQuarantineHook(
        [](internal::DeviceRecord* device, const absl::Status& fault) {
          EXPECT_FALSE(fault.ok());
          Quarantined().push_back(internal::DeviceName(device));
          // Outside all locks: devrt can be used.
          EXPECT_FALSE(Device(device).Health().ok());
        });
  }
  ~ErrorsTest() override {
    SetLogSink(nullptr);
    internal::SetQuarantineHook(nullptr);
  }

  static absl::Status Lose(FakeBackend& fake, FakeFailure failure) {
    failure.flags |= kLost;
    fake.Fail("device_sync", failure);
    return fake.device(0).Synchronize();
  }
};

TEST_F(ErrorsTest, LocalErrors) {
  static FakeBackend& fake = FakeBackend::Register("local", 2);
  FakeFailure failure;
  failure.code = DEVRT_INVALID_ARGUMENT;
  failure.text = "that is wrong";
  failure.native_code = 1;
  failure.native_name = "cudaErrorInvalidValue";
  fake.Fail("device_sync", failure);
  const absl::Status status = fake.device(1).Synchronize();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "device synchronize on local:1 failed: that is wrong "
                       "(cudaErrorInvalidValue, code 1, in "
                       "cuStreamSynchronize)"));
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->backend, "local");
  EXPECT_EQ(info->device, 1);
  EXPECT_EQ(info->native_code, 1);
  EXPECT_EQ(info->native_name, "cudaErrorInvalidValue");
  EXPECT_FALSE(info->sticky);
  EXPECT_OK(fake.device(1).Health());
  EXPECT_OK(fake.device(1).Synchronize());
  EXPECT_THAT(Logged(), ElementsAre());
}

// C93
TEST_F(ErrorsTest, StickyErrorsQuarantineTheDeviceAtFault) {
  static FakeBackend& fake = FakeBackend::Register("sticky", 3);
  void* block = Must(Allocate(fake.device(1), 64));
  FakeFailure failure;
  failure.device = 1;
  const absl::Status first = Lose(fake, failure);  // called on device 0
  const std::string text =
      "device synchronize on sticky:0 reports that earlier work on sticky:1 "
      "failed: an illegal address was met (cudaErrorIllegalAddress, code 700, "
      "in cuStreamSynchronize); sticky:1 is lost for the rest of this process";
  EXPECT_THAT(first, StatusIs(kInternal, text));
  EXPECT_EQ(GetErrorInfo(first)->device, 1);
  EXPECT_TRUE(GetErrorInfo(first)->sticky);
  EXPECT_TRUE(GetErrorInfo(first)->async);
  EXPECT_THAT(Logged(), ElementsAre(text));
  EXPECT_THAT(Quarantined(), ElementsAre("sticky:1"));

  const Device lost = fake.device(1);
  const int calls = fake.Calls("device_sync");
  const std::string stored = "device sticky:1 is quarantined: " + text;
  const auto refused = [&](const char* call) {
    return StatusIs(kInternal, stored + "; refused call: " + call);
  };
  EXPECT_THAT(lost.Synchronize(), refused("device synchronize"));
  EXPECT_THAT(lost.Health(), StatusIs(kInternal, stored));
  EXPECT_THAT(Allocate(lost, 64), refused("Allocate"));
  EXPECT_THAT(Allocate(lost, 0), refused("Allocate"));
  EXPECT_THAT(lost.GetMemoryInfo(), refused("memory info"));
  EXPECT_THAT(SetCurrentDevice(lost), refused("set current device"));
  EXPECT_EQ(GetErrorInfo(lost.Health())->native_code, 700);
  EXPECT_EQ(fake.Calls("device_sync"), calls);

  // C94, C95, the last row of docs/reference/semantics.md 2.4.
  EXPECT_OK(Free(lost, block));
  EXPECT_EQ(fake.Calls("dealloc"), 0);
  EXPECT_OK(lost.Properties());
  EXPECT_OK(CurrentDevice("sticky"));
  EXPECT_OK(fake.device(0).Synchronize());
  EXPECT_OK(fake.device(2).Health());
  EXPECT_EQ(Logged().size(), 1u);
}

// C95
TEST_F(ErrorsTest, FaultScopeProcess) {
  static FakeBackend& fake = FakeBackend::Register("process", 3);
  FakeFailure failure;
  failure.flags = DEVRT_ERROR_PROCESS;
  failure.device = 2;
  const absl::Status first = Lose(fake, failure);
  EXPECT_THAT(first, StatusIs(kInternal, HasSubstr("all process devices are "
                                                   "lost")));
  EXPECT_THAT(Quarantined(),
              ElementsAre("process:0", "process:1", "process:2"));
  EXPECT_EQ(Logged().size(), 1u);
  for (Device device : fake.backend().devices()) {
    EXPECT_THAT(device.Health(),
                StatusIs(kInternal, StartsWith("device " + device.name() +
                                               " is quarantined: device "
                                               "synchronize on process:0")));
    EXPECT_EQ(GetErrorInfo(device.Health())->device, 2);
  }
}

TEST_F(ErrorsTest, TheFirstErrorStays) {
  static FakeBackend& fake = FakeBackend::Register("first", 2);
  FakeFailure failure;
  failure.device = 1;
  failure.native_code = 700;
  Lose(fake, failure).IgnoreError();
  failure.native_code = 719;
  const absl::Status second = Lose(fake, failure);
  // The waiting device stays healthy and learns of its origin again.
  EXPECT_THAT(second, StatusIs(kInternal, HasSubstr("code 719")));
  EXPECT_OK(fake.device(0).Health());
  EXPECT_THAT(fake.device(1).Health(),
              StatusIs(kInternal, HasSubstr("code 700")));
  EXPECT_EQ(Logged().size(), 1u);
  EXPECT_EQ(Quarantined().size(), 1u);
}

// C93
TEST_F(ErrorsTest, ThreadsSeeASingleFirstError) {
  static FakeBackend& fake = FakeBackend::Register("threads", 1);
  internal::DeviceRecord* device = fake.device(0).record();
  std::vector<absl::Status> seen(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&, i] {
      devrt_status error =
          internal::MakeError(DEVRT_INTERNAL, static_cast<int64_t>(i), "x", 1);
      error->flags = kLost;
      seen[i] = internal::TakeError(device, error, "query");
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int64_t code = GetErrorInfo(fake.device(0).Health())->native_code;
  int without_prefix = 0;
  for (const absl::Status& status : seen) {
    EXPECT_EQ(GetErrorInfo(status)->native_code, code);
    if (!absl::StartsWith(status.message(), "device threads:0 is")) {
      ++without_prefix;
    }
  }
  EXPECT_EQ(without_prefix, 1);
  EXPECT_EQ(Quarantined().size(), 1u);
}

// A host function may learn of a fault when a reset has long ended that life.
TEST_F(ErrorsTest, FaultsOfAnEarlierLifeCloseNothing) {
  static FakeBackend& fake = FakeBackend::Register("reborn", 1);
  internal::DeviceRecord* const record = fake.device(0).record();
  const auto fail = [record](uint64_t life) {
    devrt_status error = internal::MakeError(DEVRT_INTERNAL, 700, "lost", 4);
    error->flags = kLost;
    return internal::TakeError(record, error, "host function", life);
  };
  const uint64_t former = record->life;
  internal::BeginNewLife(record);
  EXPECT_THAT(fail(former), StatusIs(kInternal, HasSubstr("lost")));
  EXPECT_OK(fake.device(0).Health());
  EXPECT_THAT(Logged(), ElementsAre());
  EXPECT_FALSE(fail(record->life).ok());
  EXPECT_FALSE(fake.device(0).Health().ok());
}

TEST_F(ErrorsTest, SynchronousStickyErrorsBlameTheCall) {
  static FakeBackend& fake = FakeBackend::Register("blocking", 1);
  FakeFailure failure;
  failure.flags = DEVRT_ERROR_STICKY;
  fake.Fail("device_sync", failure);
  const absl::Status status = fake.device(0).Synchronize();
  EXPECT_THAT(status, StatusIs(kInternal, StartsWith("device synchronize on "
                                                     "blocking:0 failed: ")));
  EXPECT_FALSE(GetErrorInfo(status)->async);
  EXPECT_FALSE(fake.device(0).Health().ok());
}

// ---- The table that plugins get ------------------------------------------

class HostTableTest : public ::testing::Test {
 protected:
  const devrt_host_v0* host_ = internal::HostTable();

  devrt_status Make(devrt_code code, std::string_view text) {
    return host_->error_create(host_->host, code, 5, text.data(), text.size());
  }
  std::string Text(devrt_status error) {
    uint64_t size = 0;
    const char* text = host_->error_text(host_->host, error, &size);
    return std::string(text, size);
  }
};

TEST_F(HostTableTest, ErrorsKeepCodeAndText) {
  devrt_status error = Make(DEVRT_DATA_LOSS, std::string_view("a\0b", 3));
  EXPECT_EQ(host_->error_code(host_->host, error), DEVRT_DATA_LOSS);
  EXPECT_EQ(Text(error), std::string("a\0b", 3));
  host_->error_destroy(host_->host, error);
  host_->error_destroy(host_->host, nullptr);
  EXPECT_EQ(host_->error_code(host_->host, nullptr), DEVRT_OK);
  EXPECT_EQ(Text(nullptr), "");
}

TEST_F(HostTableTest, CodesThatNoPluginMayUse) {
  for (devrt_code code : {0, -1, 16, 1 << 30}) {
    devrt_status error = Make(code, "x");
    EXPECT_EQ(host_->error_code(host_->host, error), DEVRT_UNKNOWN);
    host_->error_destroy(host_->host, error);
  }
}

TEST_F(HostTableTest, ErrorWithoutMemory) {
  const char text[] = "x";
  // Larger than any string can be.
  devrt_status error =
      host_->error_create(host_->host, DEVRT_INTERNAL, 1, text, UINT64_MAX);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(host_->error_code(host_->host, error), DEVRT_INTERNAL);
  EXPECT_THAT(Text(error), HasSubstr("no memory"));
  devrt_error_origin_v0 origin = {};
  origin.struct_size = sizeof origin;
  origin.flags = DEVRT_ERROR_STICKY;
  host_->error_set_origin(host_->host, error, &origin);
  EXPECT_EQ(error->flags, 0u);  // it is everybody's
  host_->error_destroy(host_->host, error);
  host_->error_destroy(host_->host, error);
}

TEST_F(HostTableTest, NullText) {
  devrt_status error =
      host_->error_create(host_->host, DEVRT_INTERNAL, 1, nullptr, 9);
  EXPECT_EQ(Text(error), "");
  EXPECT_EQ(internal::DescribeError(*error), "no text given (code 1)");
  host_->error_destroy(host_->host, error);
}

TEST_F(HostTableTest, ShortOrigins) {
  devrt_status error = Make(DEVRT_INTERNAL, "x");
  devrt_error_origin_v0 origin = {};
  origin.struct_size = DEVRT_SIZE_THROUGH(devrt_error_origin_v0, flags);
  origin.flags = DEVRT_ERROR_ASYNC;
  origin.device = 7;  // beyond what the caller has
  origin.native_name = reinterpret_cast<const char*>(1);
  host_->error_set_origin(host_->host, error, &origin);
  EXPECT_EQ(error->flags, DEVRT_ERROR_ASYNC);
  EXPECT_EQ(error->device, -1);
  EXPECT_EQ(error->native_name, "");
  host_->error_destroy(host_->host, error);
}

TEST_F(HostTableTest, NamesAreNotRepeated) {
  devrt_status error = Make(DEVRT_INTERNAL, "cudaErrorAssert: no");
  error->native_name = "cudaErrorAssert";
  EXPECT_EQ(internal::DescribeError(*error), "cudaErrorAssert: no (code 5)");
  host_->error_destroy(host_->host, error);
}

TEST_F(HostTableTest, LogReachesTheSinkFromItsLevelOn) {
  static std::string& seen = *new std::string;
  SetLogSink(
      [](LogLevel level, const char* file, int line, std::string_view text) {
        seen = std::to_string(static_cast<int>(level)) + file +
               std::to_string(line) + std::string(text);
      });
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(host_->log_min_level(host_->host), DEVRT_LOG_INFO);
  host_->log(host_->host, DEVRT_LOG_DEBUG, "f", 1, "no", 2);
  EXPECT_EQ(seen, "");
  host_->log(host_->host, DEVRT_LOG_INFO, "f", 1, "yes", 3);
  EXPECT_EQ(seen, "1f1yes");
  host_->log(host_->host, 99, nullptr, 1, nullptr, 3);
  EXPECT_EQ(seen, "3?1");
  SetLogLevel(LogLevel::kWarning);
  SetLogSink(nullptr);
}

TEST_F(HostTableTest, CallSiteIsPerThread) {
  internal::SetCallSite(CallSite{"here.cc", 12}, "label");
  const devrt_call_site_v0* site = host_->call_site(host_->host);
  EXPECT_STREQ(site->file, "here.cc");
  EXPECT_EQ(site->line, 12);
  EXPECT_STREQ(site->label, "label");
  std::thread([this] {
    EXPECT_EQ(host_->call_site(host_->host)->file, nullptr);
  }).join();
  EXPECT_EQ(host_->get_extension(host_->host, "devrt.none/0"), nullptr);
}

TEST_F(HostTableTest, FramesOfAnInterpretersProgram) {
  const auto* const stack = static_cast<const devrt_program_stack_v0*>(
      host_->get_extension(host_->host, DEVRT_PROGRAM_STACK_EXTENSION));
  ASSERT_NE(stack, nullptr);
  stack->want(host_->host, 1);
  stack->want(host_->host, 1);
  stack->want(host_->host, 0);
  EXPECT_EQ(internal::GetProgramStacks().wants, 1);
  stack->want(host_->host, 0);
  EXPECT_EQ(internal::GetProgramStacks().wants, 0);

  const devrt_program_frames_v0 frames = {sizeof frames, 0, nullptr, 0, 0};
  internal::t_state.frames = &frames;
  EXPECT_EQ(stack->frames(host_->host), &frames);
  std::thread([&] { EXPECT_EQ(stack->frames(host_->host), nullptr); }).join();
  internal::t_state.frames = nullptr;
  EXPECT_EQ(stack->frames(host_->host), nullptr);
  static constexpr devrt_program_frames_v0 kHere = {sizeof kHere, 0, nullptr, 0,
                                                    0};
  internal::GetProgramStacks().note = []() -> const devrt_program_frames_v0* {
    return &kHere;
  };
  EXPECT_EQ(stack->frames(host_->host), &kHere);
  internal::GetProgramStacks().note = nullptr;

  EXPECT_EQ(stack->interpreter(host_->host, 0), nullptr);
  internal::GetProgramStacks().interpreter[0] = this;
  EXPECT_EQ(stack->interpreter(host_->host, 0), this);
  EXPECT_EQ(stack->interpreter(host_->host, 1), nullptr);
  EXPECT_EQ(stack->interpreter(host_->host, 2), nullptr);
  internal::GetProgramStacks().interpreter[0] = nullptr;
}

}  // namespace
}  // namespace devrt
