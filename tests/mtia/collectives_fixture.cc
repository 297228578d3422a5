// SPDX-License-Identifier: Apache-2.0
#include "tests/mtia/collectives_fixture.h"

namespace devrt::test {

std::string CollectivesTest::NewId() {
  uint64_t size = DEVRT_COLLECTIVES_MAX_ID;
  std::string id(size, '\0');
  OK(table().unique_id(self(), id.data(), &size));
  id.resize(size);
  return id;
}

devrt_comm_options_v0 CollectivesTest::Options(uint64_t timeout_ns,
                                               const char* name) {
  return {sizeof(devrt_comm_options_v0), 1, timeout_ns, name};
}

devrt_comm CollectivesTest::Begin(const std::string& id, uint32_t ranks,
                                  uint32_t rank,
                                  const devrt_comm_options_v0& options) {
  devrt_comm comm = nullptr;
  OK(table().comm_begin(self(), rank % 2, ranks, rank, id.data(), id.size(),
                        &options, &comm));
  return comm;
}

TestRanks CollectivesTest::Make(uint32_t ranks, uint64_t timeout_ns,
                                const char* name) {
  const std::string id = NewId();
  const devrt_comm_options_v0 options = Options(timeout_ns, name);
  TestRanks made;
  for (uint32_t r = 0; r < ranks; ++r) {
    made.push_back({r % 2, Begin(id, ranks, r, options), NewStream(r % 2)});
  }
  return made;
}

uint32_t CollectivesTest::Poll(devrt_comm comm) {
  uint32_t state = 99;
  OK(table().comm_poll(self(), comm, &state));
  return state;
}

Result CollectivesTest::PollError(devrt_comm comm) {
  uint32_t state = 0;
  return Take(table().comm_poll(self(), comm, &state));
}

devrt_collective_v0 CollectivesTest::Op(uint32_t op, uint32_t dtype,
                                        uint64_t count, const void* src,
                                        void* dst, uint32_t reduction,
                                        int32_t root) {
  devrt_collective_v0 call = {};
  call.struct_size = sizeof call;
  call.op = op;
  call.dtype = dtype;
  call.count = count;
  call.src = src;
  call.dst = dst;
  call.reduction = reduction;
  call.root_or_peer = root;
  return call;
}

devrt_status CollectivesTest::TrySubmit(
    const TestRank& rank, const std::vector<devrt_collective_v0>& ops) {
  const devrt_submission_v0 submission = {
      sizeof submission, static_cast<uint32_t>(ops.size()),
      rank.comm,         rank.stream,
      ops.data(),        nullptr};
  return table().submit(self(), &submission, 1);
}

void CollectivesTest::Destroy(const TestRanks& ranks) {
  for (const TestRank& r : ranks) OK(table().comm_destroy(self(), r.comm));
}

void* CollectivesTest::NewBuffer(uint32_t device, const std::string& bytes) {
  void* ptr = nullptr;
  OK(ops().alloc(self(), device, bytes.size(), 0, &ptr));
  OK(sim().poke(self(), ptr, bytes.data(), bytes.size()));
  return ptr;
}

std::string CollectivesTest::Bytes(const void* ptr, uint64_t size) {
  std::string bytes(size, '\0');
  OK(sim().peek(self(), ptr, bytes.data(), size));
  return bytes;
}

}  // namespace devrt::test
