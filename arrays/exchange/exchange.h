// SPDX-License-Identifier: Apache-2.0
//
// What DLPack and CUDA Array Interface share: kinds of errors, and settings.
//
//   absl::Status status = devrt::FromDLPack(tensor).status();
//   if (devrt::GetExchangeError(status) == devrt::ExchangeError::kBuffer) {
//     std::cerr << "this memory cannot be shared: " << status << "\n";
//   }
//
// Errors.  INVALID_ARGUMENT is a value that no call may pass (Python's
// ValueError): stream numbers, device indices, extents.  FAILED_PRECONDITION
// with an ExchangeError says that this memory cannot be shared like this
// (BufferError).  Other codes are what devrt's own calls answered: no memory,
// the device's errors.
//
// Settings come from the environment, read once at the first exchange.  A value
// that is not known is named once, with the choices, and the default holds.

#ifndef DEVRT_ARRAYS_EXCHANGE_EXCHANGE_H_
#define DEVRT_ARRAYS_EXCHANGE_EXCHANGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "devrt/runtime/export.h"

namespace devrt {

enum class ExchangeError {
  kNone,          // not an error of an exchange
  kBuffer,        // memory, dtype or layout cannot be described or shared
  kCopyRequired,  // a copy would be needed, and copy is false
  kNotOffered,    // the array has no such protocol (Python's AttributeError)
};
DEVRT_EXPORT ExchangeError GetExchangeError(const absl::Status& status);

struct ExchangeSettings {
  // What is done for consumers' streams that devrt does not know, or that it
  // had adopted without an owner and whose Stream has ended, when they let
  // memory go (E8): an event on the device's default stream, which covers
  // blocking streams alone, nothing, or a wait for the whole device.
  enum class Release : uint8_t { kRecord, kTrust, kSync };

  bool strict = false;             // DEVRT_DLPACK_STRICT=1: stream 0 of CUDA
  bool managed_as_device = false;  // DEVRT_DLPACK_MANAGED=device
  Release release = Release::kRecord;  // DEVRT_DLPACK_RELEASE=record|trust|sync
  int cai_version = 3;                 // DEVRT_CAI_EXPORT_VERSION=2|3
  bool cai_sync = true;                // DEVRT_CAI_SYNC=0|1
  bool hip_cai = false;                // DEVRT_HIP_CAI=1
};
DEVRT_EXPORT ExchangeSettings GetExchangeSettings();
// For all threads, from the next exchange on.
DEVRT_EXPORT void SetExchangeSettings(const ExchangeSettings& settings);
// INVALID_ARGUMENT: a variable has a value that is not known; names all such,
// for who wants to refuse to start with them.
DEVRT_EXPORT absl::Status CheckExchangeEnvironment();

}  // namespace devrt

#endif  // DEVRT_ARRAYS_EXCHANGE_EXCHANGE_H_
