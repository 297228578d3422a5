// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/error_table.h"

namespace devrt::hip {
namespace {

using gpu::ErrorClass;
using gpu::ErrorMeaning;

constexpr auto kLocal = ErrorClass::kLocal;
constexpr auto kSticky = ErrorClass::kSticky;
constexpr auto kSuspect = ErrorClass::kSuspect;

// Sorted by code.  Numbers, because an older header lacks some names, and CUDA
// uses 911 and 912 for other errors.
constexpr ErrorMeaning kMeanings[] = {
    {1, DEVRT_INVALID_ARGUMENT, kLocal},       // InvalidValue
    {2, DEVRT_RESOURCE_EXHAUSTED, kLocal},     // OutOfMemory
    {3, DEVRT_UNAVAILABLE, kLocal},            // NotInitialized
    {4, DEVRT_FAILED_PRECONDITION, kLocal},    // Deinitialized
    {5, DEVRT_UNIMPLEMENTED, kLocal},          // ProfilerDisabled
    {6, DEVRT_UNIMPLEMENTED, kLocal},          // ProfilerNotInitialized
    {7, DEVRT_UNIMPLEMENTED, kLocal},          // ProfilerAlreadyStarted
    {8, DEVRT_UNIMPLEMENTED, kLocal},          // ProfilerAlreadyStopped
    {9, DEVRT_INVALID_ARGUMENT, kLocal},       // InvalidConfiguration
    {12, DEVRT_INVALID_ARGUMENT, kLocal},      // InvalidPitchValue
    {13, DEVRT_INVALID_ARGUMENT, kLocal},      // InvalidSymbol
    {17, DEVRT_INVALID_ARGUMENT, kLocal},      // InvalidDevicePointer
    {21, DEVRT_INVALID_ARGUMENT, kLocal},      // InvalidMemcpyDirection
    {35, DEVRT_UNAVAILABLE, kLocal},           // InsufficientDriver
    {52, DEVRT_FAILED_PRECONDITION, kLocal},   // MissingConfiguration
    {53, DEVRT_UNKNOWN, kSuspect},             // PriorLaunchFailure
    {98, DEVRT_INVALID_ARGUMENT, kLocal},      // InvalidDeviceFunction
    {100, DEVRT_UNAVAILABLE, kLocal},          // NoDevice
    {101, DEVRT_INVALID_ARGUMENT, kLocal},     // InvalidDevice
    {200, DEVRT_FAILED_PRECONDITION, kLocal},  // InvalidImage
    {201, DEVRT_FAILED_PRECONDITION, kLocal},  // InvalidContext
    {202, DEVRT_FAILED_PRECONDITION, kLocal},  // ContextAlreadyCurrent
    {205, DEVRT_INTERNAL, kLocal},             // MapFailed
    {206, DEVRT_INTERNAL, kLocal},             // UnmapFailed
    {207, DEVRT_FAILED_PRECONDITION, kLocal},  // ArrayIsMapped
    {208, DEVRT_ALREADY_EXISTS, kLocal},       // AlreadyMapped
    {209, DEVRT_FAILED_PRECONDITION, kLocal},  // NoBinaryForGpu
    {210, DEVRT_FAILED_PRECONDITION, kLocal},  // AlreadyAcquired
    {211, DEVRT_FAILED_PRECONDITION, kLocal},  // NotMapped
    {212, DEVRT_FAILED_PRECONDITION, kLocal},  // NotMappedAsArray
    {213, DEVRT_FAILED_PRECONDITION, kLocal},  // NotMappedAsPointer
    {214, DEVRT_DATA_LOSS, kSticky},           // ECCNotCorrectable
    {215, DEVRT_INVALID_ARGUMENT, kLocal},     // UnsupportedLimit
    {216, DEVRT_FAILED_PRECONDITION, kLocal},  // ContextAlreadyInUse
    {217, DEVRT_UNIMPLEMENTED, kLocal},        // PeerAccessUnsupported
    {218, DEVRT_FAILED_PRECONDITION, kLocal},  // InvalidKernelFile
    {219, DEVRT_INTERNAL, kLocal},             // InvalidGraphicsContext
    {300, DEVRT_FAILED_PRECONDITION, kLocal},  // InvalidSource
    {301, DEVRT_NOT_FOUND, kLocal},            // FileNotFound
    {302, DEVRT_NOT_FOUND, kLocal},            // SharedObjectSymbolNotFound
    {303, DEVRT_INTERNAL, kLocal},             // SharedObjectInitFailed
    {304, DEVRT_INTERNAL, kLocal},             // OperatingSystem
    {400, DEVRT_INVALID_ARGUMENT, kLocal},     // InvalidHandle
    {401, DEVRT_FAILED_PRECONDITION, kLocal},  // IllegalState
    {500, DEVRT_NOT_FOUND, kLocal},            // NotFound
    {600, DEVRT_FAILED_PRECONDITION, kLocal},  // NotReady
    {700, DEVRT_INTERNAL, kSticky},            // IllegalAddress
    {701, DEVRT_RESOURCE_EXHAUSTED, kLocal},   // LaunchOutOfResources
    {702, DEVRT_DEADLINE_EXCEEDED, kSticky},   // LaunchTimeOut
    {704, DEVRT_ALREADY_EXISTS, kLocal},       // PeerAccessAlreadyEnabled
    {705, DEVRT_FAILED_PRECONDITION, kLocal},  // PeerAccessNotEnabled
    {708, DEVRT_FAILED_PRECONDITION, kLocal},  // SetOnActiveProcess
    {709, DEVRT_FAILED_PRECONDITION, kLocal},  // ContextIsDestroyed
    {710, DEVRT_INTERNAL, kSticky},            // Assert
    {712, DEVRT_ALREADY_EXISTS, kLocal},       // HostMemoryAlreadyRegistered
    {713, DEVRT_NOT_FOUND, kLocal},            // HostMemoryNotRegistered
    {719, DEVRT_INTERNAL, kSticky},            // LaunchFailure
    {720, DEVRT_INVALID_ARGUMENT, kLocal},     // CooperativeLaunchTooLarge
    {801, DEVRT_UNIMPLEMENTED, kLocal},        // NotSupported
    {900, DEVRT_FAILED_PRECONDITION, kLocal},  // StreamCaptureUnsupported
    {901, DEVRT_FAILED_PRECONDITION, kLocal},  // StreamCaptureInvalidated
    {902, DEVRT_FAILED_PRECONDITION, kLocal},  // StreamCaptureMerge
    {903, DEVRT_FAILED_PRECONDITION, kLocal},  // StreamCaptureUnmatched
    {904, DEVRT_FAILED_PRECONDITION, kLocal},  // StreamCaptureUnjoined
    {905, DEVRT_FAILED_PRECONDITION, kLocal},  // StreamCaptureIsolation
    {906, DEVRT_FAILED_PRECONDITION, kLocal},  // StreamCaptureImplicit
    {907, DEVRT_FAILED_PRECONDITION, kLocal},  // CapturedEvent
    {908, DEVRT_FAILED_PRECONDITION, kLocal},  // StreamCaptureWrongThread
    {910, DEVRT_FAILED_PRECONDITION, kLocal},  // GraphExecUpdateFailure
    {911, DEVRT_INVALID_ARGUMENT, kLocal},     // InvalidChannelDescriptor
    {912, DEVRT_INVALID_ARGUMENT, kLocal},     // InvalidTexture
    {999, DEVRT_UNKNOWN, kSuspect},            // Unknown
    {1052, DEVRT_INTERNAL, kSuspect},          // RuntimeMemory
    {1053, DEVRT_INTERNAL, kSuspect},          // RuntimeOther
    {1054, DEVRT_INTERNAL, kSuspect},          // Tbd
};

}  // namespace

const gpu::ErrorMeaning& MeaningOf(int code) {
  return gpu::FindMeaning(kMeanings, code);
}

}  // namespace devrt::hip
