// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/plugin_directory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/runtime/plugin_files.h"

namespace devrt::internal {
namespace {

namespace fs = std::filesystem;

class PluginDirectoryTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }
  void Make(const std::string& name) const {
    fs::create_directories(Path(name));
  }
  // For a program that devrt is linked into.
  std::string OfProgram(const std::string& name) const {
    return PluginDirectory(Path(name), Path(name));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(PluginDirectoryTest, IsBesideTheSharedLibrary) {
  Make("bin/devrt");
  Make("lib/devrt");
  EXPECT_EQ(PluginDirectory(Path("x/libdevrt.so"), Path("bin/program")),
            Path("x/devrt"));
  EXPECT_EQ(PluginDirectory("/libdevrt.so", "/bin/program"), "/devrt");
  EXPECT_EQ(PluginDirectory("", "/bin/program"), "");
}

TEST_F(PluginDirectoryTest, IsBesideTheProgramOrInItsLibFolder) {
  Make("bin");
  EXPECT_EQ(OfProgram("bin/program"), Path("bin/devrt"));
  Make("lib/devrt");
  EXPECT_EQ(OfProgram("bin/program"), Path("lib/devrt"));
  Make("bin/devrt");
  EXPECT_EQ(OfProgram("bin/program"), Path("bin/devrt"));
}

TEST_F(PluginDirectoryTest, IsNotTheCommandItself) {
  Make("bin");
  std::ofstream(Path("bin/devrt")) << "the command";
  EXPECT_NE(OfProgram("bin/devrt"), Path("bin/devrt"));
  Make("lib/devrt");
  EXPECT_EQ(OfProgram("bin/devrt"), Path("lib/devrt"));
}

}  // namespace
}  // namespace devrt::internal
