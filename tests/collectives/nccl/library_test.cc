// SPDX-License-Identifier: Apache-2.0
//
// How NCCL is found and refused.  Each case has a process of its own, because a
// library is loaded once.  The libraries are those of tests/fakes/nccl.
#include "collectives/nccl/library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "collectives/nccl/blocking_comm.h"
#include "devrt/runtime/log.h"
#include "tests/fakes/common/alone.h"
#include "tests/support/status_matchers.h"

namespace devrt::collectives::nccl {
namespace {

using devrt::test::Alone;
using testing::Must;

std::string PathOf(const char* variable) {
  const char* const path = std::getenv(variable);
  EXPECT_NE(path, nullptr) << variable;
  return path;
}
std::string Whole() { return PathOf("DEVRT_TEST_NCCL"); }
std::string Required() { return PathOf("DEVRT_TEST_NCCL_REQUIRED"); }
std::string Incomplete() { return PathOf("DEVRT_TEST_NCCL_INCOMPLETE"); }
std::string Rccl() { return PathOf("DEVRT_TEST_RCCL"); }

void Name(const std::string& path) {
  setenv("DEVRT_NCCL_LIBRARY", path.c_str(), 1);
}

absl::Status Refusal() {
  const absl::StatusOr<const Library*> library = OpenLibrary(kNccl);
  EXPECT_FALSE(library.ok());
  return library.ok() ? absl::OkStatus() : library.status();
}

TEST(NcclLibrary, IsNotFoundWithoutAnything) {
  Alone([] {
    Flavor nowhere = kNccl;
    nowhere.soname = "libnccl_nowhere.so.2";
    const absl::Status status = OpenLibrary(nowhere).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(),
              "libnccl_nowhere.so.2 was not found (looked: libraries of the "
              "process, DEVRT_NCCL_LIBRARY, the dynamic "
              "linker's search): pip install nvidia-nccl-cu13, or "
              "DEVRT_NCCL_LIBRARY");
  });
}

TEST(NcclLibrary, IsFoundByTheVariable) {
  Alone([] {
    Name(Whole());
    const Library* const library = Must(OpenLibrary(kNccl));
    EXPECT_EQ(library->version, 23203);
    EXPECT_EQ(library->version_text, "2.32.3");
    EXPECT_EQ(library->path, Whole());
    EXPECT_NE(library->functions.all_to_all, nullptr);
    EXPECT_NE(library->functions.comm_revoke, nullptr);
    EXPECT_EQ(Must(OpenLibrary(kNccl)), library);
    EXPECT_STATUS(SetLibraryPath(kNccl, Required()), kFailedPrecondition,
                  "NCCL is loaded already, from " + Whole());
  });
}

// PyTorch's copy comes before every other one.
TEST(NcclLibrary, OfTheProcessComesFirst) {
  Alone([] {
    ASSERT_NE(dlopen(Whole().c_str(), RTLD_NOW | RTLD_LOCAL), nullptr);
    Name("/nowhere/libnccl.so.2");
    EXPECT_EQ(Must(OpenLibrary(kNccl))->path, Whole());
  });
}

TEST(NcclLibrary, TheVariableComesBeforeTheProgramsPath) {
  Alone([] {
    Name(Required());
    ASSERT_OK(SetLibraryPath(kNccl, Whole()));
    EXPECT_EQ(Must(OpenLibrary(kNccl))->path, Required());
  });
  Alone([] {
    ASSERT_OK(SetLibraryPath(kNccl, Whole()));
    EXPECT_EQ(Must(OpenLibrary(kNccl))->path, Whole());
  });
}

// A refusal is no state: another path may work.
TEST(NcclLibrary, CanBeFoundAfterAFailure) {
  Alone([] {
    ASSERT_OK(SetLibraryPath(kNccl, "/nowhere/libnccl.so.2"));
    EXPECT_STATUS(OpenLibrary(kNccl).status(), kNotFound,
                  "the program's path of NCCL: /nowhere");
    ASSERT_OK(SetLibraryPath(kNccl, Whole()));
    EXPECT_OK(OpenLibrary(kNccl).status());
  });
}

// A word that is neither on nor off changes nothing, and is told once.
TEST(NcclLibrary, SaysThatItDoesNotKnowAWordForBlocking) {
  Alone([] {
    static std::string logged;
    SetLogSink([](LogLevel, const char*, int, std::string_view text) {
      logged.append(text).append("\n");
    });
    Name(Whole());
    const Library& library = *Must(OpenLibrary(kNccl));
    setenv("DEVRT_NCCL_BLOCKING", "on", 1);
    EXPECT_TRUE(BlockingComm::IsPossible(library));
    EXPECT_EQ(logged, "");
    setenv("DEVRT_NCCL_BLOCKING", "foo", 1);
    EXPECT_TRUE(BlockingComm::IsPossible(library));
    EXPECT_TRUE(BlockingComm::IsPossible(library));
    EXPECT_EQ(logged,
              "DEVRT_NCCL_BLOCKING is \"foo\", expected on or off: it stays "
              "on\n");
    setenv("DEVRT_NCCL_BLOCKING", "off", 1);
    EXPECT_FALSE(BlockingComm::IsPossible(library));
    SetLogSink(nullptr);
  });
}

TEST(NcclLibrary, OfRocmIsFoundByItsOwnVariable) {
  Alone([] {
    setenv("DEVRT_RCCL_LIBRARY", Rccl().c_str(), 1);
    const Library* const library = Must(OpenLibrary(kRccl));
    EXPECT_EQ(library->path, Rccl());
    EXPECT_NE(library->functions.all_to_all, nullptr);
  });
}

TEST(NcclLibrary, WithoutOptionalFunctionsIsUsed) {
  Alone([] {
    Name(Required());
    const Functions& f = Must(OpenLibrary(kNccl))->functions;
    EXPECT_EQ(f.comm_split, nullptr);
    EXPECT_EQ(f.comm_shrink, nullptr);
    EXPECT_EQ(f.comm_revoke, nullptr);
    EXPECT_EQ(f.comm_register, nullptr);
    EXPECT_EQ(f.all_to_all, nullptr);
    EXPECT_EQ(f.gather, nullptr);
    EXPECT_NE(f.send, nullptr);
  });
}

struct Wrong {
  const char* version;
  std::string expected;
};

TEST(NcclLibrary, OfAnotherVersionIsRefused) {
  for (const Wrong& wrong :
       {Wrong{"21605",
              "NCCL 2.16.5 from " + Whole() + " is too old: 2.19 is needed"},
        Wrong{"2708",
              "NCCL 2.7.8 from " + Whole() + " is too old: 2.19 is needed"},
        Wrong{"21899",
              "NCCL 2.18.99 from " + Whole() + " is too old: 2.19 is needed"},
        Wrong{"30001", "NCCL 3.0.1 from " + Whole() +
                           " is too new: this version of devrt knows 2.19 and "
                           "later 2.x"}}) {
    Alone([&wrong] {
      Name(Whole());
      setenv("DEVRT_FAKE_NCCL_VERSION", wrong.version, 1);
      const absl::Status status = Refusal();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(status.message(), wrong.expected);
    });
  }
  Alone([] {
    Name(Whole());
    setenv("DEVRT_FAKE_NCCL_VERSION", "21900", 1);
    EXPECT_EQ(Must(OpenLibrary(kNccl))->version_text, "2.19.0");
  });
}

TEST(NcclLibrary, WithoutARequiredFunctionIsRefused) {
  Alone([] {
    Name(Incomplete());
    EXPECT_STATUS(Refusal(), kUnavailable,
                  "NCCL 2.32.3 from " + Incomplete() +
                      " is incomplete: it has no ncclGroupStart");
  });
}

TEST(NcclLibrary, ThatIsSomethingElseIsRefused) {
  Alone([] {
    const std::string other = PathOf("DEVRT_TEST_OTHER_LIBRARY");
    Name(other);
    EXPECT_STATUS(Refusal(), kInvalidArgument,
                  other + " is not NCCL: it has no ncclGetVersion");
  });
}

class NcclFile : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/devrt_nccl_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    unlink(path().c_str());
    rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/libnccl.so.2"; }

 private:
  std::string folder_;
};

TEST_F(NcclFile, ThatIsBrokenIsRefused) {
  std::ofstream(path()) << "no library";
  Alone([this] {
    Name(path());
    EXPECT_STATUS(Refusal(), kInvalidArgument,
                  "DEVRT_NCCL_LIBRARY: " + path() + ": ");
  });
}

// The rules of plugins hold, for the program's path too.
TEST_F(NcclFile, ThatOthersMayWriteIsRefused) {
  std::ofstream(path(), std::ios::binary)
      << std::ifstream(Whole(), std::ios::binary).rdbuf();
  ASSERT_EQ(chmod(path().c_str(), 0666), 0);
  Alone([this] {
    Name(path());
    EXPECT_STATUS(Refusal(), kPermissionDenied, path());
  });
  Alone([this] {
    ASSERT_OK(SetLibraryPath(kNccl, path()));
    EXPECT_STATUS(Refusal(), kPermissionDenied, path());
  });
}

TEST(NcclLibrary, HasAnAbsolutePath) {
  Alone([] {
    Name("libnccl.so.2");
    EXPECT_STATUS(Refusal(), kInvalidArgument, "DEVRT_NCCL_LIBRARY: ");
  });
}

// Through LD_LIBRARY_PATH, which the test has.
TEST(NcclLibrary, IsFoundByTheDynamicLinker) {
  Alone([] { EXPECT_EQ(Must(OpenLibrary(kNccl))->path, Whole()); });
}

}  // namespace
}  // namespace devrt::collectives::nccl
