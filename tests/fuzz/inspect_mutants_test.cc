// SPDX-License-Identifier: Apache-2.0
//
// Ten thousand damaged copies of a real plugin through inspection: no crash, no
// hang, and no more memory than the file has bytes.

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>

#include "devrt/runtime/inspect.h"
#include "tests/fuzz/mutation.h"
#include "tests/support/test_seed.h"
#include "tests/unit/runtime/plugin_files.h"

namespace {

// Bytes that operator new has given out, now and at most.
std::atomic<size_t> live{0}, peak{0};

void* Counted(size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) std::abort();
  const size_t now =
      live.fetch_add(malloc_usable_size(block)) + malloc_usable_size(block);
  for (size_t most = peak; now > most;) {
    if (peak.compare_exchange_weak(most, now)) break;
  }
  return block;
}

void Release(void* block) {
  live.fetch_sub(malloc_usable_size(block));
  std::free(block);
}

}  // namespace

void* operator new(size_t size) { return Counted(size); }
void* operator new[](size_t size) { return Counted(size); }
void operator delete(void* block) noexcept { Release(block); }
void operator delete[](void* block) noexcept { Release(block); }
void operator delete(void* block, size_t) noexcept { Release(block); }
void operator delete[](void* block, size_t) noexcept { Release(block); }

namespace devrt {
namespace {

constexpr int kCopies = 10000;
// Messages and paths take some bytes, however short the file was cut.
constexpr size_t kLeast = 8192;

class InspectMutantsTest : public ::testing::Test {
 protected:
  // Inspects a file with these bytes and returns the most memory it took.
  size_t Inspect(const std::string& bytes) {
    // Not cut to nothing first: some file systems then write to the disk.
    const int fd = open(path_.c_str(), O_CREAT | O_WRONLY, 0644);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes.size())), 0);
    EXPECT_EQ(write(fd, bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
    close(fd);
    const size_t before = live;
    peak = before;
    const PluginReport report = InspectPlugin(path_);
    loadable_ += report.status.ok() ? 1 : 0;
    EXPECT_EQ(report.size, bytes.size());
    return peak - before;
  }

  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/libdevrt_mutant.so";
  int loadable_ = 0;
};

TEST_F(InspectMutantsTest, TakeNoMoreMemoryThanTheFile) {
  std::ifstream file(testing::PluginPath("bundled"), std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(file), {});
  ASSERT_GT(Inspect(good), 0u);  // it is counted
  ASSERT_EQ(loadable_, 1);
  SCOPED_TRACE(testing::SeedTrace());
  std::mt19937_64 random(testing::TestSeed());
  for (int i = 0; i < kCopies; ++i) {
    const std::string bytes = testing::Mutate(good, &random);
    ASSERT_LE(Inspect(bytes), std::max(bytes.size(), kLeast));
  }
  EXPECT_GT(loadable_, 1);  // damage that does not matter
  EXPECT_LT(loadable_, kCopies);
}

// A second dynamic section that needs one library with a long name again and
// again.
TEST_F(InspectMutantsTest, RepeatedNamesAreBounded) {
  std::ifstream file(testing::PluginPath("bundled"), std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (int i = 0; i < header.e_phnum; ++i) {
    char* const at = &bytes[header.e_phoff + i * sizeof(Elf64_Phdr)];
    Elf64_Phdr segment;
    std::memcpy(&segment, at, sizeof segment);
    if (segment.p_type != PT_DYNAMIC) continue;
    const std::string before = bytes.substr(segment.p_offset, segment.p_filesz);
    segment.p_offset = bytes.size();
    segment.p_filesz += kCopies * sizeof(Elf64_Dyn);
    std::memcpy(at, &segment, sizeof segment);
    for (int k = 0; k < kCopies; ++k) {  // the first entry is a DT_NEEDED
      bytes.append(before, 0, sizeof(Elf64_Dyn));
    }
    bytes += before;
    break;
  }
  EXPECT_LE(Inspect(bytes), bytes.size() / 2);
  EXPECT_THAT(std::string(InspectPlugin(path_).status.message()),
              ::testing::HasSubstr("it needs more than 256 libraries"));
}

}  // namespace
}  // namespace devrt
