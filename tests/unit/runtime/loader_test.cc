// SPDX-License-Identifier: Apache-2.0
//
// Loading plugins: legal ones work, defective ones are refused with one clear
// message, and none does any harm.

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/event.h"
#include "devrt/streams/stream.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/unit/runtime/plugin_files.h"

namespace devrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::InChild;
using testing::kInvalid;
using testing::Must;
using ::testing::Not;
using testing::PluginPath;
using testing::ProcessResult;
using testing::RunInChild;
using ::testing::StartsWith;
using testing::StatusIs;
using testing::TemporaryFolder;

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

// ---- Legal ----------------------------------------------------------------

class LegalPluginTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LegalPluginTest, LoadsAndWorks) {
  InChild([] {
    const Backend backend = Must(LoadBackend(PluginPath(GetParam())));
    EXPECT_EQ(backend, Must(GetBackend(backend.name())));
    for (Device device : backend.devices()) {
      const DeviceProperties properties = Must(device.Properties());
      EXPECT_NE(properties.name, "");
      EXPECT_GT(Must(device.GetMemoryInfo()).total_bytes, 0u);
      void* block = Must(Allocate(device, 4096));
      EXPECT_OK(Free(device, block));
      EXPECT_OK(SetCurrentDevice(device));
      EXPECT_EQ(Must(CurrentDevice(backend)), device);
      EXPECT_OK(device.Synchronize());
    }
    EXPECT_OK(Shutdown());
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, LegalPluginTest,
    ::testing::Values("good", "good_helper", "good_sysv_hash", "newer_minor",
                      "older_minor", "null_self", "tiny", "toolchain_symbols",
                      "zero_devices", "no_sections", "bundled", "cut_c",
                      "cut_helper", "appended_c", "appended_helper"),
    [](const auto& test) { return std::string(test.param); });

TEST(LoaderTest, CapabilitiesOfNewerMinorsAreLeftOut) {
  InChild([] {
    const Backend backend = Must(LoadBackend(PluginPath("newer_minor")));
    EXPECT_EQ(backend.capabilities() >> 11, 0u);
  });
}

TEST(LoaderTest, NewerPluginsSeeTheOlderHost) {
  InChild([] {
    const Backend backend = Must(LoadBackend(PluginPath("appended_helper")));
    EXPECT_EQ(backend.capabilities(), DEVRT_CAP_EVENT_TIMING);
    const DeviceProperties properties = Must(backend.devices()[0].Properties());
    EXPECT_EQ(properties.name, "made for a newer host, on an older one");
  });
}

TEST(LoaderTest, OlderPluginsLackLaterSlotsOnly) {
  InChild([] {
    const Backend backend = Must(LoadBackend(PluginPath("cut_helper")));
    const Stream stream = Must(Stream::Create(backend.devices()[0]));
    const Event event = Must(Event::Create(backend.devices()[0]));
    EXPECT_OK(event.Record(stream));
    EXPECT_THAT(event.Native(), StatusIs(absl::StatusCode::kUnimplemented,
                                         HasSubstr("event_native")));
  });
}

TEST(LoaderTest, MissingSlotsAreNamed) {
  InChild([] {
    const Backend backend = Must(LoadBackend(PluginPath("good")));
    const Device device = backend.devices()[0];
    EXPECT_FALSE(backend.Has(DEVRT_CAP_PINNED_HOST));
    EXPECT_THAT(AllocateHost(device, 64),
                StatusIs(absl::StatusCode::kUnimplemented,
                         HasSubstr("backend \"good\" does not implement "
                                   "host_alloc")));
    EXPECT_THAT(backend.GetExtension("acme.none/1", 8),
                StatusIs(absl::StatusCode::kUnimplemented,
                         "backend \"good\" has no extension \"acme.none/1\""));
    EXPECT_THAT(backend.GetExtension(nullptr, 8),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("GetExtension of backend \"good\"")));
  });
}

TEST(LoaderTest, TheSameFileIsTheSameBackend) {
  InChild([] {
    TemporaryFolder folder;
    const std::string link = folder.path() + "/link.so";
    std::filesystem::create_symlink(PluginPath("good"), link);
    const Backend backend = Must(LoadBackend(PluginPath("good")));
    EXPECT_EQ(Must(LoadBackend(PluginPath("good"))), backend);
    EXPECT_EQ(Must(LoadBackend(link)), backend);
    const std::string copy = folder.Add("good", "copy");
    EXPECT_THAT(LoadBackend(copy),
                StatusIs(absl::StatusCode::kAlreadyExists,
                         AllOf(HasSubstr(copy), HasSubstr(backend.path()))));
  });
}

TEST(LoaderTest, FoldersWithSpacesAndQuotes) {
  InChild([] {
    TemporaryFolder folder("it's a \"folder\" \xc3\xa4");
    EXPECT_OK(LoadBackend(folder.Add("good")));
  });
}

TEST(LoaderTest, ManyThreadsOpenOnce) {
  InChild([] {
    setenv("DEVRT_PLUGINS",
           (PluginPath("good") + ":" + PluginPath("good_helper")).c_str(), 1);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([i] {
        const char* names[] = {"good", "good_helper"};
        for (int k = 0; k < 2; ++k) {
          EXPECT_OK(GetDevice(names[(i + k) % 2]));
          EXPECT_EQ(BackendNames().size(), 2u);
          LoadReport();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(AllDevices().size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      for (size_t k = 0; k < 4; ++k) {
        EXPECT_EQ(AllDevices()[i] < AllDevices()[k],
                  AllDevices()[i] != AllDevices()[k] &&
                      !(AllDevices()[k] < AllDevices()[i]));
      }
    }
  });
}

// ---- Contained ------------------------------------------------------------

std::string& LoggedLine() {
  static std::string& line = *new std::string;
  return line;
}

TEST(LoaderTest, ForbiddenActsOfOpenAreNamed) {
#if DEVRT_TEST_TSAN
  GTEST_SKIP() << "ThreadSanitizer has a thread of its own: nobody is alone";
#endif
  const struct {
    const char* plugin;
    const char* text;
  } kCases[] = {
      {"opens_thread", "started a thread (contract P2)"},
      {"opens_setenv", "changed the environment (contract P4)"},
      {"opens_stdout", "wrote to standard output (contract P4)"},
      {"good", ""},
      {"open_fails", ""},
  };
  for (const auto& c : kCases) {
    InChild([&] {
      SetLogSink([](LogLevel, const char*, int, std::string_view text) {
        LoggedLine() += std::string(text);
      });
      // Used all the same.
      EXPECT_EQ(LoadBackend(PluginPath(c.plugin)).ok(),
                std::string(c.plugin) != "open_fails");
      const std::string name = c.plugin;
      EXPECT_EQ(
          LoggedLine(),
          *c.text == 0 ? "" : "the open of backend \"" + name + "\" " + c.text);
    });
  }
}

TEST(LoaderTest, APluginThatEndsTheProcessIsNamed) {
  const auto open = [](const char* plugin) {
    return RunInChild([plugin] {
      setenv("DEVRT_LOG", "debug", 1);
      LoadBackend(PluginPath(plugin)).IgnoreError();
      std::exit(4);
    });
  };
  const std::string ending = "the process is ending while plugin ";
  const ProcessResult exits = open("opens_exit");
  EXPECT_EQ(exits.exit_code, 3);
  EXPECT_THAT(exits.output, HasSubstr(ending + PluginPath("opens_exit") +
                                      " is being opened (contract P4)"));
  const ProcessResult aborts = open("opens_abort");
  EXPECT_EQ(aborts.signal, SIGABRT);
  EXPECT_THAT(aborts.output,
              HasSubstr("opening plugin " + PluginPath("opens_abort")));
  const ProcessResult good = open("good");
  EXPECT_EQ(good.exit_code, 4);
  EXPECT_THAT(good.output, HasSubstr("opening plugin " + PluginPath("good")));
  EXPECT_THAT(good.output, Not(HasSubstr(ending)));
}

TEST(LoaderTest, UnalignedBlocksAreNotGivenOut) {
  InChild([] {
    const Backend backend = Must(LoadBackend(PluginPath("unaligned")));
    EXPECT_THAT(
        Allocate(backend.devices()[0], 64, 256),
        StatusIs(absl::StatusCode::kInternal, HasSubstr("(contract P10)")));
  });
}

// ---- Refused --------------------------------------------------------------

struct BadPlugin {
  const char* name;
  absl::StatusCode code;
  const char* text;
  bool marks;  // its code runs, and leaves the mark of defect.h
};

constexpr BadPlugin kBadPlugins[] = {
    {"empty", kInvalid, ": empty", false},
    {"truncated", kInvalid, ": truncated", false},
    {"not_elf", kInvalid, ": not an ELF file", false},
    {"wrong_machine", kInvalid, "built for AArch64", false},
    {"no_manifest", kInvalid, "not a devrt plugin", false},
    {"no_open", kInvalid, "does not export the function", false},
    {"bad_name", kInvalid, "backend name", false},
    {"foreign_major", absl::StatusCode::kFailedPrecondition,
     "a plugin for devrt ABI major 9; this devrt knows major 0", false},
    {"reserved_symbol", kInvalid, "exports \"__acme_debug\"", false},
    {"third_symbol", kInvalid, "exports \"acme_debug\"", false},
    {"relative_run_path", kInvalid, "its run path", false},
    {"cut_table", kInvalid, "its table lacks what every backend must have",
     true},
    {"lying_capability", kInvalid,
     "it sets capability bits whose slots are empty: host_func (HOST_FUNC)",
     true},
    {"undeclared_capability", kInvalid,
     "it claims capabilities that its manifest does not announce: "
     "STREAM_PRIORITY",
     true},
    {"missing_required", kInvalid,
     "its table lacks what every backend must have: alloc", true},
    {"no_table", kInvalid, "its open gave no table", true},
    {"open_fails", kUnavailable,
     "open failed: the driver libacme.so.1 is not installed", true},
    {"open_throws", absl::StatusCode::kInternal, "open threw ", false},
    {"needs_newer_host", absl::StatusCode::kFailedPrecondition,
     "open failed: needs a devrt with ABI 0.99 or later", true},
    {"no_device", kUnavailable,
     "device count failed: no accelerator is plugged in", true},
    {"undefined_symbol", kInvalid, "acme_driver_initialise", false},
    {"missing_library", kUnavailable, "cannot open shared object file", false},
};

class BadPluginTest : public ::testing::TestWithParam<BadPlugin> {};

TEST_P(BadPluginTest, IsRefusedWithOneClearMessage) {
  InChild([] {
    TemporaryFolder folder;
    const std::string mark = folder.path() + "/ran";
    setenv("DEVRT_TEST_RAN", mark.c_str(), 1);
    const std::string path = PluginPath(GetParam().name);
    const absl::Status status = LoadBackend(path).status();
    EXPECT_THAT(status,
                StatusIs(GetParam().code,
                         AllOf(HasSubstr(path), HasSubstr(GetParam().text))));
    EXPECT_EQ(std::filesystem::exists(mark), GetParam().marks);
    // The answer stays, and other backends are none the worse for
    // it.
    EXPECT_EQ(LoadBackend(path).status().code(), status.code());
    EXPECT_OK(LoadBackend(PluginPath("good")));
    EXPECT_THAT(LoadReportText(), HasSubstr(GetParam().text));
  });
}

INSTANTIATE_TEST_SUITE_P(All, BadPluginTest, ::testing::ValuesIn(kBadPlugins),
                         [](const auto& test) { return test.param.name; });

// Whatever lies in the folder: loaded, or refused with its name.
TEST(LoaderTest, EveryFileIsLoadedOrRefused) {
  InChild([] {
    int files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(testing::PluginDirectory())) {
      const std::string path = entry.path().string();
      if (entry.path().extension() != ".so") continue;
      // These end the process: trusted code may.
      if (path == PluginPath("opens_abort") || path == PluginPath("opens_exit"))
        continue;
      ++files;
      const absl::Status status = LoadBackend(path).status();
      EXPECT_TRUE(status.ok() || absl::StrContains(status.message(), path))
          << path << ": " << status;
    }
    EXPECT_GT(files, 60);
  });
}

TEST(LoaderTest, FailuresByNameTellThePath) {
  InChild([] {
    setenv("DEVRT_PLUGINS", PluginPath("no_device").c_str(), 1);
    const absl::Status status = GetBackend("no_device").status();
    EXPECT_THAT(
        status,
        StatusIs(kUnavailable, "backend \"no_device\" cannot be loaded from " +
                                   PluginPath("no_device") +
                                   " (DEVRT_PLUGINS): device count failed: no "
                                   "accelerator is plugged in"));
    EXPECT_EQ(GetErrorInfo(status)->backend, "no_device");
    EXPECT_EQ(GetDevice("no_device:0").status(), status);
    EXPECT_EQ(GetDevice("no_device").status(), status);
    EXPECT_TRUE(AllDevices().empty());
  });
}

TEST(LoaderTest, FailuresByNameTellEveryPath) {
  InChild([] {
    TemporaryFolder folder, writable;
    const std::string first = folder.Add("open_fails");
    const std::string second = writable.Add("open_fails", "later");
    const std::string third = writable.Add("good", "open_fails");
    const std::string other = writable.Add("good", "other");
    std::filesystem::permissions(third, std::filesystem::perms(0666));
    setenv("DEVRT_PLUGIN_PATH", (folder.path() + ":" + writable.path()).c_str(),
           1);
    EXPECT_THAT(
        GetBackend("open_fails"),
        StatusIs(kUnavailable,
                 AllOf(HasSubstr("cannot be loaded from " + first),
                       HasSubstr("; other files: " + second + ": backend"),
                       HasSubstr("; " + third + ": "),
                       HasSubstr("(mode 0666) can be written by everybody"),
                       Not(HasSubstr(other)))));
  });
}

TEST(LoaderTest, AnotherFileMayReplaceAFailedPlugin) {
  InChild([] {
    setenv("DEVRT_TEST_RAN", "", 1);
    TemporaryFolder folder;
    const std::string copy = folder.Add("open_fails", "copy");
    EXPECT_EQ(LoadBackend(PluginPath("open_fails")).status().code(),
              kUnavailable);
    EXPECT_THAT(LoadBackend(copy), StatusIs(kUnavailable, HasSubstr(copy)));
  });
}

TEST(LoaderTest, BadPaths) {
  InChild([] {
    for (const std::string& path :
         {std::string(), std::string("libdevrt_good.so"),
          std::string("./libdevrt_good.so"), std::string("~/x.so"),
          std::string(1 << 20, 'x')}) {
      EXPECT_THAT(
          LoadBackend(path),
          StatusIs(kInvalid, AllOf(StartsWith("LoadBackend: \""),
                                   HasSubstr("is not an absolute path"))));
    }
    EXPECT_THAT(LoadBackend(PluginPath("good") + std::string(1, '\0')),
                StatusIs(kInvalid, HasSubstr("contains a NUL")));
    EXPECT_THAT(LoadBackend("/nowhere/libdevrt_x.so"),
                StatusIs(absl::StatusCode::kNotFound,
                         "/nowhere/libdevrt_x.so: no such file"));
    EXPECT_THAT(LoadBackend(testing::PluginDirectory()),
                StatusIs(kInvalid, HasSubstr("a directory, not a file")));
    EXPECT_EQ(LoadBackend("/" + std::string(1 << 20, 'x')).status().code(),
              kInvalid);
  });
}

TEST(LoaderTest, FilesThatChangeAreRefused) {
  InChild([] {
    TemporaryFolder folder;
    const std::string path = folder.Add("good");
    setenv("DEVRT_PLUGINS", path.c_str(), 1);
    BackendNames();  // the manifest is read
    std::filesystem::remove(path);
    folder.Add("good_helper", "good");
    EXPECT_THAT(GetBackend("good"),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("its manifest is not the one that was "
                                   "found there before")));
  });
}

TEST(LoaderTest, FilesThatVanishAreRefused) {
  InChild([] {
    TemporaryFolder folder;
    const std::string path = folder.Add("good");
    setenv("DEVRT_PLUGINS", path.c_str(), 1);
    BackendNames();
    std::filesystem::remove(path);
    EXPECT_THAT(GetBackend("good"),
                StatusIs(absl::StatusCode::kNotFound,
                         HasSubstr(path + ": no such file")));
  });
}

}  // namespace
}  // namespace devrt
