// SPDX-License-Identifier: Apache-2.0
//
// Ranks of one process on the devices of a backend, through the provider's
// table.  DEVRT_TEST_BACKEND names the backend: cuda with the fake NCCL, or hip
// with it as RCCL.
//
//   std::vector<Rank> ranks = MakeRanks(3);
//   ASSERT_TRUE(Connect(&ranks));
//   EXPECT_EQ(Text(ranks[0].AllReduce(src, dst, 4)), "");

#ifndef DEVRT_TESTS_COLLECTIVES_NCCL_NCCL_FIXTURE_H_
#define DEVRT_TESTS_COLLECTIVES_NCCL_NCCL_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/nccl/nccl_provider.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/gate.h"
#include "runtime/plugins/host_table.h"
#include "tests/fakes/nccl/knobs.h"
#include "tests/support/status_matchers.h"

namespace devrt::collectives {

using internal::Provider;
using testing::Must;

inline std::string BackendName() {
  const char* const name = std::getenv("DEVRT_TEST_BACKEND");
  return name != nullptr ? name : "cuda";
}

inline const Provider& TheProvider() {
  static const auto* const provider = new Provider(Must(
      BackendName() == "hip" ? internal::OpenRccl(Must(GetBackend("hip")))
                             : internal::OpenNccl(Must(GetBackend("cuda")))));
  return *provider;
}
inline bool Has(uint32_t flag) { return TheProvider().Has(flag); }

// The code of the last error, its native code, and where it came from.
struct LastError {
  devrt_code code = DEVRT_OK;
  int64_t native = 0;
  std::string name, entry;
};
inline LastError& TheLastError() {
  static thread_local LastError last;
  return last;
}

// The text of a status, which is destroyed; "" for success.
inline std::string Text(devrt_status status) {
  TheLastError() = {};
  if (status == nullptr) return "";
  TheLastError() = {status->code, status->native_code, status->native_name,
                    status->entry_point};
  std::string text = status->text;
  const devrt_host_v0* const host = devrt::internal::HostTable();
  host->error_destroy(host->host, status);
  return text;
}
// The code of a status, which is destroyed.
inline devrt_code Code(devrt_status status) {
  (void)Text(status);
  return TheLastError().code;
}

// Calls a function of the table.
template <auto kFunction, typename... Args>
devrt_status Call(Args... args) {
  return (TheProvider().table->*kFunction)(TheProvider().self, args...);
}

// Polls until all communicators are READY or one has failed, 30 s at most.
inline devrt_status WaitReady(std::vector<devrt_comm> comms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    for (size_t i = comms.size(); i-- > 0;) {
      uint32_t state = DEVRT_COMM_PENDING;
      const devrt_status error =
          Call<&devrt_collectives_v0::comm_poll>(comms[i], &state);
      if (error != nullptr) return error;
      if (state != DEVRT_COMM_READY) continue;
      comms.erase(comms.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (comms.empty()) return nullptr;
    std::this_thread::yield();
  }
  ADD_FAILURE() << "a communicator is not ready";
  return nullptr;
}
inline devrt_status WaitReady(devrt_comm comm) {
  return WaitReady(std::vector<devrt_comm>{comm});
}
inline uint32_t Poll(devrt_comm comm) {
  uint32_t state = 99;
  EXPECT_EQ(Text(Call<&devrt_collectives_v0::comm_poll>(comm, &state)), "");
  return state;
}

inline devrt_collective_v0 Op(uint32_t op, const void* src, void* dst,
                              uint64_t count, uint32_t dtype,
                              uint32_t reduction = 0, int32_t root = 0) {
  return {sizeof(devrt_collective_v0),
          op,
          dtype,
          reduction,
          root,
          0,
          count,
          src,
          dst};
}

// One rank: a device, a stream, memory, and a communicator.
class Rank {
 public:
  explicit Rank(Device device) : gate_(device.gate()) {
    stream = MakeStream(DEVRT_STREAM_CREATE);
  }
  Rank(Rank&& other) noexcept
      : comm(std::exchange(other.comm, nullptr)),
        waits(other.waits),
        stream(std::exchange(other.stream, nullptr)),
        gate_(other.gate_),
        blocks_(std::exchange(other.blocks_, {})) {}
  Rank& operator=(Rank&&) = delete;
  ~Rank() {
    if (stream == nullptr) return;
    if (comm != nullptr) {
      EXPECT_EQ(Text(Destroy()), "");
    }
    EXPECT_EQ(Text(Synchronize()), "");
    for (const auto& [ptr, size] : blocks_) {
      EXPECT_EQ(
          Text(gate_->ops->dealloc(gate_->self, gate_->ordinal, ptr, size)),
          "");
    }
    EXPECT_EQ(Text(gate_->ops->stream_destroy(gate_->self, stream)), "");
  }

  uint32_t device() const { return gate_->ordinal; }

  void* Allocate(size_t size) {
    void* ptr = nullptr;
    EXPECT_EQ(Text(gate_->ops->alloc(gate_->self, gate_->ordinal,
                                     size == 0 ? 1 : size, 0, &ptr)),
              "");
    blocks_.emplace_back(ptr, size == 0 ? 1 : size);
    return ptr;
  }
  // A copy of the bytes in device memory, written by the stream.
  void* Upload(const std::vector<char>& bytes) {
    void* const ptr = Allocate(bytes.size());
    sources_.push_back(bytes);
    if (!bytes.empty()) {
      EXPECT_EQ(Text(gate_->ops->copy_async(gate_->self, stream, ptr,
                                            sources_.back().data(),
                                            bytes.size(), DEVRT_COPY_H2D)),
                "");
    }
    return ptr;
  }
  devrt_status Fill(void* ptr, uint32_t value, uint64_t size) {
    return gate_->ops->fill_async(gate_->self, stream, ptr, value, size);
  }
  // The bytes at `ptr` after the work of the stream.
  std::vector<char> Download(const void* ptr, size_t size) {
    std::vector<char> bytes(size);
    if (size != 0) {
      EXPECT_EQ(Text(gate_->ops->copy_async(gate_->self, stream, bytes.data(),
                                            ptr, size, DEVRT_COPY_D2H)),
                "");
    }
    EXPECT_EQ(Text(Synchronize()), "");
    return bytes;
  }
  devrt_status Synchronize() {
    return gate_->ops->stream_sync(gate_->self, stream);
  }
  // A stream of the device, of the kind DEVRT_STREAM_*.
  devrt_stream MakeStream(uint32_t kind) const {
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    desc.kind = kind;
    devrt_stream made = nullptr;
    EXPECT_EQ(Text(gate_->ops->stream_create(gate_->self, gate_->ordinal, &desc,
                                             &made)),
              "");
    return made;
  }

  devrt_submission_v0 Submission(const std::vector<devrt_collective_v0>& ops) {
    return {sizeof(devrt_submission_v0),
            static_cast<uint32_t>(ops.size()),
            comm,
            stream,
            ops.data(),
            nullptr};
  }
  devrt_status Submit(const std::vector<devrt_collective_v0>& ops) {
    const devrt_submission_v0 submission = Submission(ops);
    return Call<&devrt_collectives_v0::submit>(&submission, 1u);
  }
  devrt_status Abort() { return Call<&devrt_collectives_v0::comm_abort>(comm); }
  devrt_status Finish() {
    return Call<&devrt_collectives_v0::comm_finish>(comm);
  }
  devrt_status Destroy() {
    const devrt_status error = Call<&devrt_collectives_v0::comm_destroy>(comm);
    if (error == nullptr) comm = nullptr;
    return error;
  }

  devrt_comm comm = nullptr;
  bool waits = false;  // its submissions may wait for other ranks
  devrt_stream stream = nullptr;

 private:
  devrt::internal::DeviceGate* const gate_;
  std::vector<std::pair<void*, size_t>> blocks_;
  std::deque<std::vector<char>> sources_;
};

// One rank for each of the first devices.
inline std::vector<Rank> MakeRanks(uint32_t count, bool waits = false) {
  const std::vector<Device> devices = Must(Devices(BackendName()));
  EXPECT_LE(count, devices.size());
  std::vector<Rank> ranks;
  for (uint32_t i = 0; i < count; ++i) {
    ranks.emplace_back(devices[i]);
    ranks.back().waits = waits;
  }
  return ranks;
}

inline devrt_comm_options_v0 Named(const char* name, bool shared = false) {
  devrt_comm_options_v0 options = {};
  options.struct_size = sizeof options;
  options.shared_device = shared ? 1 : 0;
  options.name = name;
  return options;
}

struct Id {
  char bytes[DEVRT_COLLECTIVES_MAX_ID] = {};
  uint64_t size = sizeof bytes;
};
inline Id NewId() {
  Id id;
  EXPECT_EQ(Text(Call<&devrt_collectives_v0::unique_id>(
                static_cast<void*>(id.bytes), &id.size)),
            "");
  return id;
}

inline devrt_status Begin(Rank* rank, const Id& id, uint32_t ranks,
                          uint32_t number) {
  const devrt_comm_options_v0 options = Named("test");
  const devrt_status error = Call<&devrt_collectives_v0::comm_begin>(
      rank->device(), ranks, number, static_cast<const void*>(id.bytes),
      id.size, &options, &rank->comm);
  if (error == nullptr && rank->waits) TheProvider().let_wait(rank->comm);
  return error;
}

inline std::vector<devrt_comm> CommsOf(const std::vector<Rank>& ranks) {
  std::vector<devrt_comm> comms;
  for (const Rank& rank : ranks) comms.push_back(rank.comm);
  return comms;
}

// Submits one operation of each rank as one group.
inline devrt_status SubmitTogether(
    std::vector<Rank>* ranks, const std::vector<devrt_collective_v0>& ops) {
  std::vector<devrt_submission_v0> submissions;
  for (size_t i = 0; i < ranks->size(); ++i) {
    const Rank& rank = (*ranks)[i];
    submissions.push_back({sizeof(devrt_submission_v0), 1, rank.comm,
                           rank.stream, &ops[i], nullptr});
  }
  return Call<&devrt_collectives_v0::submit>(
      static_cast<const devrt_submission_v0*>(submissions.data()),
      static_cast<uint32_t>(submissions.size()));
}

// Makes one communicator of all ranks, ready.
inline void Connect(std::vector<Rank>* ranks, bool waits = false) {
  for (Rank& rank : *ranks) rank.waits = waits;
  const Id id = NewId();
  for (uint32_t i = 0; i < ranks->size(); ++i) {
    ASSERT_EQ(
        Text(Begin(&(*ranks)[i], id, static_cast<uint32_t>(ranks->size()), i)),
        "");
  }
  ASSERT_EQ(Text(WaitReady(CommsOf(*ranks))), "");
}

// Each test begins without knobs, and leaves no communicator and no group.
class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override { Set({}); }
  void TearDown() override {
    fake_nccl_let_go();
    EXPECT_EQ(fake_nccl_live(), 0);
    EXPECT_EQ(fake_nccl_open_groups(), 0);
  }
  static void Set(const fake_nccl_knobs& knobs) { fake_nccl_set(&knobs); }
};

}  // namespace devrt::collectives

#endif  // DEVRT_TESTS_COLLECTIVES_NCCL_NCCL_FIXTURE_H_
