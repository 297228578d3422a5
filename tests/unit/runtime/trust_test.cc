// SPDX-License-Identifier: Apache-2.0
//
// The owners whose files devrt trusts, and the resolution of a path to a file.

#include "runtime/loader/trust.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "runtime/common/text.h"
#include "runtime/loader/path_walk.h"
#include "runtime/loader/plugin_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/unit/runtime/plugin_files.h"

namespace devrt::internal {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::InChild;
using testing::kDenied;
using testing::kInvalid;
using ::testing::Not;
using testing::PluginPath;
using ::testing::StartsWith;
using testing::StatusIs;
using testing::TemporaryFolder;

constexpr auto kNotFound = absl::StatusCode::kNotFound;

// ---- The rules, on what stat could say ------------------------------------

constexpr uid_t kUser = 1000, kOther = 1001;
constexpr gid_t kPrivate = 1000, kShared = 100;
constexpr mode_t kFile = S_IFREG, kDirectory = S_IFDIR;

struct Entry {
  const char* what;
  uid_t owner;
  gid_t group;
  mode_t mode;
  bool has_acl;
  const char* owner_error;    // nullptr: trusted
  const char* writers_error;  // nullptr: trusted
};

constexpr Entry kEntries[] = {
    {"user_file", kUser, kPrivate, kFile | 0644, false, nullptr, nullptr},
    {"root_file", 0, 0, kFile | 0755, false, nullptr, nullptr},
    {"foreign_file", kOther, kOther, kFile | 0644, false,
     "/x belongs to uid 1001; a plugin and what leads to it must belong to "
     "root or uid 1000: chown 1000 /x",
     nullptr},
    {"foreign_link", kOther, kOther, S_IFLNK | 0777, false, "chown -h 1000 /x",
     ""},
    {"everybody", kUser, kPrivate, kFile | 0646, false, nullptr,
     "/x (mode 0646) can be written by everybody; a plugin and the directories "
     "above it may be written by root or uid 1000 only: chmod o-w /x"},
    {"everybody_and_group", kUser, kShared, kDirectory | 0777, false, nullptr,
     "chmod go-w /x"},
    {"private_group", kUser, kPrivate, kFile | 0664, false, nullptr, nullptr},
    {"root_group", 0, 0, kDirectory | 0775, false, nullptr, nullptr},
    {"shared_group", kUser, kShared, kFile | 0664, false, nullptr,
     "can be written by group 100; "},
    {"private_group_with_acl", kUser, kPrivate, kFile | 0664, true, nullptr,
     "can be written by whom its access control list names; "},
    {"sticky_of_root", 0, 0, kDirectory | 01777, false, nullptr, nullptr},
    {"sticky_of_user", kUser, kShared, kDirectory | 01770, false, nullptr,
     nullptr},
    {"sticky_of_other", kOther, kOther, kDirectory | 01777, false,
     "/x belongs to uid 1001", "(mode 1777) can be written by everybody"},
    {"sticky_file", kUser, kPrivate, kFile | 01666, false, nullptr,
     "(mode 1666) can be written by everybody"},
};

class EntryTest : public ::testing::TestWithParam<Entry> {};

TEST_P(EntryTest, IsJudged) {
  const Trust trust(kUser, [](uid_t user) -> std::optional<gid_t> {
    return user == kUser ? std::optional<gid_t>(kPrivate) : std::nullopt;
  });
  const Entry& entry = GetParam();
  struct stat info = {};
  info.st_uid = entry.owner;
  info.st_gid = entry.group;
  info.st_mode = entry.mode;
  const absl::Status owner = trust.CheckOwner("/x", info);
  if (entry.owner_error == nullptr) {
    EXPECT_OK(owner);
  } else {
    EXPECT_THAT(owner, StatusIs(kDenied, HasSubstr(entry.owner_error)));
  }
  if (S_ISLNK(entry.mode)) return;  // everybody may "write" a link
  const absl::Status writers = trust.CheckWriters("/x", info, entry.has_acl);
  if (entry.writers_error == nullptr) {
    EXPECT_OK(writers);
  } else {
    EXPECT_THAT(writers, StatusIs(kDenied, HasSubstr(entry.writers_error)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EntryTest, ::testing::ValuesIn(kEntries),
                         [](const auto& test) { return test.param.what; });

TEST(TrustTest, RootTrustsRootOnly) {
  const Trust trust(0, &PrivateGroupOf);
  struct stat info = {};
  info.st_mode = kFile | 0644;
  EXPECT_OK(trust.CheckOwner("/x", info));
  info.st_uid = kUser;
  EXPECT_THAT(trust.CheckOwner("/x", info),
              StatusIs(kDenied, HasSubstr("must belong to root: chown root")));
}

TEST(TrustTest, RemediesCanBeCopied) {
  const Trust trust(0, &PrivateGroupOf);
  struct stat info = {};
  info.st_mode = kFile | 0666;
  EXPECT_THAT(trust.CheckWriters("/it's a/x.so", info, false),
              StatusIs(kDenied, HasSubstr("chmod o-w '/it'\\''s a/x.so'")));
  EXPECT_THAT(trust.CheckWriters("/a\nb", info, false),
              StatusIs(kDenied, AllOf(StartsWith("/a\\nb (mode 0666)"),
                                      HasSubstr("chmod o-w $'/a\\nb'"))));
}

TEST(TrustTest, PrivateGroups) {
  EXPECT_EQ(PrivateGroupOf(0), std::optional<gid_t>(0));
  EXPECT_EQ(PrivateGroupOf(4000000000u), std::nullopt);  // no such user
}

// ---- Paths ----------------------------------------------------------------

class PathTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::permissions(folder_.path(), fs::perms(0755)); }

  WalkedPath Walk(const std::string& path) {
    return WalkPath(path, Trust::OfThisProcess());
  }
  std::string Make(const std::string& name, int mode = 0644) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << "text";
    fs::permissions(path, fs::perms(mode));
    return path;
  }
  std::string Link(const std::string& name, const std::string& target) {
    const std::string path = folder_.path() + "/" + name;
    fs::create_symlink(target, path);
    return path;
  }

  TemporaryFolder folder_;
};

TEST_F(PathTest, LinksAndDotsAreFollowed) {
  const std::string file = Make("file");
  fs::create_directories(folder_.path() + "/a/b");
  Link("a/b/up", "../../file");
  Link("direct", folder_.path() + "/./a//b/../b/up");
  Link("directory", "a/b");
  for (const char* name : {"file", "direct", "a/../file", "./a/b/up",
                           "directory/up", "directory/../../file"}) {
    const WalkedPath walked = Walk(folder_.path() + "/" + name);
    EXPECT_OK(walked.missing) << name;
    EXPECT_OK(walked.owner);
    EXPECT_OK(walked.writers);
    EXPECT_EQ(walked.real_path, file) << name;
    EXPECT_EQ(walked.name, "file");
  }
  EXPECT_OK(Walk("/..//../" + file).missing);
  EXPECT_EQ(Walk("/").real_path, "/");
}

TEST_F(PathTest, EndsThatAreNone) {
  const std::string file = Make("file");
  const std::string dangling = Link("dangling", "nowhere/x.so");
  EXPECT_THAT(Walk(dangling).missing,
              StatusIs(kNotFound, dangling + ": no such file (" +
                                      folder_.path() + "/nowhere)"));
  EXPECT_THAT(Walk(file + "/").missing, StatusIs(kNotFound, HasSubstr("")));
  EXPECT_THAT(Walk(file + "/x").missing, StatusIs(kNotFound, HasSubstr("")));
  Link("one", "two");
  const std::string circle = Link("two", "one");
  EXPECT_THAT(Walk(circle).missing,
              StatusIs(kInvalid, AllOf(StartsWith(circle + ": more than 40 "),
                                       HasSubstr("probably a circle"))));
  EXPECT_THAT(Walk(Link("self", "self/self")).missing,
              StatusIs(kInvalid, HasSubstr("probably a circle")));
  EXPECT_THAT(Walk("/" + std::string(5000, 'x')).missing,
              StatusIs(kInvalid, HasSubstr("a path has at most 4095 bytes")));
  std::string deep;
  while (deep.size() < 5000) deep += "/.";
  EXPECT_THAT(Walk(deep).missing, StatusIs(kInvalid, HasSubstr("(5000 bytes")));
  EXPECT_THAT(Walk("/" + std::string(300, 'x')).missing,
              StatusIs(kInvalid, HasSubstr("File name too long")));
}

TEST_F(PathTest, EveryDirectoryIsJudged) {
  fs::create_directories(folder_.path() + "/open/inner");
  fs::permissions(folder_.path() + "/open", fs::perms(0777));
  const std::string file = Make("open/inner/file");
  const auto refused =
      StatusIs(kDenied, StartsWith(folder_.path() + "/open (mode 0777)"));
  EXPECT_THAT(Walk(file).writers, refused);
  EXPECT_OK(Walk(file).missing);
  // Also those that only a link leads through.
  EXPECT_THAT(Walk(Link("link", "open/inner/file")).writers, refused);
  EXPECT_THAT(Walk(folder_.path() + "/open/../nothing").writers, refused);
  fs::permissions(folder_.path() + "/open", fs::perms(01777));
  EXPECT_OK(Walk(file).writers);
}

// The group's bits are the mask of an access control list: they speak for those
// whom the list names.
TEST_F(PathTest, AccessControlListsAreRead) {
  const std::string file = Make("file", 0664);
  ASSERT_EQ(chown(file.c_str(), static_cast<uid_t>(-1),
                  PrivateGroupOf(geteuid()).value_or(getegid())),
            0);
  EXPECT_OK(Walk(file).writers);
  // As `setfacl -m u:1001:rw` writes it: version 2, then tag, permissions, id.
  constexpr uint32_t kNobody = UINT32_MAX;
  struct Access {
    uint16_t tag, permissions;
    uint32_t id;
  };
  struct {
    uint32_t version = 2;
    Access entries[5] = {{0x01, 6, kNobody},   // the owner
                         {0x02, 6, kOther},    // a user
                         {0x04, 4, kNobody},   // the group
                         {0x10, 6, kNobody},   // the mask
                         {0x20, 4, kNobody}};  // others
  } list;
  if (setxattr(file.c_str(), "system.posix_acl_access", &list, sizeof list,
               0) != 0) {
    GTEST_SKIP() << "no access control lists in " << folder_.path() << ": "
                 << strerror(errno);
  }
  EXPECT_THAT(Walk(file).writers,
              StatusIs(kDenied, AllOf(StartsWith(file + " (mode 0664)"),
                                      HasSubstr("whom its access control list "
                                                "names"))));
  // A mask without writing takes it from all of them.
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  EXPECT_OK(Walk(file).writers);
}

TEST_F(PathTest, ForeignOwners) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const std::string file = Make("file");
  const std::string link = Link("link", "file");
  ASSERT_EQ(lchown(link.c_str(), kOther, kOther), 0);
  EXPECT_OK(Walk(file).owner);
  EXPECT_THAT(Walk(link).owner,
              StatusIs(kDenied, StartsWith(link + " belongs to uid 1001")));
  ASSERT_EQ(chown(file.c_str(), kOther, kOther), 0);
  EXPECT_THAT(Walk(file).owner,
              StatusIs(kDenied, StartsWith(file + " belongs to uid 1001")));
  InChild([&] {  // whose file it is
    ASSERT_EQ(seteuid(kOther), 0);
    EXPECT_OK(Walk(file).owner);
  });
}

TEST_F(PathTest, DirectoriesThatCannotBeSearched) {
  if (geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  fs::create_directory(folder_.path() + "/secret");
  const std::string file = Make("secret/file");
  fs::permissions(folder_.path() + "/secret", fs::perms(0700));
  InChild([&] {
    ASSERT_EQ(seteuid(kOther), 0);
    EXPECT_THAT(Walk(file).missing,
                StatusIs(kDenied, StartsWith(file + ": Permission denied")));
  });
}

// ---- Files ----------------------------------------------------------------

TEST_F(PathTest, OnlyRegularFilesAreOpened) {
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  struct Case {
    std::string path;
    const char* text;
  } cases[] = {{folder_.path(), ": a directory, not a file"},
               {pipe, ": not a regular file"},
               {"/dev/null", ": not a regular file"},
               {"/dev/tty", ": not a regular file"},
               {Link("device", "/dev/zero"), ": not a regular file"}};
  for (const auto& [path, text] : cases) {
    const PluginFile file = OpenPluginFile(path);
    EXPECT_FALSE(file.fd.is_open()) << path;
    EXPECT_THAT(file.status(), StatusIs(kInvalid, HasSubstr(path + text)));
  }
}

TEST_F(PathTest, UnreadableAndEmptyFiles) {
  EXPECT_THAT(OpenPluginFile(Make("empty", 0644)).contents.library,
              StatusIs(kInvalid, HasSubstr("not an ELF file")));
  std::ofstream(folder_.path() + "/zero");
  EXPECT_THAT(OpenPluginFile(folder_.path() + "/zero").status(),
              StatusIs(kInvalid, folder_.path() + "/zero: empty"));
  if (geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  const std::string secret = Make("secret", 0000);
  InChild([&] {
    ASSERT_EQ(seteuid(kOther), 0);
    EXPECT_THAT(OpenPluginFile(secret).status(),
                StatusIs(kDenied, secret + ": Permission denied"));
  });
}

TEST_F(PathTest, NamesWithNewlinesAreEscaped) {
  const std::string path = Make("a\nb.so", 0666);
  const PluginFile file = OpenPluginFile(path);
  EXPECT_THAT(file.status().message(),
              AllOf(HasSubstr("/a\\nb.so: "), Not(HasSubstr("\n"))));
  EXPECT_THAT(file.contents.library, StatusIs(kInvalid, HasSubstr("ELF")));
  fs::remove(path);
  EXPECT_THAT(OpenPluginFile(path).status().message(),
              AllOf(HasSubstr("/a\\nb.so: no such"), Not(HasSubstr("\n"))));
}

}  // namespace
}  // namespace devrt::internal
