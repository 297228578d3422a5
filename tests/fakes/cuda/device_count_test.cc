// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/device_count.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace devrt::cuda {
namespace {

namespace fs = std::filesystem;

// A machine's files, as driver 580 writes them.
class DeviceFiles : public ::testing::Test {
 protected:
  DeviceFiles() {
    char name[] = "/tmp/devrt_count_XXXXXX";
    root_ = mkdtemp(name);
  }
  ~DeviceFiles() override { fs::remove_all(root_); }

  void Add(int minor, const std::string& uuid,
           const std::string& excluded = "No") {
    const fs::path folder = root_ / "proc/driver/nvidia/gpus" /
                            ("0000:00:0" + std::to_string(minor));
    fs::create_directories(folder);
    std::ofstream(folder / "information")
        << "Model: \t\t NVIDIA H200\nGPU UUID: \t " << uuid
        << "\nDevice Minor: \t " << minor << "\nGPU Excluded:\t " << excluded
        << "\n";
    fs::create_directories(root_ / "dev");
    std::ofstream(Node(minor)) << "";
  }
  fs::path Node(int minor) const {
    return root_ / "dev" / ("nvidia" + std::to_string(minor));
  }
  bool Read() { return ReadDevices(root_.string(), &uuids_); }

  fs::path root_;
  std::vector<std::string> uuids_;
};

TEST_F(DeviceFiles, AreRead) {
  Add(0, "GPU-39b38e16-8bd8");
  Add(1, "GPU-f651d65e-de00");
  ASSERT_TRUE(Read());
  EXPECT_EQ(uuids_.size(), 2u);
  EXPECT_EQ(CountVisible(uuids_, nullptr), 2);
}

TEST_F(DeviceFiles, ExcludedIsLeftOut) {
  Add(0, "GPU-39b38e16", "Yes");
  Add(1, "GPU-f651d65e");
  ASSERT_TRUE(Read());
  EXPECT_EQ(uuids_, std::vector<std::string>{"GPU-f651d65e"});
}

TEST_F(DeviceFiles, NoDeviceIsAnAnswer) {
  fs::create_directories(root_ / "proc/driver/nvidia/gpus");
  ASSERT_TRUE(Read());
  EXPECT_TRUE(uuids_.empty());
}

TEST_F(DeviceFiles, IncompleteFilesGiveNoCount) {
  EXPECT_FALSE(Read()) << "there is no driver's folder";
  Add(0, "GPU-39b38e16");
  EXPECT_TRUE(Read());
  fs::remove(Node(0));
  EXPECT_FALSE(Read()) << "the device's file may still be made";
  Add(0, "GPU-39b38e16");
  fs::create_directories(root_ /
                         "proc/driver/nvidia/capabilities/gpu0/mig/gi1");
  EXPECT_FALSE(Read()) << "parts of it are devices";
}

TEST_F(DeviceFiles, UnreadableFileIsNone) {
  Add(0, "");
  EXPECT_FALSE(Read());
}

TEST(VisibleDevices, EndAtTheFirstUnknownDevice) {
  const std::vector<std::string> two = {"GPU-39b38e16", "GPU-39f651d6"};
  const struct {
    const char* list;
    int count;
  } kCases[] = {
      {nullptr, 2},
      {"", 0},
      {"-1", 0},
      {"0", 1},
      {"1,0", 2},
      {"0,7,1", 1},
      {"7", 0},
      {"0,", 1},
      {"x", kUnknownCount},
      {"0 ", kUnknownCount},
      {"0,1x", kUnknownCount},
      {"GPU-39b38e16", 1},
      {"GPU-39b", 1},
      {"GPU-39", 0},  // two begin so
      {"GPU-39f,GPU-39b", 2},
      {"GPU-aa,0", 0},
      {"GPU-", kUnknownCount},
      {"GPU-39b,0", kUnknownCount},
      {"0,GPU-39b", kUnknownCount},
      {"0,0", kUnknownCount},
      {"MIG-1", kUnknownCount},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(CountVisible(two, c.list), c.count)
        << (c.list ? c.list : "unset");
  }
}

}  // namespace
}  // namespace devrt::cuda
