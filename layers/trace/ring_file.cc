// SPDX-License-Identifier: Apache-2.0
#include "layers/trace/ring_file.h"

#include <cstring>

#include "devrt/backends/abi/devrt_layer_helper.h"

namespace devrt::trace {

static_assert(layer::kCallCount < kFirstSpecial);

void InitHeader(FileHeader* header, uint64_t records, uint64_t start_ns) {
  header->version = kVersion;
  header->call_count = layer::kCallCount;
  header->max_rings = kMaxRings;
  header->ring_records = records;
  header->names_offset = kPage;
  header->names_size = kNamesSize;
  header->rings_offset = kPage + kNamesSize;
  header->start_ns = start_ns;
  std::memcpy(header->magic, kMagic, sizeof kMagic);
}

const char* CheckHeader(const FileHeader& header, uint64_t file_bytes) {
  if (file_bytes < kPage ||
      std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return "it is not a file of the trace layer";
  }
  if (header.version != kVersion || header.call_count != layer::kCallCount) {
    return "it was written by another version of devrt";
  }
  const bool fits =
      header.max_rings == kMaxRings && header.ring_records == kRingRecords &&
      header.names_offset == kPage && header.names_size == kNamesSize &&
      header.rings_offset == kPage + kNamesSize &&
      file_bytes >= FileBytes(header.ring_records);
  return fits ? nullptr : "its header is damaged";
}

}  // namespace devrt::trace
