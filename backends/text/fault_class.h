// SPDX-License-Identifier: Apache-2.0
//
// The classes of faults, and sets of them, for fault_rule.h.

#ifndef DEVRT_BACKENDS_TEXT_FAULT_CLASS_H_
#define DEVRT_BACKENDS_TEXT_FAULT_CLASS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace devrt::internal {

enum class FaultClass : uint8_t {
  kOom,            // an allocation finds no memory
  kApiError,       // a call returns an error
  kKernelFault,    // an operation faults at its end
  kFragmentation,  // an allocation finds no memory, although enough is free
  kDeviceLost,     // a device is lost
  kLinkDown,       // what crosses a link between two devices faults
  kHang,           // an operation never ends
  kSlow,           // operations take longer
  kStaleQuery,     // a query says "not ready" once more
  kEcc,            // memory loses a bit, with an error or without
  // Of the ranks of communicators.
  kRankDies,     // a rank takes no further part
  kRankLate,     // a rank's operations begin later
  kRemoteError,  // a communicator fails, as if a connection broke
  kInitNever,    // a communicator never becomes ready
  kAbortHangs,   // an abort does not return
  kSubmitFails,  // a submission returns an error
  kFinishNever,  // the orderly end does not end
};

struct FaultClassName {
  std::string_view name;
  FaultClass kind;
  bool is_of_calls;  // the layer has it; else the simulator
};

inline constexpr FaultClassName kFaultClasses[] = {
    {"oom", FaultClass::kOom, true},
    {"api_error", FaultClass::kApiError, true},
    {"kernel_fault", FaultClass::kKernelFault, false},
    {"fragmentation", FaultClass::kFragmentation, false},
    {"device_lost", FaultClass::kDeviceLost, false},
    {"link_down", FaultClass::kLinkDown, false},
    {"hang", FaultClass::kHang, false},
    {"slow", FaultClass::kSlow, false},
    {"stale_query", FaultClass::kStaleQuery, false},
    {"ecc", FaultClass::kEcc, false},
    {"rank_dies", FaultClass::kRankDies, false},
    {"rank_late", FaultClass::kRankLate, false},
    {"remote_error", FaultClass::kRemoteError, false},
    {"init_never", FaultClass::kInitNever, false},
    {"abort_hangs", FaultClass::kAbortHangs, false},
    {"submit_fails", FaultClass::kSubmitFails, false},
    {"finish_never", FaultClass::kFinishNever, false},
};

// A code of devrt_plugin.h by its name.
struct FaultCode {
  std::string_view name;
  int32_t code;
};

inline constexpr FaultCode kFaultCodes[] = {
    {"CANCELLED", 1},           {"UNKNOWN", 2},
    {"INVALID_ARGUMENT", 3},    {"DEADLINE_EXCEEDED", 4},
    {"NOT_FOUND", 5},           {"ALREADY_EXISTS", 6},
    {"PERMISSION_DENIED", 7},   {"RESOURCE_EXHAUSTED", 8},
    {"FAILED_PRECONDITION", 9}, {"ABORTED", 10},
    {"OUT_OF_RANGE", 11},       {"UNIMPLEMENTED", 12},
    {"INTERNAL", 13},           {"UNAVAILABLE", 14},
    {"DATA_LOSS", 15},
};

namespace faults {

inline std::string_view NameOf(FaultClass kind) {
  return kFaultClasses[static_cast<size_t>(kind)].name;
}

constexpr uint32_t Bit(FaultClass kind) {
  return uint32_t{1} << static_cast<uint32_t>(kind);
}

// True for the classes that fire without end unless a rule has the key times.
constexpr bool HasNoEnd(FaultClass kind) {
  return kind == FaultClass::kSlow || kind == FaultClass::kRankLate;
}

inline constexpr uint32_t kOfCalls =
    Bit(FaultClass::kOom) | Bit(FaultClass::kApiError);
inline constexpr uint32_t kOfRanks =
    Bit(FaultClass::kRankDies) | Bit(FaultClass::kRankLate) |
    Bit(FaultClass::kRemoteError) | Bit(FaultClass::kInitNever) |
    Bit(FaultClass::kAbortHangs) | Bit(FaultClass::kSubmitFails) |
    Bit(FaultClass::kFinishNever);
// Those that count operations or calls, and name a device or a rank.
inline constexpr uint32_t kOfDevices =
    kOfCalls | Bit(FaultClass::kKernelFault) | Bit(FaultClass::kFragmentation) |
    Bit(FaultClass::kDeviceLost) | Bit(FaultClass::kHang) |
    Bit(FaultClass::kSlow) | Bit(FaultClass::kStaleQuery) |
    Bit(FaultClass::kEcc);
inline constexpr uint32_t kCounting = kOfDevices | kOfRanks;
inline constexpr uint32_t kOfOperations =
    Bit(FaultClass::kKernelFault) | Bit(FaultClass::kHang) |
    Bit(FaultClass::kSlow) | Bit(FaultClass::kEcc);

}  // namespace faults

}  // namespace devrt::internal

#endif  // DEVRT_BACKENDS_TEXT_FAULT_CLASS_H_
