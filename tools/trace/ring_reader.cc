// SPDX-License-Identifier: Apache-2.0
#include "tools/trace/ring_reader.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <numeric>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace devrt::tools {
namespace {

using trace::FileHeader;
using trace::Record;
using trace::RingHeader;

void ReadRing(FileHeader* header, uint32_t index, TraceData* data) {
  RingHeader* const ring = trace::RingAt(header, index);
  const uint64_t written = ring->written.load(std::memory_order_acquire);
  const uint64_t kept = std::min(written, header->ring_records);
  data->overwritten += written - kept;
  TraceThread thread;
  thread.tid = ring->tid;
  thread.name.assign(ring->thread_name,
                     strnlen(ring->thread_name, sizeof ring->thread_name));
  std::vector<Record>* const to =
      ring->tid == 0 ? &data->device : &thread.calls;
  const Record* const records = trace::RecordsOf(ring);
  to->reserve(to->size() + kept);
  for (uint64_t i = written - kept; i < written; ++i) {
    to->push_back(records[i % header->ring_records]);
  }
  if (ring->tid != 0) data->threads.push_back(std::move(thread));
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
  if (S_ISREG(info.st_mode) && size == 0) return TraceData();  // nobody wrote
  if (!S_ISREG(info.st_mode) || size < trace::kPage) {
    return absl::InvalidArgumentError("it is not a file of the trace layer");
  }
  void* const at = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    return absl::InvalidArgumentError(
        absl::StrCat("it cannot be mapped: ", std::strerror(errno)));
  }
  const auto unmap = absl::MakeCleanup([=] { munmap(at, size); });
  auto* const header = static_cast<FileHeader*>(at);
  if (const char* const why = trace::CheckHeader(*header, size)) {
    return absl::InvalidArgumentError(why);
  }
  TraceData data;
  data.pid = header->pid.load();
  data.refused_processes = header->refused_pids.load();
  data.start_ns = header->start_ns;
  for (uint32_t i = 0; i < trace::kLosses; ++i) {
    data.lost[i] = header->lost[i].load();
  }
  data.names.assign(static_cast<const char*>(at) + header->names_offset,
                    std::min(header->names_used.load(), header->names_size));
  for (uint32_t i = 0;
       i < std::min(header->backend_count.load(), trace::kMaxBackends); ++i) {
    data.backends.emplace_back(
        header->backends[i],
        strnlen(header->backends[i], sizeof header->backends[i]));
  }
  const uint32_t rings = std::min(header->ring_count.load(), header->max_rings);
  for (uint32_t i = 0; i < rings; ++i) ReadRing(header, i, &data);
  return data;
}

}  // namespace devrt::tools
