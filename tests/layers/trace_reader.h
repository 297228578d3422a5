// SPDX-License-Identifier: Apache-2.0
//
// Programs under the trace layer, and the records that they left.
//
//   Traced("events", [] { ... calls ... }, [](Trace* trace) {
//     EXPECT_EQ(trace->Calls(CallId::fill_async).size(), 3u);
//   });

#ifndef DEVRT_TESTS_LAYERS_TRACE_READER_H_
#define DEVRT_TESTS_LAYERS_TRACE_READER_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/devrt.h"
#include "layers/trace/ring_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {

using layer::CallId;

// The records of a ring file, host threads' and devices' together.
class Trace {
 public:
  // The file is large and sparse.
  explicit Trace(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY);
    map_ = mmap(nullptr, trace::FileBytes(trace::kRingRecords), PROT_READ,
                MAP_PRIVATE, fd, 0);
    close(fd);
    if (map_ == MAP_FAILED) throw std::runtime_error("no trace in " + path);
    const uint32_t rings = header()->ring_count;
    for (uint32_t i = 0; i < rings; ++i) {
      trace::RingHeader* const ring = trace::RingAt(header(), i);
      const trace::Record* const records = trace::RecordsOf(ring);
      records_.insert(records_.end(), records, records + ring->written);
    }
  }
  trace::FileHeader* header() { return static_cast<trace::FileHeader*>(map_); }
  std::vector<trace::Record> Calls(CallId id) const {
    std::vector<trace::Record> found;
    for (const trace::Record& r : records_) {
      if (r.call == static_cast<uint8_t>(id)) found.push_back(r);
    }
    return found;
  }
  std::vector<trace::Record> Operations() const {
    std::vector<trace::Record> found;
    for (const trace::Record& r : records_) {
      if (r.call == trace::kDeviceOp) found.push_back(r);
    }
    return found;
  }

 private:
  void* map_ = nullptr;  // until the child ends
  std::vector<trace::Record> records_;
};

inline void TraceAlone() { Must(SetLayers({"trace"})); }

// Runs `body` in a child under the layers that `choose` sets, with times as
// DEVRT_TRACE_TIMES says, then looks at the trace.
inline void Traced(const char* times, void (*body)(), void (*look)(Trace*),
                   void (*choose)() = &TraceAlone) {
  InChild([=] {
    const std::string file =
        ::testing::TempDir() + "/trace_ring." + std::to_string(getpid());
    setenv("DEVRT_TRACE", file.c_str(), 1);
    if (times != nullptr) setenv("DEVRT_TRACE_TIMES", times, 1);
    choose();
    body();
    EXPECT_OK(Shutdown());
    Trace trace(file);
    std::remove(file.c_str());
    look(&trace);
  });
}

// Makes the next such call of the simulator fail, and no other call.
inline void FailNext(const char* call, int32_t native_code) {
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kApi;
  fault.native_code = native_code;
  fault.where = call;
  EXPECT_OK(Must(Simulator::Get()).InjectFault(fault));
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_LAYERS_TRACE_READER_H_
