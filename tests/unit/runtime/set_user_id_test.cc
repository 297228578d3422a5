// SPDX-License-Identifier: Apache-2.0
//
// A program with more rights than its user lets the user's environment choose
// no code and no settings of the allocators.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/subprocess.h"
#include "tests/unit/runtime/plugin_files.h"

namespace devrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::PluginPath;
using testing::ProcessResult;
using testing::RunInChild;
using testing::RunProgram;
using testing::TemporaryFolder;

constexpr uid_t kNobody = 65534;

class SetUserIdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root gives a program its rights";
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
    program_ = folder_.path() + "/report_program";
    std::filesystem::copy_file(std::getenv("DEVRT_REPORT_PROGRAM"), program_);
    ASSERT_EQ(chmod(program_.c_str(), 04755), 0);
  }

  // Runs the program as `user`, with everything set that a user could set.
  ProcessResult RunAs(uid_t user) const {
    return RunInChild([&] {
      if (setuid(user) != 0) std::abort();
      std::printf("%s", RunProgram({program_, "good"},
                                   {{"DEVRT_PLUGINS", PluginPath("good")},
                                    {"DEVRT_PLUGIN_PATH", "/nowhere"},
                                    {"DEVRT_BACKENDS", "good"},
                                    {"DEVRT_DLPACK_RELEASE", "trust"},
                                    {"DEVRT_ALLOC_CONF", "backend:raw"}})
                            .output.c_str());
    });
  }

  TemporaryFolder folder_;
  std::string program_;
};

TEST_F(SetUserIdTest, VariablesAreIgnoredAndNamed) {
  const ProcessResult result = RunAs(kNobody);
  if (result.output.find("secure=1\n") == std::string::npos) {
    struct statvfs system;
    ASSERT_EQ(statvfs(folder_.path().c_str(), &system), 0);
    ASSERT_EQ(result.output.substr(0, 9), "secure=0\n") << result.output;
    GTEST_SKIP() << ((system.f_flag & ST_NOSUID) != 0
                         ? folder_.path() + " is mounted nosuid"
                         : "this system gives no program more rights");
  }
  for (const char* name :
       {"DEVRT_PLUGINS", "DEVRT_PLUGIN_PATH", "DEVRT_BACKENDS"}) {
    EXPECT_THAT(result.output,
                AllOf(HasSubstr(std::string("ignored   ") + name),
                      HasSubstr(std::string(name) + " is ignored: this program "
                                                    "has more rights")));
  }
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("release=0\n"),
                    HasSubstr("no backend \"good\" was found"),
                    HasSubstr("rights than its user: DEVRT_PLUGINS; "
                              "DEVRT_PLUGIN_PATH; DEVRT_BACKENDS"),
                    HasSubstr("backend:caching"), Not(HasSubstr("backend:raw")),
                    Not(HasSubstr(PluginPath("good")))));
}

// A program with no more rights than its user reads the variables.
TEST_F(SetUserIdTest, VariablesCountOtherwise) {
  const ProcessResult result = RunAs(0);
  EXPECT_THAT(
      result.output,
      AllOf(HasSubstr("secure=0\n"), HasSubstr("release=1\n"),
            HasSubstr("backend:raw"), HasSubstr("found     DEVRT_PLUGINS"),
            Not(HasSubstr("ignored"))));
}

}  // namespace
}  // namespace devrt
