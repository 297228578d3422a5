// SPDX-License-Identifier: Apache-2.0
//
// CUDA as backends/gpu needs it: the driver's functions, found at run time.
//
// An Api, HIP's too, has these members:
//
//   types      Error, Device, Context, Stream, Event, Module, Function
//   constants  kBackend, kNotReady, ... as below
//   functions  with the names below; none throws, none takes a lock of devrt
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_CUDA_API_H_
#define DEVRT_BACKENDS_CUDA_API_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>

#include "backends/cuda/error_table.h"
#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_dlpack.h"
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::cuda {

class Api {
 public:
  using Error = CUresult;
  using Device = CUdevice;
  using Context = CUcontext;
  using Stream = CUstream;
  using Event = CUevent;
  using Module = CUmodule;
  using Function = CUfunction;
  using Pool = CUmemoryPool;
  using Graph = CUgraph;

  static constexpr const char* kBackend = "cuda";
  // kDLCUDA, kDLCUDAHost, kDLCUDAManaged.
  static constexpr devrt_dlpack_v0 kDlpack = {sizeof(devrt_dlpack_v0), 2, 3,
                                              13};
  static constexpr Error kSuccess = CUDA_SUCCESS;
  static constexpr Error kNotReady = CUDA_ERROR_NOT_READY;
  static constexpr Error kInvalidValue = CUDA_ERROR_INVALID_VALUE;
  static constexpr Error kNotPermitted = CUDA_ERROR_NOT_PERMITTED;
  static constexpr Error kMapFailed = CUDA_ERROR_MAP_FAILED;
  static constexpr Error kContextIsDestroyed = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  static constexpr Error kPeerAlreadyEnabled =
      CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  static constexpr Error kPeerNotEnabled = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  // The oldest driver that has all required functions.
  static constexpr int kOldestDriver = 12000;
  // Handles up to this one are the vendor's magic numbers, not streams.
  static constexpr uintptr_t kLastMagicStream = 2;
  static constexpr bool kHasVirtualMemory = true;
  static constexpr bool kHasPools = true;
  static constexpr bool kHasCaptures = true;

  // The driver may read the source of a copy below this size at submission.
  // Seen below 32 KiB with driver 580.
  static constexpr uint64_t kEarlyReadBelow = 64 << 10;

  // CUDA's driver does what some others leave to backends/gpu: records and
  // waits follow the legacy stream's rules (C9), operations find their device
  // (C15, C16), destroyed streams finish their work (C17, C18), and events may
  // be recorded again at any time (C27).
  static constexpr bool kBareLegacyWorkIsSkipped = false;
  static constexpr bool kRunsOnCurrentDevice = false;
  static constexpr bool kDestroyedStreamsLoseWork = false;
  static constexpr bool kPendingRecordsAreFixed = false;
  static constexpr uint32_t kPageableAsync = DEVRT_PAGEABLE_STAGED;
  static constexpr uint32_t kFaultDelivery = DEVRT_FAULT_DELIVERY_STATUS;

  // Finds the driver and its functions, and initialises nothing.  Returns
  // nullptr and sets `*why` if there is no driver or it is too old.
  static std::unique_ptr<Api> Load(std::string* why);

  // Returns the DEVRT_CAP_* for which this driver lacks functions.
  uint64_t MissingCapabilities() const;

  // Returns the number of devices without initialising the driver
  // (device_count.h), or -1 if that is not possible.
  int CountWithoutInit() const;
  Error Init() const { return cuInit_(0); }
  Error Count(int* count) const { return cuDeviceGetCount_(count); }

  static const gpu::ErrorMeaning& MeaningOf(Error error) {
    return cuda::MeaningOf(static_cast<int>(error));
  }
  const char* ErrorName(Error error) const;
  const char* ErrorText(Error error) const;

  // ---- Devices
  Error GetDevice(int ordinal, Device* device) const {
    return cuDeviceGet_(device, ordinal);
  }
  // Fills in what the vendor knows.  Creates no context.
  Error Describe(Device device, devrt_device_props_v0* props) const;
  // Converts nanoseconds to ticks of the kernels' clock.
  Error Ticks(Device, uint64_t nanoseconds, uint64_t* ticks) const {
    *ticks = nanoseconds;
    return kSuccess;
  }
  Error CanAccessPeer(Device device, Device peer, int* can) const {
    return cuDeviceCanAccessPeer_(can, device, peer);
  }

  // ---- Contexts
  Error Retain(Device device, Context* context) const {
    return cuDevicePrimaryCtxRetain_(context, device);
  }
  Error Release(Device device) const {
    return cuDevicePrimaryCtxRelease_(device);
  }
  bool HasContext(Device device) const {
    unsigned flags = 0;
    int active = 0;
    return cuDevicePrimaryCtxGetState_(device, &flags, &active) ==
               CUDA_SUCCESS &&
           active != 0;
  }
  Error Current(Context* context) const { return cuCtxGetCurrent_(context); }
  Error SetCurrent(Context context) const { return cuCtxSetCurrent_(context); }
  // The number is unique: a new context at an old address has another one.
  Error ContextId(Context context, uint64_t* id) const {
    unsigned long long number = 0;
    const Error error = cuCtxGetId_(context, &number);
    *id = number;
    return error;
  }
  // Asks for the device of the current context.
  Error CurrentDevice(Device* device) const { return cuCtxGetDevice_(device); }
  Error SynchronizeContext() const { return cuCtxSynchronize_(); }
  Error EnablePeer(Context peer) const {
    return cuCtxEnablePeerAccess_(peer, 0);
  }
  Error DisablePeer(Context peer) const {
    return cuCtxDisablePeerAccess_(peer);
  }

  // ---- Memory
  Error MemoryInfo(size_t* free, size_t* total) const {
    return cuMemGetInfo_(free, total);
  }
  Error Allocate(void** ptr, size_t size) const {
    return cuMemAlloc_(reinterpret_cast<CUdeviceptr*>(ptr), size);
  }
  Error Free(void* ptr) const { return cuMemFree_(Address(ptr)); }
  Error AllocateHost(void** ptr, size_t size) const {
    return cuMemHostAlloc_(ptr, size, CU_MEMHOSTALLOC_PORTABLE);
  }
  Error FreeHost(void* ptr) const { return cuMemFreeHost_(ptr); }
  Error RegisterHost(void* ptr, size_t size) const {
    return cuMemHostRegister_(ptr, size, CU_MEMHOSTREGISTER_PORTABLE);
  }
  Error UnregisterHost(void* ptr) const { return cuMemHostUnregister_(ptr); }
  // Sets kind UNREGISTERED if the vendor does not know the pointer.
  Error Inspect(const void* ptr, devrt_pointer_info_v0* info) const;

  // ---- Memory pools
  Error HasPools(Device device, bool* has) const;
  // The pool keeps `keeps` bytes of unused memory and has no internal
  // dependencies.
  Error CreatePool(Device device, uint64_t keeps, Pool* pool) const;
  Error DestroyPool(Pool pool) const { return cuMemPoolDestroy_(pool); }
  Error AllowPoolAccess(Pool pool, Device device, bool allow) const;
  // Returns unused memory to the driver.
  Error TrimPool(Pool pool) const { return cuMemPoolTrimTo_(pool, 0); }
  Error AllocateFromPool(void** ptr, size_t size, Pool pool,
                         Stream stream) const {
    return cuMemAllocFromPoolAsync_(reinterpret_cast<CUdeviceptr*>(ptr), size,
                                    pool, stream);
  }
  Error FreeToPool(void* ptr, Stream stream) const {
    return cuMemFreeAsync_(Address(ptr), stream);
  }

  // ---- Virtual memory
  //
  // True if the driver has the functions that follow.
  bool CanMapMemory() const { return cuMemSetAccess_ != nullptr; }
  Error ChunkGranularity(Device device, uint64_t* bytes) const;
  Error ReserveAddresses(void** base, size_t size, size_t alignment) const {
    return cuMemAddressReserve_(reinterpret_cast<CUdeviceptr*>(base), size,
                                alignment, 0, 0);
  }
  Error ReleaseAddresses(void* base, size_t size) const {
    return cuMemAddressFree_(Address(base), size);
  }
  Error CreateChunk(Device device, size_t size, uint64_t* chunk) const;
  Error DestroyChunk(uint64_t chunk) const { return cuMemRelease_(chunk); }
  Error MapChunk(void* at, size_t size, uint64_t chunk) const {
    return cuMemMap_(Address(at), size, 0, chunk, 0);
  }
  // Unmaps whole chunks only.
  Error UnmapChunks(void* at, size_t size) const {
    return cuMemUnmap_(Address(at), size);
  }
  Error AllowAccess(void* at, size_t size, Device device, bool allow) const;

  // ---- Work
  Error Copy(void* dst, const void* src, size_t size, uint32_t kind,
             Stream stream) const;
  Error CopyPeer(void* dst, Context dst_context, const void* src,
                 Context src_context, size_t size, Stream stream) const {
    return cuMemcpyPeerAsync_(Address(dst), dst_context, Address(src),
                              src_context, size, stream);
  }
  Error Fill(void* dst, uint8_t value, size_t size, Stream stream) const {
    return cuMemsetD8Async_(Address(dst), value, size, stream);
  }

  // ---- Streams
  static Stream LegacyStream() { return CU_STREAM_LEGACY; }
  static Stream PerThreadStream() { return CU_STREAM_PER_THREAD; }
  Error CreateStream(bool blocking, int priority, Stream* stream) const {
    return cuStreamCreateWithPriority_(
        stream, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING,
        priority);
  }
  Error DestroyStream(Stream stream) const { return cuStreamDestroy_(stream); }
  Error QueryStream(Stream stream) const { return cuStreamQuery_(stream); }
  Error SynchronizeStream(Stream stream) const {
    return cuStreamSynchronize_(stream);
  }
  Error Wait(Stream stream, Event event) const {
    return cuStreamWaitEvent_(stream, event, CU_EVENT_WAIT_DEFAULT);
  }
  Error ContextOf(Stream stream, Context* context) const {
    return cuStreamGetCtx_(stream, context);
  }
  Error IsBlocking(Stream stream, bool* blocking) const {
    unsigned flags = 0;
    const Error error = cuStreamGetFlags_(stream, &flags);
    *blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    return error;
  }
  bool CanTellCaptures() const { return cuStreamIsCapturing_ != nullptr; }
  // Also true for the legacy stream beside a blocking stream that captures: its
  // use would depend on that capture, which the driver forbids.
  Error IsCapturing(Stream stream, bool* capturing) const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const Error error = cuStreamIsCapturing_(stream, &status);
    *capturing = error == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
                 status != CU_STREAM_CAPTURE_STATUS_NONE;
    return *capturing ? CUDA_SUCCESS : error;
  }
  bool CanHoldCaptures() const {
    return cuStreamGetCaptureInfo_ != nullptr &&
           cuUserObjectCreate_ != nullptr &&
           cuGraphRetainUserObject_ != nullptr;
  }
  // Finds the number and the graph of the capture that includes the stream.
  Error CaptureOf(Stream stream, uint64_t* id, Graph* graph) const;
  // release(arg) runs when the graph and everything made from it are gone.  It
  // does not run after an error.
  Error HoldGraph(Graph graph, void (*release)(void* arg), void* arg) const;
  bool HasThreadModes() const {
    return cuThreadExchangeStreamCaptureMode_ != nullptr;
  }
  // DEVRT_CAPTURE_* have the driver's numbers.
  Error ExchangeThreadMode(uint32_t* mode) const;
  using Callback = void (*)(Stream stream, Error error, void* arg);
  // The callback also runs after an error, and gets it.
  Error AddCallback(Stream stream, Callback callback, void* arg) const {
    return cuStreamAddCallback_(stream, callback, arg, 0);
  }

  // ---- Events
  Error CreateEvent(bool timing, bool blocking_sync, bool ipc,
                    Event* event) const;
  Error DestroyEvent(Event event) const { return cuEventDestroy_(event); }
  Error Record(Event event, Stream stream) const {
    return cuEventRecord_(event, stream);
  }
  Error QueryEvent(Event event) const { return cuEventQuery_(event); }
  Error SynchronizeEvent(Event event) const {
    return cuEventSynchronize_(event);
  }
  Error ExportEvent(Event event, devrt_event_handle_v0* name) const;
  Error OpenEvent(const devrt_event_handle_v0& name, Event* event) const;
  Error Elapsed(Event begin, Event end, int64_t* nanoseconds) const;

  // ---- Kernels
  Error LoadModule(const void* image, Module* module) const {
    return cuModuleLoadData_(module, image);
  }
  // Asks for an attribute, which loads the function: loading lazily could wait
  // behind a held stream.
  Error LoadFunction(Module module, const char* name, Function* function) const;
  Error Launch(Function function, unsigned blocks, unsigned threads,
               Stream stream, void** arguments) const {
    return cuLaunchKernel_(function, blocks, 1, 1, threads, 1, 1, 0, stream,
                           arguments, nullptr);
  }

 private:
  Api() = default;
  static CUdeviceptr Address(const void* ptr) {
    return reinterpret_cast<CUdeviceptr>(ptr);
  }

#define DEVRT_CUDA_ENTRY(name, version, required) \
  decltype(&::name) name##_ = nullptr;
#include "backends/cuda/entries.inc"
#undef DEVRT_CUDA_ENTRY
};

}  // namespace devrt::cuda

#endif  // DEVRT_BACKENDS_CUDA_API_H_
