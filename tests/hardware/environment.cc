// SPDX-License-Identifier: Apache-2.0
//
// CUDA_VISIBLE_DEVICES: devrt, which counts without initialising the driver,
// sees the devices that the driver shows to another process, in its order.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/hardware/beside.h"

namespace devrt::hardware {
namespace {

using Variables = std::map<std::string, std::string>;

// Empty: there is no driver.
std::string View(const char* whose, const Variables& variables) {
  constexpr int kNothingThere = 77;
  const testing::ProcessResult result =
      StartBeside("device_view", {whose}, variables);
  if (result.exit_code == kNothingThere) return "";
  EXPECT_EQ(result.exit_code, 0) << result;
  // Without what was said about errors.
  std::string lines;
  for (size_t at = 0; at < result.output.size();) {
    const size_t end = result.output.find('\n', at) + 1;
    const std::string line = result.output.substr(at, end - at);
    if (line.rfind("GPU-", 0) == 0 || line == "none\n") lines += line;
    at = end;
  }
  return lines;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

class Environment : public ::testing::Test {
 protected:
  void SetUp() override {
    all = View("driver", {});
    if (all.empty() || all == "none\n") GTEST_SKIP() << "there is no device";
    uuids = Lines(all);
  }
  void ExpectAgreement(const std::string& value) {
    const Variables visible = {{"CUDA_VISIBLE_DEVICES", value}};
    EXPECT_EQ(View("devrt", visible), View("driver", visible))
        << "CUDA_VISIBLE_DEVICES=\"" << value << "\"";
  }

  std::string all;
  std::vector<std::string> uuids;
};

TEST_F(Environment, AllDevices) { EXPECT_EQ(View("devrt", {}), all); }

TEST_F(Environment, NoDevices) {
  for (const char* value : {"", "-1", "99", "-1,0"}) {
    EXPECT_EQ(View("driver", {{"CUDA_VISIBLE_DEVICES", value}}), "none\n");
    ExpectAgreement(value);
  }
  for (const char* value : {"nonsense", ",0", "-2", "0x1"}) {
    ExpectAgreement(value);
  }
}

TEST_F(Environment, SomeDevices) {
  for (const char* value : {"0", "1", "0,1", "1,0", "0,99,1", "0,-1,1",
                            "0,nonsense,1", "0,", " 0", "0 ", "00", "+0"}) {
    ExpectAgreement(value);
  }
}

TEST_F(Environment, VisibleDevicesReorderAndHide) {
  if (uuids.size() < 2) GTEST_SKIP() << "takes two devices";
  EXPECT_EQ(View("devrt", {{"CUDA_VISIBLE_DEVICES", "1,0"}}),
            uuids[1] + "\n" + uuids[0] + "\n");
  EXPECT_EQ(View("devrt", {{"CUDA_VISIBLE_DEVICES", "1"}}), uuids[1] + "\n");
}

TEST_F(Environment, ADeviceThatIsNamedTwice) {
  for (const char* value : {"0,0", "0,1,0", "1,1"}) ExpectAgreement(value);
}

TEST_F(Environment, UuidsAndTheirPrefixes) {
  ExpectAgreement("GPU-");
  ExpectAgreement("GPU-00000000-0000-0000-0000-000000000000");
  ExpectAgreement("MIG-00000000-0000-0000-0000-000000000000");
  for (const std::string& uuid : uuids) {
    ExpectAgreement(uuid);
    ExpectAgreement(uuid + "," + uuid);
    ExpectAgreement(uuid.substr(0, 12));
    ExpectAgreement(uuids.back() + "," + uuid);
    ExpectAgreement(uuid + ",0");
  }
}

TEST_F(Environment, OrderOfTheBus) {
  for (const char* order : {"PCI_BUS_ID", "FASTEST_FIRST"}) {
    const Variables variables = {{"CUDA_DEVICE_ORDER", order},
                                 {"CUDA_VISIBLE_DEVICES", "0"}};
    EXPECT_EQ(View("devrt", variables), View("driver", variables)) << order;
  }
}

}  // namespace
}  // namespace devrt::hardware
