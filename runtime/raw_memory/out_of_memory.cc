// SPDX-License-Identifier: Apache-2.0
#include "runtime/raw_memory/out_of_memory.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/common/text.h"

namespace devrt::internal {

namespace {

// What the program can do about the limit and about cached memory.
std::string Remedy(const OutOfMemoryInfo& info) {
  std::string text;
  if (info.allowed < info.total &&
      info.allocated + info.reserved_unallocated + info.segment >
          info.allowed) {
    text = " The limit leaves no room for that: SetMemoryFraction raises it.";
  }
  // For a request above the limit devrt has not emptied its caches.
  if (info.reserved_unallocated != 0 && info.segment <= info.allowed) {
    absl::StrAppend(
        &text,
        " The unallocated memory lies in segments that hold other blocks or "
        "that work still uses, so EmptyCache cannot give it back: free blocks "
        "(MemoryReport sums them up), or cut segments in another way "
        "(expandable_segments or max_split_size_mb in DEVRT_ALLOC_CONF).");
  }
  return text;
}

}  // namespace

std::string OutOfMemoryText(const DeviceRecord* device,
                            const OutOfMemoryInfo& info) {
  std::string text = absl::StrCat(absl::AsciiStrToUpper(device->backend->name),
                                  " out of memory. Tried to allocate ");
  if (info.requested >= kTooManyBytes) {
    absl::StrAppend(&text, "more than 1EB memory.");
    return text;
  }
  absl::StrAppend(&text, FormatBytes(info.requested), ".");
  if (info.total == 0) return text;
  // "GPU" for every backend, because programs search for this text.
  absl::StrAppend(&text, " GPU ", device->ordinal, " has a total capacity of ",
                  FormatBytes(info.total), " of which ", FormatBytes(info.free),
                  " is free.");
  if (info.segment == 0) return text;
  if (info.allowed < info.total) {
    absl::StrAppend(&text, " This process may reserve ",
                    FormatBytes(info.allowed), " of it (SetMemoryFraction).");
  }
  absl::StrAppend(&text, " The request needs ", FormatBytes(info.segment),
                  " in one piece; devrt holds ", FormatBytes(info.allocated),
                  " for the program and ",
                  FormatBytes(info.reserved_unallocated),
                  " more that is reserved but unallocated.", Remedy(info));
  return text;
}

absl::Status OutOfMemoryError(const DeviceRecord* device,
                              const OutOfMemoryInfo& info,
                              const absl::Status& native,
                              const absl::Status& gave_up) {
  std::string text = OutOfMemoryText(device, info);
  // Without figures (pinned memory, for example) the backend's text says more.
  if (info.total == 0 && !native.ok()) {
    absl::StrAppend(&text, " ", native.message());
  }
  if (!gave_up.ok()) {
    absl::StrAppend(&text, " Freed memory that work may still use was not ",
                    "waited for: ", gave_up.message());
  }
  absl::Status status = absl::ResourceExhaustedError(text);
  SetOutOfMemoryInfo(&status, info);
  ErrorInfo origin = GetErrorInfo(native).value_or(ErrorInfo());
  if (origin.device < 0) {
    origin.backend = device->backend->name;
    origin.device = static_cast<int>(device->ordinal);
  }
  SetErrorInfo(&status, origin);
  return status;
}

}  // namespace devrt::internal
