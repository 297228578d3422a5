// SPDX-License-Identifier: Apache-2.0
//
// Loading through the descriptor that was inspected: what runs is what was
// judged, and neither run paths nor names suffer from it.

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "devrt/runtime/backend.h"
#include "runtime/loader/library.h"
#include "runtime/loader/plugin_file.h"
#include "runtime/registry/records.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/unit/runtime/plugin_files.h"

namespace devrt {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::InChild;
using testing::kDenied;
using testing::kFailedPrecondition;
using testing::kInvalid;
using testing::Must;
using ::testing::Not;
using testing::PluginDirectory;
using testing::PluginPath;
using testing::Read;
using testing::StatusIs;
using testing::TemporaryFolder;

// The file that the dynamic linker says the backend's code comes from.
std::string FileOf(Backend backend) {
  Dl_info info = {};
  const auto function = internal::BackendRecord::Of(backend)->ops.alloc;
  EXPECT_NE(dladdr(reinterpret_cast<void*>(function), &info), 0);
  return info.dli_fname;
}

internal::PluginFile Open(const std::string& path) {
  return internal::OpenPluginFile(path, internal::kPluginLibrary,
                                  internal::Purpose::kLoad);
}

std::set<std::string> LoadedFiles() {
  std::set<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        static_cast<std::set<std::string>*>(to)->insert(info->dlpi_name);
        return 0;
      },
      &names);
  return names;
}

class LoadFileTest : public ::testing::Test {
 protected:
  // libacme.so.1, which the plugin `bundled` needs.
  std::string AddLibrary(const std::string& directory = "") {
    const std::string target = folder_.path() + directory + "/libacme.so.1";
    fs::create_directories(folder_.path() + directory);
    fs::copy_file(PluginDirectory() + "/libacme.so.1", target);
    return target;
  }

  TemporaryFolder folder_;
};

// ---- Names ----------------------------------------------------------------

TEST_F(LoadFileTest, LibrariesBearTheirRealPaths) {
  InChild([&] {
    const std::string library = AddLibrary();
    const std::string plugin = folder_.Add("bundled");
    const std::string link = folder_.path() + "/link.so";
    fs::create_symlink(plugin, link);
    const Backend backend = Must(LoadBackend(link));
    EXPECT_EQ(backend.path(), link);
    EXPECT_EQ(FileOf(backend), plugin);
    const std::set<std::string> files = LoadedFiles();
    EXPECT_EQ(files.count(plugin), 1u);
    EXPECT_EQ(files.count(library), 1u);
    for (const std::string& file : files) {
      EXPECT_THAT(file, Not(HasSubstr("/fd/")));
    }
  });
}

TEST_F(LoadFileTest, DescriptorsAreUsedAgainAndNamesAreNot) {
  InChild([&] {
    // Each is opened under the same descriptor: the dynamic linker must not
    // take one for the other by its name.
    for (const char* name : {"good", "good_helper", "null_self", "tiny"}) {
      const Backend backend = Must(LoadBackend(folder_.Add(name)));
      EXPECT_EQ(FileOf(backend), backend.path());
    }
  });
}

TEST_F(LoadFileTest, TheSameFileTwiceIsLoadedOnce) {
  InChild([&] {
    const internal::PluginFile first = Open(folder_.Add("good"));
    const internal::PluginFile again = Open(first.path);
    void* library = Must(internal::LoadPluginFile(first));
    EXPECT_EQ(Must(internal::LoadPluginFile(again)), library);
    // Also when somebody else has loaded it by its name.
    void* other = dlopen(PluginPath("tiny").c_str(), RTLD_NOW);
    EXPECT_EQ(Must(internal::LoadPluginFile(Open(PluginPath("tiny")))), other);
  });
}

TEST_F(LoadFileTest, MissingProcIsNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root changes the root directory";
  InChild([&] {
    folder_.Add("good");
    ASSERT_EQ(chroot(folder_.path().c_str()), 0);
    EXPECT_THAT(
        LoadBackend("/libdevrt_good.so"),
        StatusIs(kFailedPrecondition,
                 AllOf(HasSubstr("/libdevrt_good.so: cannot be loaded through "
                                 "its descriptor /proc/"),
                       HasSubstr("mount -t proc"))));
    // A plain folder with the name /proc is not a proc file system.
    ASSERT_EQ(mkdir("/proc", 0755), 0);
    EXPECT_THAT(
        LoadBackend("/libdevrt_good.so"),
        StatusIs(kFailedPrecondition, HasSubstr("expected the proc file")));
  });
}

// ---- Between inspection and loading ---------------------------------------

// Changes the file in the meantime; `path` is the file's.
using Meanwhile = void (*)(const std::string& path);

struct Exchange {
  const char* name;
  Meanwhile meanwhile;
  bool loads;  // what was inspected; else it is refused
};

void Overwrite(const std::string& path, const std::string& with) {
  const std::string bytes = Read(with);
  const int fd = open(path.c_str(), O_WRONLY);
  EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  close(fd);
}

constexpr Exchange kExchanges[] = {
    {"untouched", [](const std::string&) {}, true},
    {"directory_renamed",
     [](const std::string& path) {
       // The path now leads to another file; the inspected one is unharmed.
       const fs::path directory = fs::path(path).parent_path();
       fs::rename(directory, directory.string() + ".old");
       fs::create_directory(directory);
       fs::copy_file(PluginPath("open_fails"), path);
     },
     true},
    {"removed", [](const std::string& path) { fs::remove(path); }, false},
    {"replaced",
     [](const std::string& path) {
       fs::copy_file(PluginPath("open_fails"), path + ".new");
       fs::rename(path + ".new", path);
     },
     false},
    {"overwritten",
     [](const std::string& path) { Overwrite(path, PluginPath("open_fails")); },
     false},
    {"same_bytes",
     [](const std::string& path) { Overwrite(path, PluginPath("good")); },
     false},
    {"times_forged",
     [](const std::string& path) {
       struct stat before;
       ASSERT_EQ(stat(path.c_str(), &before), 0);
       Overwrite(path, PluginPath("good"));
       const timespec times[] = {before.st_atim, before.st_mtim};
       ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
     },
     false},
    {"truncated",
     [](const std::string& path) { EXPECT_EQ(truncate(path.c_str(), 64), 0); },
     false},
    {"given_away",
     [](const std::string& path) { fs::permissions(path, fs::perms(0666)); },
     false},
};

class ExchangeTest : public ::testing::TestWithParam<Exchange> {};

TEST_P(ExchangeTest, RunsTheInspectedFileOrNone) {
  InChild([] {
    TemporaryFolder folder;
    const std::string mark = folder.path() + "/ran";
    setenv("DEVRT_TEST_RAN", mark.c_str(), 1);
    fs::create_directory(folder.path() + "/plugins");
    const std::string path = folder.path() + "/plugins/libdevrt_good.so";
    fs::copy_file(PluginPath("good"), path);
    internal::SetBeforeLoadHook(GetParam().meanwhile);
    const absl::StatusOr<Backend> backend = LoadBackend(path);
    EXPECT_FALSE(fs::exists(mark));  // open_fails did not run
    if (GetParam().loads) {
      EXPECT_EQ(Must(backend).device_count(), 2);
    } else {
      EXPECT_THAT(backend,
                  StatusIs(kFailedPrecondition,
                           HasSubstr(path + ": written to or removed while it "
                                            "was being loaded")));
      const std::set<std::string> files = LoadedFiles();
      EXPECT_EQ(files.count(path), 0u);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeTest, ::testing::ValuesIn(kExchanges),
                         [](const auto& test) { return test.param.name; });

TEST_F(LoadFileTest, WritableSinceDiscoveryIsRefused) {
  InChild([&] {
    const std::string path = folder_.Add("good");
    setenv("DEVRT_PLUGINS", path.c_str(), 1);
    EXPECT_EQ(BackendNames().size(), 1u);
    fs::permissions(path, fs::perms(0666));
    EXPECT_THAT(GetBackend("good"),
                StatusIs(kDenied, HasSubstr("(mode 0666)")));
  });
}

TEST_F(LoadFileTest, APluginOfTheSameNameMayBeUpgraded) {
  InChild([&] {
    const std::string path = folder_.Add("good");
    setenv("DEVRT_PLUGINS", path.c_str(), 1);
    EXPECT_EQ(BackendNames().size(), 1u);
    fs::copy_file(PluginPath("good"), path + ".new");
    fs::rename(path + ".new", path);
    EXPECT_OK(GetBackend("good"));
  });
}

// ---- Libraries that a plugin brings along ---------------------------------

TEST_F(LoadFileTest, BundledLibrariesAreFoundByTheRunPath) {
  InChild([&] {
    const std::string library = AddLibrary();
    const Backend backend = Must(LoadBackend(folder_.Add("bundled")));
    EXPECT_EQ(backend.device_count(), 2);
    EXPECT_EQ(LoadedFiles().count(library), 1u);
  });
}

TEST_F(LoadFileTest, OriginIsWhereTheLinkIsAndWhereTheFileIs) {
  for (const char* beside : {"/links", ""}) {
    InChild([&] {
      TemporaryFolder links;
      const std::string plugin = folder_.Add("bundled");
      const std::string link = links.path() + "/libdevrt_bundled.so";
      fs::create_symlink(plugin, link);
      const std::string library =
          (*beside == '\0' ? folder_.path() : links.path()) + "/libacme.so.1";
      fs::copy_file(PluginDirectory() + "/libacme.so.1", library);
      EXPECT_OK(LoadBackend(link));
      EXPECT_EQ(LoadedFiles().count(library), 1u);
      fs::remove(plugin);
      fs::remove(library);
    });
  }
}

TEST_F(LoadFileTest, MissingBundledLibraries) {
  InChild([&] {
    // Another name: the test's environment may lead to the right one.
    const std::string plugin = folder_.Add("bundled");
    std::string bytes = Read(plugin);
    const size_t at = bytes.find("libacme.so.1");
    bytes[at + 6] = 'Q';
    std::ofstream(plugin, std::ios::binary) << bytes;
    EXPECT_THAT(LoadBackend(plugin),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("libacmQ.so.1: cannot open shared object "
                                   "file")));
  });
}

struct BadLibrary {
  const char* name;
  Meanwhile spoil;
  absl::StatusCode code;
  const char* text;
};

constexpr BadLibrary kBadLibraries[] = {
    {"writable",
     [](const std::string& path) { fs::permissions(path, fs::perms(0666)); },
     kDenied, "libacme.so.1 (mode 0666) can be written by everybody"},
    {"pipe",
     [](const std::string& path) {
       fs::remove(path);
       ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
     },
     kInvalid, "libacme.so.1: not a regular file"},
    {"empty", [](const std::string& path) { fs::resize_file(path, 0); },
     kInvalid, "libacme.so.1: empty"},
    {"circle",
     [](const std::string& path) {
       fs::remove(path);
       fs::create_symlink(path, path);
     },
     kInvalid, "more than 40 symbolic links"},
    {"other_name",
     [](const std::string& path) {
       fs::copy_file(PluginPath("good"), path,
                     fs::copy_options::overwrite_existing);
     },
     kInvalid, "expected the name by which it is needed"},
};

class BadLibraryTest : public ::testing::TestWithParam<BadLibrary> {};

TEST_P(BadLibraryTest, IsRefusedAndNothingRan) {
  InChild([] {
    TemporaryFolder folder;
    const std::string mark = folder.path() + "/ran";
    setenv("DEVRT_TEST_RAN", mark.c_str(), 1);
    const std::string plugin = folder.Add("bundled");
    const std::string library = folder.path() + "/libacme.so.1";
    fs::copy_file(PluginDirectory() + "/libacme.so.1", library);
    GetParam().spoil(library);
    EXPECT_THAT(LoadBackend(plugin),
                StatusIs(GetParam().code,
                         AllOf(HasSubstr(plugin + ": needs " + library),
                               HasSubstr(GetParam().text))));
    EXPECT_FALSE(fs::exists(mark));
  });
}

INSTANTIATE_TEST_SUITE_P(All, BadLibraryTest,
                         ::testing::ValuesIn(kBadLibraries),
                         [](const auto& test) { return test.param.name; });

TEST_F(LoadFileTest, LibrariesFromTheCurrentDirectoryAreRefused) {
  InChild([&] {
    const std::string mark = folder_.path() + "/ran";
    setenv("DEVRT_TEST_RAN", mark.c_str(), 1);
    AddLibrary("/lib");
    fs::current_path(folder_.path());
    EXPECT_THAT(
        LoadBackend(folder_.Add("relative_run_path")),
        StatusIs(kInvalid, AllOf(HasSubstr("its run path"),
                                 HasSubstr("has \"lib\"; expected absolute"))));
    EXPECT_FALSE(fs::exists(mark));
  });
}

}  // namespace
}  // namespace devrt
