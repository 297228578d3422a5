// SPDX-License-Identifier: Apache-2.0
//
// Reading manifests from files, none of which is ever run here.

#include "runtime/loader/elf_manifest.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "runtime/loader/plugin_contents.h"
#include "runtime/loader/plugin_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_seed.h"
#include "tests/unit/runtime/plugin_files.h"

namespace devrt::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kInvalid;
using testing::Must;
using testing::PluginPath;
using ::testing::StartsWith;
using testing::StatusIs;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Reads a file as discovery does.
absl::StatusOr<devrt_manifest_v0> ReadManifest(const std::string& path) {
  const PluginFile file = OpenPluginFile(path);
  if (!file.status().ok()) return file.status();
  return *file.contents.manifest;
}

absl::StatusOr<devrt_manifest_v0> ReadBytes(const std::string& bytes) {
  const PluginContents contents = ReadContents(FileBytes(bytes));
  if (!contents.status().ok()) return contents.status();
  return *contents.manifest;
}

TEST(ElfManifestTest, GoodPlugins) {
  for (const char* name : {"good", "good_sysv_hash", "good_helper",
                           "newer_minor", "older_minor", "no_sections"}) {
    const absl::StatusOr<devrt_manifest_v0> manifest =
        ReadManifest(PluginPath(name));
    ASSERT_OK(manifest);
    EXPECT_EQ(manifest->abi_major, DEVRT_ABI_MAJOR);
    EXPECT_STRNE(manifest->vendor, "");
  }
  EXPECT_STREQ(Must(ReadManifest(PluginPath("good"))).backend, "good");
}

struct BadFile {
  const char* name;
  absl::StatusCode code;
  const char* text;
};

constexpr BadFile kBadFiles[] = {
    {"empty", kInvalid, "empty"},
    {"one_byte", kInvalid, "truncated: 1 bytes"},
    {"truncated", kInvalid, "truncated: "},
    {"truncated_half", kInvalid, "truncated: "},
    {"truncated_header", kInvalid, "truncated: 63 bytes"},
    {"truncated_segments", kInvalid, "truncated: "},
    {"truncated_dynamic", kInvalid, "truncated: "},
    {"truncated_symbols", kInvalid, "truncated: "},
    {"truncated_strings", kInvalid, "truncated: "},
    {"truncated_manifest", kInvalid, "truncated: "},
    {"not_elf", kInvalid, "not an ELF file"},
    {"elf32", kInvalid, "a 32-bit ELF file; expected 64-bit"},
    {"big_endian", kInvalid, "a big-endian ELF file; expected little-endian"},
    {"elf_version", kInvalid, "damaged: "},
    {"wrong_machine", kInvalid, "built for AArch64; this machine is x86-64"},
    {"not_shared", kInvalid, "an object file, not a shared object"},
    {"no_segments", kInvalid, "damaged: no program headers"},
    {"wild_phoff", kInvalid, "truncated: its program headers are missing"},
    {"wild_phnum", kInvalid, "truncated: its program headers are missing"},
    {"wild_phentsize", kInvalid, "damaged: no program headers"},
    {"wild_load", kInvalid, "truncated: "},
    {"wild_dynamic", kInvalid, "truncated: "},
    {"wild_symtab", kInvalid, "lie outside the file"},
    {"wild_strtab", kInvalid, "lie outside the file"},
    {"wild_strsz", kInvalid, "lie outside the file"},
    {"wild_hash_buckets", kInvalid, "damaged: its symbol hash table"},
    {"wild_hash_bloom", kInvalid, "damaged: its symbol hash table"},
    {"zero_hash_buckets", kInvalid, "damaged: its symbol hash table"},
    {"wild_name", kInvalid, "does not export devrt_plugin_manifest_v0"},
    {"wild_manifest", kInvalid, "its manifest lies outside the file"},
    {"zero_manifest", kInvalid, "its manifest has 0 bytes"},
    {"bad_magic", kInvalid, "its manifest does not begin with \"DEVRTPL\""},
    {"bad_name", kInvalid, "its manifest's backend name is "},
    {"unterminated_name", kInvalid, "its manifest's "},
    {"short_manifest", kInvalid, "its manifest claims "},
    {"huge_manifest", kInvalid, "its manifest claims 4294967295 bytes, but"},
    {"manifest_in_bss", kInvalid, "its manifest lies outside the file"},
    {"no_manifest", kInvalid, "does not export devrt_plugin_manifest_v0"},
    {"no_open", kInvalid, "does not export the function devrt_plugin_open_v0"},
    {"reserved_symbol", kInvalid,
     "exports \"__acme_debug\"; a plugin exports "},
    {"third_symbol", kInvalid, "exports \"acme_debug\"; a plugin exports "},
    {"foreign_major", absl::StatusCode::kFailedPrecondition,
     "a plugin for devrt ABI major 9; this devrt knows major 0"},
    {"major_in_manifest", absl::StatusCode::kFailedPrecondition,
     "a plugin for devrt ABI major 9; this devrt knows major 0"},
};

class BadFileTest : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadFileTest, IsRefusedAndNamed) {
  const std::string path = PluginPath(GetParam().name);
  ASSERT_EQ(access(path.c_str(), R_OK), 0) << path;
  EXPECT_THAT(ReadManifest(path),
              StatusIs(GetParam().code, AllOf(StartsWith(path + ": "),
                                              HasSubstr(GetParam().text))));
}

INSTANTIATE_TEST_SUITE_P(All, BadFileTest, ::testing::ValuesIn(kBadFiles),
                         [](const auto& test) { return test.param.name; });

TEST(ElfManifestTest, SymbolsBehindTheLastAreIgnored) {
  // Its chains run on into what follows; that has no names.
  EXPECT_OK(ReadManifest(PluginPath("wild_hash_chain")));
}

TEST(ElfManifestTest, WritableManifest) {
  // The manifest's segment made writable: a relocation could change it.
  std::string bytes = ReadFile(PluginPath("good"));
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (int i = 0; i < header.e_phnum; ++i) {
    const size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + at, sizeof segment);
    if (segment.p_type == PT_LOAD) segment.p_flags |= PF_W;
    std::memcpy(bytes.data() + at, &segment, sizeof segment);
  }
  EXPECT_THAT(ReadBytes(bytes),
              StatusIs(kInvalid, HasSubstr("its manifest needs "
                                           "relocation, or is not const")));
}

TEST(ElfManifestTest, MissingFileIsNotFound) {
  EXPECT_THAT(ReadManifest("/nowhere/libdevrt_x.so"),
              StatusIs(absl::StatusCode::kNotFound,
                       "/nowhere/libdevrt_x.so: no such file"));
  EXPECT_THAT(ReadManifest("/dev/null/x.so"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such")));
}

TEST(ElfManifestTest, NotRegular) {
  EXPECT_THAT(ReadManifest("/tmp"),
              StatusIs(kInvalid, "/tmp: a directory, not a file"));
  EXPECT_THAT(ReadManifest("/dev/null"),
              StatusIs(kInvalid, "/dev/null: not a regular file"));
  const std::string pipe =
      ::testing::TempDir() + "pipe" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(ReadManifest(pipe),
              StatusIs(kInvalid, HasSubstr("not a regular file")));
  unlink(pipe.c_str());
}

TEST(ElfManifestTest, NotReadable) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads everything";
  const std::string path =
      ::testing::TempDir() + "secret" + std::to_string(getpid());
  close(open(path.c_str(), O_CREAT | O_WRONLY, 0000));
  EXPECT_EQ(ReadManifest(path).status().code(),
            absl::StatusCode::kPermissionDenied);
  unlink(path.c_str());
}

TEST(ElfManifestTest, ProgramsAreRefused) {
  EXPECT_THAT(ReadManifest("/proc/self/exe"),
              StatusIs(kInvalid, HasSubstr("a program, not a shared object")));
}

TEST(ElfManifestTest, OtherLibraries) {
  EXPECT_THAT(ReadManifest("/lib/x86_64-linux-gnu/libc.so.6"),
              StatusIs(kInvalid, HasSubstr("not a devrt plugin")));
}

TEST(ElfManifestTest, EveryTruncationIsAnError) {
  const std::string good = ReadFile(PluginPath("good"));
  for (size_t size = 0; size < good.size(); size += size < 1024 ? 1 : 509) {
    ASSERT_FALSE(ReadBytes(good.substr(0, size)).ok()) << size;
  }
}

TEST(ElfManifestTest, DamagedBytesNeverHurt) {
  const std::string good = ReadFile(PluginPath("good"));
  SCOPED_TRACE(testing::SeedTrace());
  std::mt19937_64 random(testing::TestSeed());
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (uint64_t i = 0, n = 1 + random() % 4; i < n; ++i) {
      // The tables are at the beginning: damage is most telling there.
      const size_t limit = random() % 2 == 0 ? 0x600 : bytes.size() - 8;
      const size_t at = random() % limit;
      const uint64_t values[] = {random(), random() % 64, ~uint64_t{0}, 0,
                                 uint64_t{1} << (random() % 64)};
      const uint64_t value = values[random() % 5];
      std::memcpy(bytes.data() + at, &value, 1 + random() % 8);
    }
    const absl::StatusOr<devrt_manifest_v0> manifest = ReadBytes(bytes);
    if (manifest.ok()) {
      EXPECT_OK(CheckManifest(*manifest));
    }
  }
}

TEST(CheckManifestTest, ControlCharacters) {
  devrt_manifest_v0 manifest = Must(ReadManifest(PluginPath("good")));
  manifest.vendor[0] = '\n';
  EXPECT_THAT(CheckManifest(manifest),
              StatusIs(kInvalid, HasSubstr("vendor has control characters")));
}

}  // namespace
}  // namespace devrt::internal
