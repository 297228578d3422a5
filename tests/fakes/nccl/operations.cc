// SPDX-License-Identifier: Apache-2.0
//
// The operations of the fake libnccl.so.2, and the devices that are current for
// them.
#include <dlfcn.h>

#include "tests/fakes/nccl/entries.h"
#include "tests/fakes/nccl/world.h"

namespace devrt::fake::nccl {

namespace {

using HipGetDevice = int (*)(int* device);
HipGetDevice TheHip() {
  static const auto found = [] {
    void* const hip = dlopen("libamdhip64.so.7", RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<HipGetDevice>(
        hip != nullptr ? dlsym(hip, "hipGetDevice") : nullptr);
  }();
  return found;
}

}  // namespace

bool CurrentDevice(CUdevice* device) {
  if (TheHip() != nullptr) return TheHip()(device) == 0;
  return cuCtxGetDevice(device) == CUDA_SUCCESS;
}

DeviceScope::DeviceScope(CUdevice device) : device_(device) {
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&before_) != CUDA_SUCCESS ||
      cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS) {
    Crash("a device without a context");
  }
}

DeviceScope::~DeviceScope() {
  (void)cuCtxSetCurrent(before_);
  (void)cuDevicePrimaryCtxRelease(device_);
}

bool MayBeCurrent(CUdevice device, const Communicator& comm, CUstream stream,
                  bool in_group) {
  const bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY ||
                          stream == CU_STREAM_PER_THREAD;
  return device == comm.device || (in_group && comm.clique->ranks > 1 &&
                                   !is_default && TheHip() == nullptr);
}

}  // namespace devrt::fake::nccl

using namespace devrt::fake::nccl;  // NOLINT: NCCL's own names are global
using devrt::collectives::nccl::Comm;
using devrt::collectives::nccl::Stream;

namespace {

CUstream Of(Stream stream) { return static_cast<CUstream>(stream); }

}  // namespace

Result ncclAllReduce(const void* src, void* dst, size_t count, DataType type,
                     Reduction reduction, Comm comm, Stream stream) {
  return Add(
      "ncclAllReduce", comm,
      {Kind::kAllReduce, src, dst, count, type, reduction, 0, Of(stream)});
}

Result ncclReduce(const void* src, void* dst, size_t count, DataType type,
                  Reduction reduction, int root, Comm comm, Stream stream) {
  return Add(
      "ncclReduce", comm,
      {Kind::kReduce, src, dst, count, type, reduction, root, Of(stream)});
}

Result ncclBroadcast(const void* src, void* dst, size_t count, DataType type,
                     int root, Comm comm, Stream stream) {
  return Add("ncclBroadcast", comm,
             {Kind::kBroadcast, src, dst, count, type, 0, root, Of(stream)});
}

Result ncclAllGather(const void* src, void* dst, size_t count, DataType type,
                     Comm comm, Stream stream) {
  return Add("ncclAllGather", comm,
             {Kind::kAllGather, src, dst, count, type, 0, 0, Of(stream)});
}

Result ncclReduceScatter(const void* src, void* dst, size_t count,
                         DataType type, Reduction reduction, Comm comm,
                         Stream stream) {
  return Add(
      "ncclReduceScatter", comm,
      {Kind::kReduceScatter, src, dst, count, type, reduction, 0, Of(stream)});
}

Result ncclAlltoAll(const void* src, void* dst, size_t count, DataType type,
                    Comm comm, Stream stream) {
  return Add("ncclAlltoAll", comm,
             {Kind::kAllToAll, src, dst, count, type, 0, 0, Of(stream)});
}

Result ncclAllToAll(const void* src, void* dst, size_t count, DataType type,
                    Comm comm, Stream stream) {
  return ncclAlltoAll(src, dst, count, type, comm, stream);
}

Result ncclGather(const void* src, void* dst, size_t count, DataType type,
                  int root, Comm comm, Stream stream) {
  return Add("ncclGather", comm,
             {Kind::kGather, src, dst, count, type, 0, root, Of(stream)});
}

Result ncclScatter(const void* src, void* dst, size_t count, DataType type,
                   int root, Comm comm, Stream stream) {
  return Add("ncclScatter", comm,
             {Kind::kScatter, src, dst, count, type, 0, root, Of(stream)});
}

Result ncclSend(const void* src, size_t count, DataType type, int peer,
                Comm comm, Stream stream) {
  return Add("ncclSend", comm,
             {Kind::kSend, src, nullptr, count, type, 0, peer, Of(stream)});
}

Result ncclRecv(void* dst, size_t count, DataType type, int peer, Comm comm,
                Stream stream) {
  return Add("ncclRecv", comm,
             {Kind::kRecv, nullptr, dst, count, type, 0, peer, Of(stream)});
}
