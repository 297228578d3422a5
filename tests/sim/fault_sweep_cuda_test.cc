// SPDX-License-Identifier: Apache-2.0
//
// FaultSweep on CUDA's plugin over the fake driver: the entry points that the
// simulator lacks (kSweptOnCuda).
#include <cuda.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <set>
#include <string>

#include "devrt/devrt.h"
#include "devrt/sim/faults.h"
#include "tests/sim/sweeps.h"

namespace devrt::testing {
namespace {

absl::Status Checked(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return absl::InternalError(std::string(call) + " has failed");
}

// Records one operation into a graph, in the way of another library.
absl::Status UseCapture() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("cuda:0"));
  DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  const StreamGuard on(stream);
  DEVRT_RETURN_IF_ERROR(on.status());
  DEVRT_ASSIGN_OR_RETURN(const Array x, Array::Full({64}, kInt32, 1, device));
  // The memory of the number is in the stream's cache from now on.
  DEVRT_RETURN_IF_ERROR(AddInto(x, x, 2));
  DEVRT_RETURN_IF_ERROR(x.Ready());
  DEVRT_ASSIGN_OR_RETURN(void* const native, stream.Native());
  const auto captured = static_cast<CUstream>(native);
  DEVRT_RETURN_IF_ERROR(Checked(
      cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin"));
  const absl::Status added = AddInto(x, x, 2);
  CUgraph graph = nullptr;
  absl::Status ended = Checked(cuStreamEndCapture(captured, &graph), "end");
  if (graph != nullptr) ended.Update(Checked(cuGraphDestroy(graph), "destroy"));
  // What the graph has kept goes back with the next operation.
  const absl::Status filled = x.Fill(0);
  const absl::Status waited = stream.Synchronize();
  for (const absl::Status& status : {added, ended, filled}) {
    DEVRT_RETURN_IF_ERROR(status);
  }
  return waited;
}

absl::Status UseInterprocessEvents() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("cuda:0"));
  DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  EventOptions options;
  options.interprocess = true;
  DEVRT_ASSIGN_OR_RETURN(const Event ours, Event::Create(device, options));
  DEVRT_RETURN_IF_ERROR(ours.Export().status());
  // The fake driver opens a handle of the process -1.
  EventHandle handle{};
  std::memset(handle.bytes, 0xff, sizeof(pid_t));
  DEVRT_ASSIGN_OR_RETURN(const Event theirs, Event::Open(device, handle));
  const absl::Status recorded = theirs.Record(stream);
  const absl::Status waited = stream.Synchronize();
  return recorded.ok() ? waited : recorded;
}

TEST(FaultSweepCuda, EntryPointsThatTheSimulatorLacks) {
  InSweep([] {
    std::set<std::string> missing(std::begin(kSweptOnCuda),
                                  std::end(kSweptOnCuda));
    sim::SweepOptions options;
    options.backend = "cuda";
    for (const sim::Body& body :
         {sim::Body(&UseCapture), sim::Body(&UseInterprocessEvents)}) {
      const sim::SweepResult result = sim::FaultSweep(options, body);
      EXPECT_TRUE(result.ok()) << result.text();
      EXPECT_GT(result.reported, 5u) << result.text();
      EXPECT_EQ(result.missed, 0u) << result.text();
      for (const std::string& call : result.calls) missing.erase(call);
    }
    EXPECT_THAT(missing, ::testing::IsEmpty());
  });
}

}  // namespace
}  // namespace devrt::testing
