// SPDX-License-Identifier: Apache-2.0
//
// Errors and settings of DLPack and the CUDA Array Interface.
//
//   absl::Status status = devrt::FromDLPack(tensor).status();
//   if (devrt::GetExchangeError(status) == devrt::ExchangeError::kBuffer) {
//     std::cerr << "this memory cannot be shared: " << status << "\n";
//   }
//
// Errors.  INVALID_ARGUMENT means that a value is never valid, such as a stream
// number, a device index or an extent (Python's ValueError).
// FAILED_PRECONDITION with an ExchangeError means that this memory cannot be
// shared in this way (BufferError).  Other codes come from devrt's own calls:
// out of memory, errors of the device.
//
// Settings.  devrt reads the environment once, at the first exchange.  For an
// unknown value it logs one warning with the choices, and uses the default.
//
// Threads: any.

#ifndef DEVRT_ARRAYS_EXCHANGE_EXCHANGE_H_
#define DEVRT_ARRAYS_EXCHANGE_EXCHANGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Why memory cannot be shared.
enum class ExchangeError {
  kNone,          // not an error of an exchange
  kBuffer,        // memory, dtype or layout cannot be described or shared
  kCopyRequired,  // a copy would be needed, and copy is false
  kNotOffered,    // the array lacks the protocol (Python's AttributeError)
};
// The ExchangeError of a status; kNone for others.
DEVRT_EXPORT ExchangeError GetExchangeError(const absl::Status& status);

// The settings of docs/reference/settings.md, with the variable of each.
struct ExchangeSettings {
  // What devrt does when a consumer releases memory and its stream may not be
  // touched (E8): devrt does not know the stream, or adopted it without an
  // owner and its Stream has ended.
  //   kRecord  records an event on the device's default stream, which covers
  //            blocking streams only
  //   kTrust   does nothing
  //   kSync    waits for the whole device
  enum class Release : uint8_t { kRecord, kTrust, kSync };

  bool strict = false;             // DEVRT_DLPACK_STRICT=1: stream 0 of CUDA
  bool managed_as_device = false;  // DEVRT_DLPACK_MANAGED=device
  Release release = Release::kRecord;  // DEVRT_DLPACK_RELEASE=record|trust|sync
  int cai_version = 3;                 // DEVRT_CAI_EXPORT_VERSION=2|3
  bool cai_sync = true;                // DEVRT_CAI_SYNC=0|1
  bool hip_cai = false;                // DEVRT_HIP_CAI=1
};
// The settings of the process.
DEVRT_EXPORT ExchangeSettings GetExchangeSettings();
// Replaces the settings.  Holds for all threads, from the next exchange on.
DEVRT_EXPORT void SetExchangeSettings(const ExchangeSettings& settings);
// For programs that refuse to start with a bad setting.  INVALID_ARGUMENT: some
// variables have unknown values; the error names all of them.
DEVRT_EXPORT absl::Status CheckExchangeEnvironment();

}  // namespace devrt

#endif  // DEVRT_ARRAYS_EXCHANGE_EXCHANGE_H_
