// SPDX-License-Identifier: Apache-2.0
//
// Names that the C++ examples of public headers and pages use and do not
// declare. Nothing here is defined: the examples are compiled and not linked.

#ifndef DEVRT_TESTS_DOCS_HEADER_EXAMPLE_NAMES_H_
#define DEVRT_TESTS_DOCS_HEADER_EXAMPLE_NAMES_H_

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/collectives/host_engine.h"
#include "devrt/collectives/recorder.h"
#include "devrt/cts/cts.h"
#include "devrt/devrt.h"

// Devices, streams and memory.
extern devrt::Device device, gpu, gpu0, gpu1, gpu2;
extern devrt::Stream s, s0, s1, stream, copy_stream, producer, consumer;
extern void *dst, *src, *device_ptr, *host_ptr;
extern uint64_t bytes;

// Arrays.
extern devrt::Array a, b, x, array, mask, out, source, target;

// Ranks.
extern std::vector<devrt::Device> devices;
extern std::vector<devrt::Array> gradients, sums;
extern std::vector<devrt::collectives::Communicator> ranks;
extern devrt::collectives::Communicator communicator;
extern int rank;
extern std::unique_ptr<devrt::collectives::Bootstrap> bootstrap;

// Objects of another library.
extern void* their_stream;
extern uint64_t handle;
extern std::shared_ptr<void> object, owner;
extern DLManagedTensorVersioned* tensor;
extern devrt::CudaArrayInterface theirs;
void TheirImport(DLManagedTensorVersioned* tensor);
const devrt::Array& ArrayOf(void* py);
int SetPythonError(const absl::Status& status);

// Functions of the program.
void Abandon(const std::string& backend, int device);
void EndTheCaptureFirst();
void LaunchScaleKernel(void* native_stream, float* x, size_t n, float f);
void LibraryThatUsesTheCurrentDevice();
void LogError(const absl::Status& status);
void Print(const devrt::PluginRule& rule);
void Use(devrt::Device device);
void Work();
absl::Status RunPipeline();
void WriteFile(const std::string& path, const std::string& text);
struct Results {
  void Publish();
};
extern Results results;
struct ThreadPool {
  void Submit(std::function<void()> task);
};
extern ThreadPool pool;

// An engine of the program, and what main gets.
class MyEngine : public devrt::collectives::HostEngine {
 public:
  std::string name() const override;
  std::string version() const override;
  bool Supports(uint32_t op, uint32_t dtype, uint32_t reduction) const override;
  absl::StatusOr<std::unique_ptr<devrt::collectives::HostCommunicator>> Begin(
      uint32_t ranks, uint32_t rank) override;
};
extern int argc;
extern char** argv;
extern int provided;

// Parts of a plugin.
extern const devrt_host_v0* host_;
extern uint32_t count_;
extern std::string trace_file_;
struct Tiny {
  devrt_status launch(devrt_stream stream, const devrt_launch_desc_v0* desc);
};

#endif  // DEVRT_TESTS_DOCS_HEADER_EXAMPLE_NAMES_H_
