// SPDX-License-Identifier: Apache-2.0
//
// Payloads of absl::Status.

#include "devrt/runtime/status.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/cord.h"
#include "devrt/runtime/capture_error.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

std::string AllBytes() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return bytes + " native_code=7 ==\n";
}

TEST(ErrorInfoTest, RoundTripKeepsEveryField) {
  ErrorInfo info;
  info.backend = "cuda";
  info.device = 3;
  info.native_code = std::numeric_limits<int64_t>::min();
  info.native_name = AllBytes();
  info.entry_point = AllBytes();
  info.native_stream = std::numeric_limits<uint64_t>::max();
  info.sticky = true;
  absl::Status status = absl::InternalError("text");
  SetErrorInfo(&status, info);
  const std::optional<ErrorInfo> back = GetErrorInfo(status);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->backend, info.backend);
  EXPECT_EQ(back->device, info.device);
  EXPECT_EQ(back->native_code, info.native_code);
  EXPECT_EQ(back->native_name, info.native_name);
  EXPECT_EQ(back->entry_point, info.entry_point);
  EXPECT_EQ(back->native_stream, info.native_stream);
  EXPECT_TRUE(back->sticky);
  EXPECT_FALSE(back->async);
  EXPECT_EQ(status.message(), "text");
}

TEST(ErrorInfoTest, SetReplacesEarlierInfo) {
  absl::Status status = absl::InternalError("text");
  ErrorInfo info;
  info.native_code = 1;
  SetErrorInfo(&status, info);
  info.native_code = 2;
  SetErrorInfo(&status, info);
  EXPECT_EQ(GetErrorInfo(status)->native_code, 2);
}

TEST(ErrorInfoTest, OkAndOwnErrorsHaveNone) {
  absl::Status ok;
  SetErrorInfo(&ok, ErrorInfo());
  EXPECT_TRUE(ok.ok());
  EXPECT_FALSE(GetErrorInfo(ok).has_value());
  EXPECT_FALSE(GetErrorInfo(absl::NotFoundError("")).has_value());
}

TEST(ErrorInfoTest, DamagedPayloadsAreRead) {
  for (const std::string& payload :
       {std::string(), AllBytes(), std::string("device=x sticky = \\"),
        std::string("native_code=99999999999999999999999 sticky=1"),
        std::string(1 << 16, '=')}) {
    absl::Status status = absl::InternalError("text");
    status.SetPayload("devrt/ErrorInfo", absl::Cord(payload));
    EXPECT_TRUE(GetErrorInfo(status).has_value());
  }
}

// absl prints a payload as one readable line, without unknown fields.
TEST(ErrorInfoTest, TextsHaveNoRawPayload) {
  ErrorInfo info;
  info.backend = "mtia";
  info.device = 0;
  info.native_code = 710;
  info.entry_point = "stream sync";
  absl::Status status = absl::InternalError("device-side assertion");
  SetErrorInfo(&status, info);
  EXPECT_EQ(StatusText(status), "INTERNAL: device-side assertion");
  EXPECT_EQ(StatusText(absl::OkStatus()), "OK");
  EXPECT_THAT(status.ToString(),
              ::testing::StartsWith(
                  "INTERNAL: device-side assertion [devrt/ErrorInfo='"
                  "backend=mtia device=0 native_code=710 entry_point="));
  EXPECT_EQ(GetErrorInfo(status)->entry_point, "stream sync");
  status = absl::ResourceExhaustedError("full");
  SetOutOfMemoryInfo(&status, {4096, 2048, 1024});
  EXPECT_EQ(status.ToString(),
            "RESOURCE_EXHAUSTED: full [devrt/OutOfMemoryInfo='requested=4096 "
            "total=2048 free=1024']");
}

TEST(OutOfMemoryInfoTest, RoundTripKeepsEveryField) {
  absl::Status status = absl::ResourceExhaustedError("full");
  EXPECT_FALSE(GetOutOfMemoryInfo(status).has_value());
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  SetOutOfMemoryInfo(&status, {most, 2, 1});
  const std::optional<OutOfMemoryInfo> back = GetOutOfMemoryInfo(status);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->requested, most);
  EXPECT_EQ(back->total, 2u);
  EXPECT_EQ(back->free, 1u);
  EXPECT_FALSE(GetErrorInfo(status).has_value());
}

TEST(CaptureErrorTest, RecognizesErrorsOfDevrt) {
  const absl::Status status = CaptureError("not now");
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kFailedPrecondition, "not now"));
  EXPECT_TRUE(IsCaptureError(status));
  EXPECT_FALSE(GetErrorInfo(status).has_value());
  EXPECT_FALSE(IsCaptureError(absl::FailedPreconditionError("not now")));
  EXPECT_FALSE(IsCaptureError(absl::OkStatus()));
}

TEST(CaptureErrorTest, RecognizesErrorsOfTheDriver) {
  const auto of = [](const char* backend, int64_t code, bool sticky) {
    absl::Status status = absl::FailedPreconditionError("no");
    ErrorInfo info;
    info.backend = backend;
    info.native_code = code;
    info.sticky = sticky;
    SetErrorInfo(&status, info);
    return IsCaptureError(status);
  };
  EXPECT_TRUE(of("cuda", 900, false));
  EXPECT_TRUE(of("hip", 908, false));
  EXPECT_FALSE(of("cuda", 899, false));
  EXPECT_FALSE(of("cuda", 909, false));
  EXPECT_FALSE(of("mtia", 900, false));
  EXPECT_FALSE(of("cuda", 900, true));
}

absl::Status ReturnsStatus(const absl::Status& status) {
  DEVRT_RETURN_IF_ERROR(status);
  return absl::AbortedError("went on");
}

absl::StatusOr<int> Assigns(absl::StatusOr<std::string> from) {
  DEVRT_ASSIGN_OR_RETURN(const std::string text, std::move(from));
  DEVRT_ASSIGN_OR_RETURN(const std::string more,
                         absl::StatusOr<std::string>("y"));
  return static_cast<int>((text + more).size());
}

TEST(StatusMacrosTest, ReturnEarly) {
  EXPECT_THAT(ReturnsStatus(absl::OkStatus()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("went on")));
  EXPECT_THAT(ReturnsStatus(absl::NotFoundError("no")),
              StatusIs(absl::StatusCode::kNotFound, "no"));
  EXPECT_EQ(*Assigns(std::string("x")), 2);
  EXPECT_THAT(Assigns(absl::NotFoundError("no")),
              StatusIs(absl::StatusCode::kNotFound, "no"));
}

}  // namespace
}  // namespace devrt
