// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/error.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "backends/mtia/text.h"

namespace devrt::mtia {
namespace {

struct NativeCode {
  int32_t number;
  devrt_code code;
  bool sticky;
  const char* name;
};

constexpr bool kLocal = false;
constexpr bool kSticky = true;

// CUDA's numbers as semantics 2.2 classifies them, in rising order.
constexpr NativeCode kNativeCodes[] = {
    {0, DEVRT_OK, kLocal, "cudaSuccess"},
    {1, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidValue"},
    {2, DEVRT_RESOURCE_EXHAUSTED, kLocal, "cudaErrorMemoryAllocation"},
    {3, DEVRT_UNAVAILABLE, kLocal, "cudaErrorInitializationError"},
    {4, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorCudartUnloading"},
    {9, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidConfiguration"},
    {12, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidPitchValue"},
    {13, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidSymbol"},
    {16, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidHostPointer"},
    {17, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidDevicePointer"},
    {21, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidMemcpyDirection"},
    {34, DEVRT_UNAVAILABLE, kLocal, "cudaErrorStubLibrary"},
    {35, DEVRT_UNAVAILABLE, kLocal, "cudaErrorInsufficientDriver"},
    {36, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorCallRequiresNewerDriver"},
    {46, DEVRT_UNAVAILABLE, kLocal, "cudaErrorDevicesUnavailable"},
    {49, DEVRT_FAILED_PRECONDITION, kLocal,
     "cudaErrorIncompatibleDriverContext"},
    {53, DEVRT_UNKNOWN, kLocal, "cudaErrorPriorLaunchFailure"},
    {98, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidDeviceFunction"},
    {100, DEVRT_UNAVAILABLE, kLocal, "cudaErrorNoDevice"},
    {101, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidDevice"},
    {127, DEVRT_UNAVAILABLE, kLocal, "cudaErrorSoftwareValidityNotEstablished"},
    {200, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorInvalidKernelImage"},
    {201, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorDeviceUninitialized"},
    // Only the driver interface has a name for 202.
    {202, DEVRT_FAILED_PRECONDITION, kLocal,
     "CUDA_ERROR_CONTEXT_ALREADY_CURRENT"},
    {209, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorNoKernelImageForDevice"},
    {214, DEVRT_DATA_LOSS, kSticky, "cudaErrorECCUncorrectable"},
    {215, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorUnsupportedLimit"},
    {217, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorPeerAccessUnsupported"},
    {218, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorInvalidPtx"},
    {220, DEVRT_DATA_LOSS, kSticky, "cudaErrorNvlinkUncorrectable"},
    {221, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorJitCompilerNotFound"},
    {222, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorUnsupportedPtxVersion"},
    {223, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorJitCompilationDisabled"},
    {224, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorUnsupportedExecAffinity"},
    {225, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorUnsupportedDevSideSync"},
    {226, DEVRT_INTERNAL, kSticky, "cudaErrorContained"},
    {300, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorInvalidSource"},
    {301, DEVRT_NOT_FOUND, kLocal, "cudaErrorFileNotFound"},
    {302, DEVRT_NOT_FOUND, kLocal, "cudaErrorSharedObjectSymbolNotFound"},
    {400, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidResourceHandle"},
    {401, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorIllegalState"},
    {500, DEVRT_NOT_FOUND, kLocal, "cudaErrorSymbolNotFound"},
    {600, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorNotReady"},
    {700, DEVRT_INTERNAL, kSticky, "cudaErrorIllegalAddress"},
    {701, DEVRT_RESOURCE_EXHAUSTED, kLocal, "cudaErrorLaunchOutOfResources"},
    {702, DEVRT_DEADLINE_EXCEEDED, kSticky, "cudaErrorLaunchTimeout"},
    {703, DEVRT_INVALID_ARGUMENT, kLocal,
     "cudaErrorLaunchIncompatibleTexturing"},
    {704, DEVRT_ALREADY_EXISTS, kLocal, "cudaErrorPeerAccessAlreadyEnabled"},
    {705, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorPeerAccessNotEnabled"},
    {708, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorSetOnActiveProcess"},
    {709, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorContextIsDestroyed"},
    {710, DEVRT_INTERNAL, kSticky, "cudaErrorAssert"},
    {711, DEVRT_RESOURCE_EXHAUSTED, kLocal, "cudaErrorTooManyPeers"},
    {712, DEVRT_ALREADY_EXISTS, kLocal, "cudaErrorHostMemoryAlreadyRegistered"},
    {713, DEVRT_NOT_FOUND, kLocal, "cudaErrorHostMemoryNotRegistered"},
    {714, DEVRT_INTERNAL, kSticky, "cudaErrorHardwareStackError"},
    {715, DEVRT_INTERNAL, kSticky, "cudaErrorIllegalInstruction"},
    {716, DEVRT_INTERNAL, kSticky, "cudaErrorMisalignedAddress"},
    {717, DEVRT_INTERNAL, kSticky, "cudaErrorInvalidAddressSpace"},
    {718, DEVRT_INTERNAL, kSticky, "cudaErrorInvalidPc"},
    {719, DEVRT_INTERNAL, kSticky, "cudaErrorLaunchFailure"},
    {720, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorCooperativeLaunchTooLarge"},
    {721, DEVRT_INTERNAL, kSticky, "cudaErrorTensorMemoryLeak"},
    {800, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorNotPermitted"},
    {801, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorNotSupported"},
    {802, DEVRT_UNAVAILABLE, kLocal, "cudaErrorSystemNotReady"},
    {803, DEVRT_UNAVAILABLE, kLocal, "cudaErrorSystemDriverMismatch"},
    {804, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorCompatNotSupportedOnDevice"},
    {805, DEVRT_UNAVAILABLE, kLocal, "cudaErrorMpsConnectionFailed"},
    {806, DEVRT_UNAVAILABLE, kLocal, "cudaErrorMpsRpcFailure"},
    {807, DEVRT_UNAVAILABLE, kLocal, "cudaErrorMpsServerNotReady"},
    {808, DEVRT_UNAVAILABLE, kLocal, "cudaErrorMpsMaxClientsReached"},
    {809, DEVRT_UNAVAILABLE, kLocal, "cudaErrorMpsMaxConnectionsReached"},
    {810, DEVRT_INTERNAL, kSticky, "cudaErrorMpsClientTerminated"},
    {811, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorCdpNotSupported"},
    {812, DEVRT_UNIMPLEMENTED, kLocal, "cudaErrorCdpVersionMismatch"},
    {900, DEVRT_FAILED_PRECONDITION, kLocal,
     "cudaErrorStreamCaptureUnsupported"},
    {901, DEVRT_FAILED_PRECONDITION, kLocal,
     "cudaErrorStreamCaptureInvalidated"},
    {902, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorStreamCaptureMerge"},
    {903, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorStreamCaptureUnmatched"},
    {904, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorStreamCaptureUnjoined"},
    {905, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorStreamCaptureIsolation"},
    {906, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorStreamCaptureImplicit"},
    {907, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorCapturedEvent"},
    {908, DEVRT_FAILED_PRECONDITION, kLocal,
     "cudaErrorStreamCaptureWrongThread"},
    {909, DEVRT_DEADLINE_EXCEEDED, kLocal, "cudaErrorTimeout"},
    {910, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorGraphExecUpdateFailure"},
    {911, DEVRT_INTERNAL, kSticky, "cudaErrorExternalDevice"},
    {912, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidClusterSize"},
    {913, DEVRT_FAILED_PRECONDITION, kLocal, "cudaErrorFunctionNotLoaded"},
    {914, DEVRT_INVALID_ARGUMENT, kLocal, "cudaErrorInvalidResourceType"},
    {915, DEVRT_INVALID_ARGUMENT, kLocal,
     "cudaErrorInvalidResourceConfiguration"},
    {999, DEVRT_UNKNOWN, kLocal, "cudaErrorUnknown"},
};

constexpr bool IsRising() {
  for (size_t i = 1; i < std::size(kNativeCodes); ++i) {
    if (kNativeCodes[i - 1].number >= kNativeCodes[i].number) return false;
  }
  return true;
}
static_assert(IsRising(), "FindNative searches by bisection");

const NativeCode* FindNative(int32_t number) {
  const NativeCode* row = std::lower_bound(
      std::begin(kNativeCodes), std::end(kNativeCodes), number,
      [](const NativeCode& a, int32_t b) { return a.number < b; });
  return row != std::end(kNativeCodes) && row->number == number ? row : nullptr;
}

devrt_error_origin_v0 MakeOrigin(int64_t native_code) {
  devrt_error_origin_v0 origin = {};
  origin.struct_size = sizeof(origin);
  origin.native_code = native_code;
  origin.native_name = NativeName(static_cast<int32_t>(native_code));
  origin.device = -1;
  return origin;
}

}  // namespace

const devrt_host_v0* g_host = nullptr;

devrt_status MakeError(devrt_code code, int64_t native_code,
                       const std::string& text) {
  devrt_status error = g_host->error_create(g_host->host, code, native_code,
                                            text.data(), text.size());
  if (native_code != 0) {
    const devrt_error_origin_v0 origin = MakeOrigin(native_code);
    g_host->error_set_origin(g_host->host, error, &origin);
  }
  return error;
}

devrt_status MakeFaultStatus(const Fault& fault, const char* entry_point) {
  devrt_status error = g_host->error_create(
      g_host->host, CodeOfNative(fault.native_code), fault.native_code,
      fault.text.data(), fault.text.size());
  devrt_error_origin_v0 origin = MakeOrigin(fault.native_code);
  origin.flags = DEVRT_ERROR_STICKY | DEVRT_ERROR_ASYNC |
                 (fault.process ? DEVRT_ERROR_PROCESS : 0u);
  origin.device = static_cast<int32_t>(fault.device);
  origin.entry_point = entry_point;
  g_host->error_set_origin(g_host->host, error, &origin);
  return error;
}

const char* NativeName(int32_t native_code) {
  const NativeCode* row = FindNative(native_code);
  return row != nullptr ? row->name : "cudaErrorUnknown";
}

devrt_code CodeOfNative(int32_t native_code) {
  const NativeCode* row = FindNative(native_code);
  return row != nullptr ? row->code : DEVRT_INTERNAL;
}

bool IsSticky(int32_t native_code) {
  const NativeCode* row = FindNative(native_code);
  return row != nullptr && row->sticky;
}

}  // namespace devrt::mtia
