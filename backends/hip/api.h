// SPDX-License-Identifier: Apache-2.0
//
// HIP as backends/gpu needs it (backends/cuda/api.h lists the members of an
// Api): the runtime's functions, found at run time.
//
// HIP has devices instead of contexts: a Context is a device's ordinal + 1.  A
// thread always has a current one.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_HIP_API_H_
#define DEVRT_BACKENDS_HIP_API_H_

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
// C++ overloads would hide the types of the C functions.
#define __HIP_DISABLE_CPP_FUNCTIONS__
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "backends/hip/error_table.h"
#include "devrt/backends/abi/devrt_dlpack.h"
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::hip {

class Api {
 public:
  using Error = hipError_t;
  using Device = hipDevice_t;
  using Context = uintptr_t;
  using Stream = hipStream_t;
  using Event = hipEvent_t;
  using Module = hipModule_t;
  using Function = hipFunction_t;
  using Pool = void*;  // unused

  static constexpr const char* kBackend = "hip";
  // kDLROCM, kDLROCMHost, and DLPack's only type of managed memory.
  static constexpr devrt_dlpack_v0 kDlpack = {sizeof(devrt_dlpack_v0), 10, 11,
                                              13};
  static constexpr Error kSuccess = hipSuccess;
  static constexpr Error kNotReady = hipErrorNotReady;
  static constexpr Error kInvalidValue = hipErrorInvalidValue;
  // CUDA's number.  HIP 5.2's header has none.
  static constexpr Error kNotPermitted = static_cast<hipError_t>(800);
  static constexpr Error kMapFailed = hipErrorMapFailed;
  static constexpr Error kContextIsDestroyed = hipErrorContextIsDestroyed;
  static constexpr Error kPeerAlreadyEnabled = hipErrorPeerAccessAlreadyEnabled;
  static constexpr Error kPeerNotEnabled = hipErrorPeerAccessNotEnabled;
  static constexpr uintptr_t kLastMagicStream = 2;
  static constexpr bool kHasVirtualMemory = false;
  // hipMallocAsync is marked beta, and its guarantees for peers are not
  // documented (C65, C79).
  static constexpr bool kHasPools = false;
  static constexpr bool kHasCaptures = false;
  static constexpr uint64_t kEarlyReadBelow = 0;

  // What HIP leaves to its callers (docs/reference/semantics.md 1.15).
  static constexpr bool kBareLegacyWorkIsSkipped = true;           // C9
  static constexpr bool kRunsOnCurrentDevice = true;               // C15, C16
  static constexpr bool kDestroyedStreamsLoseWork = true;          // C17, C18
  static constexpr bool kPendingRecordsAreFixed = true;            // C27
  static constexpr uint32_t kPageableAsync = DEVRT_PAGEABLE_SYNC;  // C53
  static constexpr uint32_t kFaultDelivery =
      DEVRT_FAULT_DELIVERY_ABORT;  // C92-C95

  // Finds the runtime and its functions.  Returns nullptr and sets `*why` if
  // there is no runtime or its version is unknown.
  static std::unique_ptr<Api> Load(std::string* why);
  // Returns the DEVRT_CAP_* for which this runtime lacks a function.
  uint64_t MissingCapabilities() const { return missing_; }

  // Calls hipGetDeviceCount without hipInit.  The runtime may initialise
  // itself.
  int CountWithoutInit() const {
    int count = 0;
    return Count(&count) == kSuccess ? count : -1;
  }
  // A machine without a device is not an error here.
  Error Init() const {
    const Error error = Call(hipInit_, 0u);
    return MeansNoDevice(error) ? kSuccess : error;
  }
  Error Count(int* count) const;

  static const gpu::ErrorMeaning& MeaningOf(Error error) {
    return hip::MeaningOf(static_cast<int>(error));
  }
  const char* ErrorName(Error error) const { return hipGetErrorName_(error); }
  const char* ErrorText(Error error) const { return hipGetErrorString_(error); }

  // ---- Devices
  Error GetDevice(int ordinal, Device* device) const {
    return Call(hipDeviceGet_, device, ordinal);
  }
  Error Describe(Device device, devrt_device_props_v0* props) const;
  // Converts nanoseconds to ticks of the kernels' clock.
  Error Ticks(Device device, uint64_t nanoseconds, uint64_t* ticks) const;
  Error CanAccessPeer(Device device, Device peer, int* can) const {
    return Call(hipDeviceCanAccessPeer_, can, device, peer);
  }

  // ---- Contexts
  Error Retain(Device device, Context* context) const {
    *context = static_cast<Context>(device) + 1;
    return kSuccess;
  }
  Error Release(Device) const { return kSuccess; }
  bool HasContext(Device device) const {
    unsigned flags = 0;
    int active = 0;
    return Call(hipDevicePrimaryCtxGetState_, device, &flags, &active) !=
               kSuccess ||
           active != 0;
  }
  Error Current(Context* context) const {
    int device = 0;
    const Error error = Call(hipGetDevice_, &device);
    *context = error == kSuccess ? static_cast<Context>(device) + 1 : 0;
    return error;
  }
  Error SetCurrent(Context context) const {
    return Call(hipSetDevice_, Ordinal(context));
  }
  // A device keeps its number over a reset.
  Error ContextId(Context context, uint64_t* id) const {
    *id = context;
    return kSuccess;
  }
  Error CurrentDevice(Device* device) const {
    return Call(hipGetDevice_, device);
  }
  Error SynchronizeContext() const { return Call(hipDeviceSynchronize_); }
  Error EnablePeer(Context peer) const {
    return Call(hipDeviceEnablePeerAccess_, Ordinal(peer), 0u);
  }
  Error DisablePeer(Context peer) const {
    return Call(hipDeviceDisablePeerAccess_, Ordinal(peer));
  }

  // ---- Memory
  Error MemoryInfo(size_t* free, size_t* total) const {
    return Call(hipMemGetInfo_, free, total);
  }
  Error Allocate(void** ptr, size_t size) const {
    return Call(hipMalloc_, ptr, size);
  }
  Error Free(void* ptr) const { return Call(hipFree_, ptr); }
  // Coherent, whatever the environment says: kernels and the host see one
  // another's writes while kernels run, and after a query that returned true
  // (C37, C46).
  Error AllocateHost(void** ptr, size_t size) const {
    return Call(hipHostMalloc_, ptr, size,
                unsigned{hipHostMallocPortable | hipHostMallocCoherent});
  }
  Error FreeHost(void* ptr) const { return Call(hipHostFree_, ptr); }
  Error RegisterHost(void* ptr, size_t size) const {
    return Call(hipHostRegister_, ptr, size, unsigned{hipHostRegisterPortable});
  }
  Error UnregisterHost(void* ptr) const {
    return Call(hipHostUnregister_, ptr);
  }
  Error Inspect(const void* ptr, devrt_pointer_info_v0* info) const;

  // ---- Work
  Error Copy(void* dst, const void* src, size_t size, uint32_t kind,
             Stream stream) const;
  Error CopyPeer(void* dst, Context dst_context, const void* src,
                 Context src_context, size_t size, Stream stream) const {
    return Call(hipMemcpyPeerAsync_, dst, Ordinal(dst_context), src,
                Ordinal(src_context), size, stream);
  }
  Error Fill(void* dst, uint8_t value, size_t size, Stream stream) const {
    return Call(hipMemsetAsync_, dst, int{value}, size, stream);
  }

  // ---- Streams
  static Stream LegacyStream() { return nullptr; }
  static Stream PerThreadStream() { return hipStreamPerThread; }
  Error CreateStream(bool blocking, int priority, Stream* stream) const {
    return Call(hipStreamCreateWithPriority_, stream,
                blocking ? 0u : unsigned{hipStreamNonBlocking}, priority);
  }
  Error DestroyStream(Stream stream) const {
    return Call(hipStreamDestroy_, stream);
  }
  Error QueryStream(Stream stream) const {
    return Call(hipStreamQuery_, stream);
  }
  Error SynchronizeStream(Stream stream) const {
    return Call(hipStreamSynchronize_, stream);
  }
  Error Wait(Stream stream, Event event) const {
    return Call(hipStreamWaitEvent_, stream, event, 0u);
  }
  Error ContextOf(Stream stream, Context* context) const;
  Error IsBlocking(Stream stream, bool* blocking) const {
    unsigned flags = 0;
    const Error error = Call(hipStreamGetFlags_, stream, &flags);
    *blocking = (flags & hipStreamNonBlocking) == 0;
    return error;
  }
  using Callback = hipStreamCallback_t;
  Error AddCallback(Stream stream, Callback callback, void* arg) const {
    return Call(hipStreamAddCallback_, stream, callback, arg, 0u);
  }

  // ---- Events
  Error CreateEvent(bool timing, bool blocking_sync, bool ipc,
                    Event* event) const;
  Error DestroyEvent(Event event) const {
    return Call(hipEventDestroy_, event);
  }
  Error Record(Event event, Stream stream) const {
    return Call(hipEventRecord_, event, stream);
  }
  Error QueryEvent(Event event) const { return Call(hipEventQuery_, event); }
  Error SynchronizeEvent(Event event) const {
    return Call(hipEventSynchronize_, event);
  }
  Error ExportEvent(Event event, devrt_event_handle_v0* name) const;
  Error OpenEvent(const devrt_event_handle_v0& name, Event* event) const;
  Error Elapsed(Event begin, Event end, int64_t* nanoseconds) const;

  // ---- Kernels
  Error LoadModule(const void* image, Module* module) const {
    return Call(hipModuleLoadData_, module, image);
  }
  Error LoadFunction(Module module, const char* name,
                     Function* function) const {
    return Call(hipModuleGetFunction_, function, module, name);
  }
  Error Launch(Function function, unsigned blocks, unsigned threads,
               Stream stream, void** arguments) const {
    return Call(hipModuleLaunchKernel_, function, blocks, 1u, 1u, threads, 1u,
                1u, 0u, stream, arguments, static_cast<void**>(nullptr));
  }

 private:
  Api() = default;
  // HIP 5.2 has no error of its own for it.
  static bool MeansNoDevice(Error error) {
    return error == hipErrorNoDevice || error == hipErrorInvalidDevice;
  }
  static int Ordinal(Context context) { return static_cast<int>(context) - 1; }

  // Calls the runtime, then clears the error that this call left in the
  // thread's slot, and no other (R6, C20, C90).  Before ROCm 7 "not ready" is
  // left there too, and such a runtime has itself overwritten an earlier error.
  template <typename Function, typename... Arguments>
  Error Call(Function* function, Arguments... arguments) const {
    if (__builtin_expect(function == nullptr, 0)) return hipErrorNotSupported;
    const Error error = function(arguments...);
    if (__builtin_expect(error != hipSuccess, 0)) CleanSlot(error);
    return error;
  }
  void CleanSlot(Error error) const;
  template <typename Value>
  Error ReadAttribute(hipPointer_attribute attribute, const void* ptr,
                      Value* value) const {
    return Call(hipPointerGetAttribute_, static_cast<void*>(value), attribute,
                reinterpret_cast<hipDeviceptr_t>(const_cast<void*>(ptr)));
  }
  Error FindOwner(const void* ptr, int* owner) const;

  int major_ = 0;
  uint64_t missing_ = 0;
#define DEVRT_HIP_ENTRY(name, needed_by) decltype(&::name) name##_ = nullptr;
#include "backends/hip/entries.inc"
#undef DEVRT_HIP_ENTRY
};

}  // namespace devrt::hip

#endif  // DEVRT_BACKENDS_HIP_API_H_
