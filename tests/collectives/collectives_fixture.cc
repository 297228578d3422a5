// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/collectives_fixture.h"

#include <thread>

#include "devrt/memory/device_memory.h"

namespace devrt::testing {

collectives::Options CommTest::After(absl::Duration timeout) {
  collectives::Options options;
  options.timeout = timeout;
  return options;
}

Device CommTest::dev(int index) {
  return Must(GetDevice("mtia:" + std::to_string(index)));
}

std::vector<Device> CommTest::devs(int count) {
  std::vector<Device> all;
  for (int i = 0; i < count; ++i) all.push_back(dev(i));
  return all;
}

Simulator CommTest::sim() { return Must(Simulator::Get()); }

void CommTest::Reset(const std::string& config) {
  const std::string devices = "devices=" + std::to_string(kDevices);
  const absl::Status status =
      sim().Reset(config.empty() ? devices : devices + "," + config);
  ASSERT_OK(status);
}

void CommTest::TearDown() {
  for (int i = 0; i < kDevices; ++i) {
    dev(i).Synchronize().IgnoreError();
    EmptyCache(dev(i)).IgnoreError();
  }
  Reset();
}

std::vector<Communicator> CommTest::MakeRanks(
    int count, const collectives::Options& options) {
  return Must(Communicator::CreateAll(devs(count), options));
}

void CommTest::InThreads(
    int count, const std::function<void(int, collectives::Bootstrap&)>& body) {
  auto bootstraps = Must(collectives::FromThreads(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] { body(i, *bootstraps[i]); });
  }
  for (std::thread& thread : threads) thread.join();
}

Array CommTest::Filled(int device, int64_t size, double value, DType dtype) {
  return Must(Array::Full({size}, dtype, value, dev(device)));
}

Array CommTest::FromInts(int device, const std::vector<int32_t>& values) {
  return Must(Array::FromVector(values, dev(device)));
}

std::vector<int32_t> CommTest::Ints(const Array& array) {
  const Array host = Must(array.To(Place::Host()));
  const int32_t* const data = host.data_as<int32_t>();
  return std::vector<int32_t>(data, data + host.size());
}

}  // namespace devrt::testing
