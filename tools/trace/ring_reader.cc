// SPDX-License-Identifier: Apache-2.0
#include "tools/trace/ring_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace devrt::tools {
namespace {

using trace::FileHeader;
using trace::Record;
using trace::RingHeader;

// Reads, and maps nothing: access to a hole of a full disk, or behind the end
// of a file that was truncated, would end the process.
bool ReadAt(int fd, uint64_t offset, void* to, uint64_t size) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t n = pread(fd, at, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    offset += static_cast<uint64_t>(n);
    size -= static_cast<uint64_t>(n);
  }
  return true;
}

bool ReadRing(int fd, const FileHeader& header, uint32_t index,
              TraceData* data) {
  const uint64_t offset = trace::RingOffset(header, index);
  RingHeader ring;
  if (!ReadAt(fd, offset, &ring, sizeof ring)) return false;
  const uint64_t written = ring.written.load();
  const uint64_t size = header.ring_records;
  const uint64_t kept = std::min(written, size);
  data->overwritten += written - kept;
  std::vector<Record> records(kept);
  if (!ReadAt(fd, offset + sizeof ring, records.data(),
              kept * sizeof(Record))) {
    return false;
  }
  // Put the oldest record first.
  const auto oldest =
      static_cast<ptrdiff_t>(written > size ? written % size : 0);
  std::rotate(records.begin(), records.begin() + oldest, records.end());
  if (ring.tid == 0) {
    data->device.insert(data->device.end(), records.begin(), records.end());
    return true;
  }
  TraceThread thread;
  thread.tid = ring.tid;
  thread.name.assign(ring.thread_name,
                     strnlen(ring.thread_name, sizeof ring.thread_name));
  thread.calls = std::move(records);
  data->threads.push_back(std::move(thread));
  return true;
}

}  // namespace

std::string TraceData::Name(uint32_t number) const {
  if (number == 0 || number > names.size()) return std::string();
  return std::string(names.c_str() + number - 1);
}

uint64_t TraceData::Lost() const {
  return std::accumulate(std::begin(lost), std::end(lost), uint64_t{0});
}

absl::StatusOr<TraceData> ReadTrace(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("it cannot be examined: ", std::strerror(errno)));
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (S_ISREG(info.st_mode) && size == 0) return TraceData();  // no records
  if (!S_ISREG(info.st_mode) || size < trace::kPage) {
    return absl::InvalidArgumentError("it is not a file of the trace layer");
  }
  const absl::Status cut = absl::DataLossError("it cannot be read to its end");
  FileHeader header;
  if (!ReadAt(fd, 0, &header, sizeof header)) return cut;
  if (const char* const why = trace::CheckHeader(header, size)) {
    return absl::InvalidArgumentError(why);
  }
  TraceData data;
  data.pid = header.pid.load();
  data.refused_processes = header.refused_pids.load();
  data.start_ns = header.start_ns;
  data.overwritten = header.reused.load();
  for (uint32_t i = 0; i < trace::kLosses; ++i) {
    data.lost[i] = header.lost[i].load();
  }
  data.names.resize(std::min(header.names_used.load(), header.names_size));
  if (!ReadAt(fd, header.names_offset, data.names.data(), data.names.size())) {
    return cut;
  }
  for (uint32_t i = 0;
       i < std::min(header.backend_count.load(), trace::kMaxBackends); ++i) {
    data.backends.emplace_back(
        header.backends[i],
        strnlen(header.backends[i], sizeof header.backends[i]));
  }
  const uint32_t rings = std::min(header.ring_count.load(), header.max_rings);
  for (uint32_t i = 0; i < rings; ++i) {
    if (!ReadRing(fd, header, i, &data)) return cut;
  }
  return data;
}

}  // namespace devrt::tools
