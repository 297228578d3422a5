// SPDX-License-Identifier: Apache-2.0
//
// Directories in the run path of a plugin: others must not be able to put a
// library there, whether or not one is needed from there now.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "devrt/runtime/backend.h"
#include "runtime/loader/library.h"
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
using testing::PluginDirectory;
using testing::Read;
using testing::StatusIs;
using testing::TemporaryFolder;

// Overwrites `from` wherever it stands in a file; what is too much room is
// filled with the last letter.
void PutText(const std::string& path, const std::string& from,
             const std::string& to) {
  std::string bytes = Read(path);
  ASSERT_LE(to.size(), from.size());
  const std::string padded =
      to + std::string(from.size() - to.size(), to.back());
  size_t count = 0;
  for (size_t at = bytes.find(from); at != std::string::npos;
       at = bytes.find(from, at + 1)) {
    bytes.replace(at, from.size(), padded);
    ++count;
  }
  ASSERT_GT(count, 0u) << from;
  std::ofstream(path, std::ios::binary) << bytes;
}

// A place that the run path leads to, in a folder of the test.
struct Place {
  const char* name;
  void (*make)(const std::string& folder);
  const char* entry;  // of the run path, below that folder
  const char* text;   // nullptr: it is trusted
};

void MakeDirectory(const std::string& path, mode_t mode) {
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(chmod(path.c_str(), mode), 0);
}

constexpr Place kPlaces[] = {
    {"own", [](const std::string& f) { MakeDirectory(f + "/lib", 0755); },
     "lib/", nullptr},
    {"missing", [](const std::string&) {}, "lib/", nullptr},
    {"everybodys",
     [](const std::string& f) { MakeDirectory(f + "/lib", 0777); }, "lib/",
     "/lib (mode 0777) can be written by everybody"},
    {"sticky", [](const std::string& f) { MakeDirectory(f + "/lib", 01777); },
     "lib/", "/lib (mode 1777) can be written by everybody"},
    {"below_everybodys",
     [](const std::string& f) {
       MakeDirectory(f + "/open", 0777);
       MakeDirectory(f + "/open/lib", 0755);
     },
     "open/lib/", "/open (mode 0777) can be written by everybody"},
    {"missing_below_everybodys",
     [](const std::string& f) { MakeDirectory(f + "/open", 0777); },
     "open/a/b/", "/open (mode 0777) can be written by everybody"},
    {"missing_below_sticky",
     [](const std::string& f) { MakeDirectory(f + "/open", 01777); },
     "open/a/b/", "/open (mode 1777) can be written by everybody"},
    {"link_to_everybodys",
     [](const std::string& f) {
       MakeDirectory(f + "/open", 0777);
       fs::create_symlink("open", f + "/link");
     },
     "link/", "/open (mode 0777) can be written by everybody"},
};

// A plugin in `folder` with `entry` in its run path.
std::string AddWith(const TemporaryFolder& folder, const std::string& entry) {
  const std::string plugin = folder.Add("absolute_run_path");
  const std::string bytes = Read(plugin);
  const size_t at = bytes.find("/devrt-test-run-path/");
  const size_t end = bytes.find_first_of(std::string(":\0", 2), at);
  PutText(plugin, bytes.substr(at, end - at), entry);
  return plugin;
}

// One whose run path leads below `folder`.
std::string Add(const TemporaryFolder& folder, const std::string& entry) {
  return AddWith(folder, folder.path() + "/" + entry);
}

class RunPathTest : public ::testing::TestWithParam<Place> {};

TEST_P(RunPathTest, FolderIsCheckedEvenWithoutALibrary) {
  InChild([] {
    TemporaryFolder folder;
    const Place& place = GetParam();
    place.make(folder.path());
    const std::string mark = folder.path() + "/ran";
    setenv("DEVRT_TEST_RAN", mark.c_str(), 1);
    fs::copy_file(PluginDirectory() + "/libacme.so.1",
                  folder.path() + "/libacme.so.1");
    const std::string plugin = Add(folder, place.entry);
    const absl::StatusOr<Backend> backend = LoadBackend(plugin);
    EXPECT_EQ(fs::exists(mark), place.text == nullptr);
    if (place.text == nullptr) {
      EXPECT_OK(backend);
    } else {
      EXPECT_THAT(backend,
                  StatusIs(kDenied,
                           AllOf(HasSubstr(plugin + ": its run path leads to " +
                                           folder.path()),
                                 HasSubstr(folder.path() + place.text))));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, RunPathTest, ::testing::ValuesIn(kPlaces),
                         [](const auto& test) { return test.param.name; });

// The dynamic linker takes only whole names for $ORIGIN: it would look for
// "$ORIGINAL/lib" below the current directory.
TEST(OriginTest, OtherNamesAreNotOrigin) {
  for (const char* const entry :
       {"$ORIGINAL/", "$ORIGIN_/", "$ORIGIN64/", "${ORIGINAL}/", "${ORIGIN/",
        "$ORIGIN/$LIB/"}) {
    InChild([entry] {
      TemporaryFolder folder;
      EXPECT_THAT(LoadBackend(AddWith(folder, entry)),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr("expected absolute directories and "
                                     "$ORIGIN")));
    });
  }
}

TEST(OriginTest, StandsForTheFolderOfThePlugin) {
  for (const char* const entry : {"$ORIGIN/", "${ORIGIN}/"}) {
    InChild([entry] {
      TemporaryFolder folder;
      fs::copy_file(PluginDirectory() + "/libacme.so.1",
                    folder.path() + "/libacme.so.1");
      EXPECT_OK(LoadBackend(AddWith(folder, entry)));
    });
  }
}

// A needed library that no run path leads to is the system's, if the system has
// it.
TEST(NeededTest, IsLoadedFromTheSystem) {
  InChild([] {
    TemporaryFolder folder;
    const std::string plugin = Add(folder, "lib/");
    // Part of glibc, which little links with.
    const char* const name = "libutil.so.1";
    PutText(plugin, "libacme.so.1", name);
    if (dlopen(name, RTLD_LAZY | RTLD_NOLOAD) != nullptr) return;
    // The plugin calls a function of libacme.
    EXPECT_THAT(LoadBackend(plugin),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("undefined symbol")));
    EXPECT_NE(dlopen(name, RTLD_LAZY | RTLD_NOLOAD), nullptr);
  });
}

TEST(NeededTest, APathThatLeadsNowhereIsNamed) {
  InChild([] {
    TemporaryFolder folder;
    const std::string plugin = Add(folder, "lib/");
    PutText(plugin, "libacme.so.1", "/no/where.so");
    EXPECT_THAT(LoadBackend(plugin),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("/no/where.so: cannot open shared object "
                                   "file; " +
                                   plugin + " needs it")));
  });
}

// A library that appears in a run path between inspection and loading does not
// run, not even in a place that only trusted users can write.
TEST(RunPathRaceTest, LibraryAddedAfterInspectionDoesNotRun) {
  InChild([] {
    TemporaryFolder folder;
    const std::string mark = folder.path() + "/ran";
    setenv("DEVRT_TEST_RAN", mark.c_str(), 1);
    MakeDirectory(folder.path() + "/lib", 0755);
    const std::string plugin = Add(folder, "lib/");
    // Another name: the test's environment may lead to libacme.
    PutText(plugin, "libacme.so.1", "libacmQ.so.1");
    internal::SetBeforeLoadHook([](const std::string& path) {
      const std::string library =
          fs::path(path).parent_path().string() + "/lib/libacmQ.so.1";
      fs::copy_file(PluginDirectory() + "/libacme.so.1", library);
      PutText(library, "libacme.so.1", "libacmQ.so.1");
    });
    EXPECT_THAT(LoadBackend(plugin),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("libacmQ.so.1: cannot open shared object "
                                   "file")));
    EXPECT_FALSE(fs::exists(mark));
  });
}

}  // namespace
}  // namespace devrt
