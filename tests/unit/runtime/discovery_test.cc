// SPDX-License-Identifier: Apache-2.0
//
// Where plugins are looked for, which of them are taken, and DEVRT_BACKENDS.

#include "runtime/registry/discovery.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/layer.h"
#include "runtime/loader/selection.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/unit/runtime/fake_backend.h"
#include "tests/unit/runtime/plugin_files.h"

namespace devrt {
namespace {

using internal::Discover;
using internal::Environment;
using internal::Finding;
using internal::Selection;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeBackend;
using ::testing::HasSubstr;
using testing::InChild;
using testing::kInvalid;
using testing::Must;
using ::testing::Not;
using testing::PluginPath;
using ::testing::StartsWith;
using testing::StatusIs;
using testing::TemporaryFolder;

using Result = LoadAttempt::Result;

constexpr auto kExists = absl::StatusCode::kAlreadyExists;

// ---- DEVRT_BACKENDS -------------------------------------------------------

TEST(SelectionTest, EmptySelectsAll) {
  for (const char* text : {"", " ", ",", " , "}) {
    EXPECT_TRUE(Must(Selection::Parse(text)).Selects("mtia")) << text;
  }
}

TEST(SelectionTest, NamesAllowOnlyThese) {
  const Selection selection = Must(Selection::Parse("cuda, mtia"));
  EXPECT_TRUE(selection.Selects("cuda"));
  EXPECT_TRUE(selection.Selects("mtia"));
  EXPECT_FALSE(selection.Selects("hip"));
}

TEST(SelectionTest, ExclamationMarksExclude) {
  const Selection others = Must(Selection::Parse("!hip"));
  EXPECT_TRUE(others.Selects("cuda"));
  EXPECT_FALSE(others.Selects("hip"));
  const Selection both = Must(Selection::Parse("cuda,!hip"));
  EXPECT_TRUE(both.Selects("cuda"));
  EXPECT_FALSE(both.Selects("hip"));
  EXPECT_FALSE(both.Selects("mtia"));
}

TEST(SelectionTest, ErrorsNameThePart) {
  for (const char* part : {"Cuda", "cuda:0", "!", "!!hip", "cu da", "-hip"}) {
    EXPECT_THAT(
        Selection::Parse(std::string("mtia,") + part),
        StatusIs(kInvalid, AllOf(StartsWith("DEVRT_BACKENDS=\"mtia,"),
                                 HasSubstr(std::string("\"") + part +
                                           "\" is not a backend's name"))));
  }
  EXPECT_THAT(Selection::Parse("cuda,!cuda"),
              StatusIs(kInvalid, HasSubstr("both allows and excludes")));
}

// ---- Files and folders ----------------------------------------------------

std::vector<Result> ResultsOf(const std::vector<Finding>& findings) {
  std::vector<Result> results;
  for (const Finding& f : findings) results.push_back(f.attempt.result);
  return results;
}

TEST(DiscoverTest, NothingToLookAt) { EXPECT_TRUE(Discover({}).empty()); }

TEST(DiscoverTest, FoldersInOrderAndSorted) {
  TemporaryFolder first, second("it's a \"folder\"");
  second.Add("good", "b");
  second.Add("good_helper", "a");
  first.Add("good");
  std::ofstream(first.path() + "/README") << "not a plugin by its name";
  std::ofstream(first.path() + "/libdevrt_text.so") << "not a plugin";
  Environment environment;
  environment.plugin_path = first.path() + "::" + second.path();
  const std::vector<Finding> findings = Discover(environment);
  EXPECT_THAT(
      ResultsOf(findings),
      ElementsAre(Result::kSearched, Result::kFound, Result::kRefused,
                  Result::kSearched, Result::kFound, Result::kShadowed));
  EXPECT_EQ(findings[1].attempt.backend, "good");
  EXPECT_EQ(findings[1].attempt.version, "1.0");
  EXPECT_THAT(findings[2].attempt.status,
              StatusIs(kInvalid, HasSubstr("libdevrt_text.so: not an ELF")));
  EXPECT_EQ(findings[4].attempt.backend, "good_helper");
  EXPECT_THAT(findings[5].attempt.status,
              StatusIs(kExists, HasSubstr("already comes from " +
                                          findings[1].attempt.path)));
}

TEST(DiscoverTest, PluginsOfARepeatedFolderAreFoundOnce) {
  TemporaryFolder folder;
  folder.Add("good");
  Environment environment;
  environment.plugin_path = folder.path();
  environment.default_directory = folder.path() + "/.";
  EXPECT_THAT(
      ResultsOf(Discover(environment)),
      ElementsAre(Result::kSearched, Result::kFound, Result::kSearched));
}

TEST(DiscoverTest, FoldersThatCannotBeSearched) {
  Environment environment;
  environment.plugin_path = "relative:/nowhere/at/all:/dev/null";
  environment.default_directory = "/nowhere/either";
  const std::vector<Finding> findings = Discover(environment);
  EXPECT_THAT(ResultsOf(findings),
              ElementsAre(Result::kRefused, Result::kRefused, Result::kRefused,
                          Result::kSearched));
  EXPECT_THAT(findings[0].attempt.status,
              StatusIs(kInvalid,
                       "DEVRT_PLUGIN_PATH: \"relative\" is not an "
                       "absolute path: begin it with /"));
  EXPECT_THAT(findings[1].attempt.status,
              StatusIs(absl::StatusCode::kNotFound,
                       "/nowhere/at/all: No such file or directory"));
  EXPECT_THAT(findings[2].attempt.status,
              StatusIs(kInvalid, "/dev/null: Not a directory"));
}

TEST(DiscoverTest, NamedFilesTurnFoldersOff) {
  TemporaryFolder folder;
  folder.Add("good_helper");
  Environment environment;
  environment.plugins = PluginPath("good");
  environment.plugin_path = folder.path();
  environment.default_directory = folder.path();
  const std::vector<Finding> findings = Discover(environment);
  EXPECT_THAT(ResultsOf(findings), ElementsAre(Result::kFound));
  EXPECT_EQ(findings[0].attempt.source, "DEVRT_PLUGINS");
}

TEST(DiscoverTest, FilesNamedTwice) {
  TemporaryFolder folder;
  const std::string copy = folder.Add("good", "copy");
  const std::string link = folder.path() + "/link.so";
  std::filesystem::create_symlink(PluginPath("good"), link);
  Environment environment;
  environment.plugins = PluginPath("good") + ":" + PluginPath("good") + ":" +
                        link + ":" + copy + ":libdevrt_good.so";
  const std::vector<Finding> findings = Discover(environment);
  EXPECT_THAT(ResultsOf(findings),
              ElementsAre(Result::kFound, Result::kShadowed, Result::kShadowed,
                          Result::kShadowed, Result::kRefused));
  EXPECT_THAT(findings[1].attempt.status,
              StatusIs(kExists, PluginPath("good") +
                                    ": named twice, first by DEVRT_PLUGINS"));
  EXPECT_THAT(findings[2].attempt.status,
              StatusIs(kExists, HasSubstr("link.so: named twice")));
  EXPECT_THAT(findings[3].attempt.status,
              StatusIs(kExists, HasSubstr("backend \"good\" already comes "
                                          "from " +
                                          PluginPath("good"))));
}

TEST(DiscoverTest, DefaultDirectoryLiesBesideTheCode) {
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(internal::ReadEnvironment().default_directory,
            (self.parent_path() / "devrt").string());
}

// ---- The whole, each in a process of its own ------------------------------

TEST(BackendsTest, OpenedByNameAndLazily) {
  InChild([] {
    setenv("DEVRT_PLUGINS",
           (PluginPath("good") + ":" + PluginPath("open_fails")).c_str(), 1);
    EXPECT_THAT(BackendNames(), ElementsAre("good", "open_fails"));
    EXPECT_THAT(LoadReportText(),
                AllOf(HasSubstr("found     DEVRT_PLUGINS      "),
                      HasSubstr("good 1.0"), Not(HasSubstr("loaded"))));
    const Backend good = Must(GetBackend("good"));
    EXPECT_EQ(good.path(), PluginPath("good"));
    EXPECT_EQ(good.vendor(), "devrt tests");
    EXPECT_EQ(good.device_count(), 2);
    EXPECT_EQ(Must(GetBackend("good")), good);
    EXPECT_THAT(LoadReportText(), HasSubstr("loaded    DEVRT_PLUGINS"));
  });
}

TEST(BackendsTest, FailuresOfNamedFilesAreAnswered) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    setenv("DEVRT_PLUGINS",
           (PluginPath("truncated") + ":" + PluginPath("good")).c_str(), 1);
    EXPECT_THAT(
        GetBackend("cuda"),
        StatusIs(kInvalid,
                 AllOf(StartsWith("no backend \"cuda\" was found; "
                                  "known backends: good; refused: "),
                       HasSubstr(PluginPath("truncated") + ": truncated"))));
    EXPECT_OK(GetBackend("good"));
  });
}

TEST(BackendsTest, NamedFilesThatAreNotPluginsAreLogged) {
  const testing::ProcessResult result = testing::RunInChild([] {
    setenv("DEVRT_PLUGINS", PluginPath("not_elf").c_str(), 1);
    BackendNames();
  });
  EXPECT_THAT(result.output, HasSubstr("devrt error: DEVRT_PLUGINS: " +
                                       PluginPath("not_elf")));
}

TEST(BackendsTest, AFileOfThatNameExplainsItself) {
  InChild([] {
    TemporaryFolder folder;
    folder.Add("foreign_major", "cuda");
    setenv("DEVRT_PLUGIN_PATH", folder.path().c_str(), 1);
    EXPECT_THAT(GetBackend("cuda"),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("a plugin for devrt ABI major 9")));
    EXPECT_THAT(GetBackend("hip"),
                StatusIs(absl::StatusCode::kNotFound,
                         AllOf(HasSubstr("known backends: none"),
                               HasSubstr("searched: " + folder.path()))));
  });
}

TEST(BackendsTest, SelectionExcludes) {
  InChild([] {
    setenv("DEVRT_PLUGINS", PluginPath("good").c_str(), 1);
    setenv("DEVRT_BACKENDS", "!good", 1);
    EXPECT_THAT(BackendNames(), ElementsAre());
    const auto excluded =
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 "backend \"good\" is excluded by DEVRT_BACKENDS=\"!good\"");
    EXPECT_THAT(GetBackend("good"), excluded);
    EXPECT_THAT(LoadBackend(PluginPath("good")), excluded);
    EXPECT_TRUE(AllDevices().empty());
    EXPECT_THAT(LoadReportText(), StartsWith("excluded  DEVRT_PLUGINS"));
  });
}

TEST(BackendsTest, BadSelectionStopsEverything) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    setenv("DEVRT_PLUGINS", PluginPath("good").c_str(), 1);
    setenv("DEVRT_BACKENDS", "good;mtia", 1);
    EXPECT_THAT(GetBackend("good"),
                StatusIs(kInvalid, HasSubstr("DEVRT_BACKENDS=\"good;mtia\"")));
    EXPECT_FALSE(LoadBackend(PluginPath("good")).ok());
    EXPECT_TRUE(BackendNames().empty());
    EXPECT_EQ(LoadReport()[0].source, "DEVRT_BACKENDS");
  });
}

TEST(BackendsTest, ExplicitLoadsComeFirst) {
  InChild([] {
    TemporaryFolder folder;
    const std::string copy = folder.Add("good", "copy");
    setenv("DEVRT_PLUGINS", PluginPath("good").c_str(), 1);
    EXPECT_THAT(BackendNames(), ElementsAre("good"));  // found, not opened
    EXPECT_EQ(Must(LoadBackend(copy)).path(), copy);
    EXPECT_EQ(Must(GetBackend("good")).path(), copy);
    EXPECT_THAT(LoadReportText(), HasSubstr("shadowed  DEVRT_PLUGINS"));
    EXPECT_THAT(LoadBackend(PluginPath("good")),
                StatusIs(kExists, HasSubstr("already comes from " + copy)));
  });
}

TEST(BackendsTest, RegisteredBackends) {
  InChild([] {
    setenv("DEVRT_PLUGINS", PluginPath("good").c_str(), 1);
    FakeBackend::Register("good", 1);
    EXPECT_EQ(Must(GetBackend("good")).path(), "");
    EXPECT_EQ(Must(GetBackend("good")).device_count(), 1);
    EXPECT_THAT(LoadReportText(), HasSubstr("already comes from the program "
                                            "itself"));
    static devrt_manifest_v0 manifest = {};
    const auto open = [](const devrt_host_v0*,
                         devrt_backend_v0*) -> devrt_status { return nullptr; };
    EXPECT_THAT(RegisterBackend(&manifest, open),
                StatusIs(kInvalid, HasSubstr("RegisterBackend: its manifest "
                                             "does not begin with")));
    EXPECT_THAT(RegisterBackend(nullptr, open),
                StatusIs(kInvalid, HasSubstr("")));
    EXPECT_THAT(RegisterBackend(&manifest, nullptr),
                StatusIs(kInvalid, HasSubstr("")));
    manifest = internal::Examine("test", PluginPath("good")).manifest;
    EXPECT_EQ(RegisterBackend(&manifest, open).code(), kExists);
  });
}

// devrt shuts down an opened plugin whose table it refuses.
TEST(BackendsTest, RefusedTablesAreShutDown) {
  InChild([] {
    static int shutdowns = 0;
    static devrt_manifest_v0 manifest =
        internal::Examine("test", PluginPath("good")).manifest;
    const auto open = [](const devrt_host_v0*,
                         devrt_backend_v0* backend) -> devrt_status {
      static devrt_ops_v0 ops = {};
      ops.struct_size = sizeof ops;
      ops.shutdown = [](void* self) { shutdowns += self == &ops ? 1 : 0; };
      backend->self = &ops;
      backend->ops = &ops;
      return nullptr;
    };
    EXPECT_OK(RegisterBackend(&manifest, open));
    EXPECT_THAT(GetBackend("good"), StatusIs(kInvalid, HasSubstr("lacks")));
    EXPECT_EQ(shutdowns, 1);
  });
}

// The registry waits for the plugin: it cannot answer it.
TEST(BackendsTest, CallsOfAPluginThatIsBeingOpened) {
  InChild([] {
    static devrt_manifest_v0 manifest =
        internal::Examine("test", PluginPath("good")).manifest;
    const auto open = [](const devrt_host_v0*,
                         devrt_backend_v0*) -> devrt_status {
      const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("while it is opened"));
      EXPECT_THAT(GetBackend("mtia"), refused);
      EXPECT_THAT(GetDevice("good:0"), refused);
      EXPECT_THAT(LoadBackend(PluginPath("good")), refused);
      EXPECT_THAT(SetLayers({}), refused);
      EXPECT_THAT(Shutdown(), refused);
      EXPECT_TRUE(BackendNames().empty());
      EXPECT_TRUE(LoadReport().empty());
      EXPECT_TRUE(Layers().empty());
      throw std::runtime_error("done");
    };
    EXPECT_OK(RegisterBackend(&manifest, open));
    EXPECT_THAT(GetBackend("good"),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("done")));
    EXPECT_THAT(RegisterBackend(&manifest, open),
                StatusIs(kExists, StartsWith("RegisterBackend: backend ")));
  });
}

TEST(BackendsTest, PluginsThatNameNothing) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    setenv("DEVRT_PLUGINS", ":", 1);
    EXPECT_THAT(GetBackend("mtia"),
                StatusIs(kInvalid, HasSubstr("DEVRT_PLUGINS=\":\" names no "
                                             "file")));
    EXPECT_THAT(LoadReportText(), HasSubstr("names no file"));
  });
}

TEST(BackendsTest, PriorityOrdersNames) {
  InChild([] {
    setenv("DEVRT_PLUGINS", PluginPath("good").c_str(), 1);  // priority 500
    FakeBackend::Register("zeta", 1);                        // priority 100
    FakeBackend::Register("alpha", 1);                       // priority 100
    FakeBackend::Register("unsaid", 1, FakeBackend::kCapabilities, 0);
    FakeBackend::Register("urgent", 1, FakeBackend::kCapabilities, 1);
    const std::vector<std::string> names = BackendNames();
    EXPECT_THAT(names,
                ElementsAre("urgent", "alpha", "unsaid", "zeta", "good"));
  });
}

}  // namespace
}  // namespace devrt
