// SPDX-License-Identifier: Apache-2.0
//
// The file that the trace layer writes and `devrt trace` reads: rings of
// records in shared memory, so that records survive a crash of the process.
//
//   offset 0            FileHeader
//   names_offset        NUL-terminated texts; a name is an offset in there + 1
//   rings_offset        max_rings times RingHeader and ring_records Records
//
// The file is sparse: the first use of a ring allocates its memory.  Numbers
// have the byte order of this machine.  A reader of another version refuses the
// file.

#ifndef DEVRT_LAYERS_TRACE_RING_FILE_H_
#define DEVRT_LAYERS_TRACE_RING_FILE_H_

#include <atomic>
#include <cstdint>

namespace devrt::trace {

inline constexpr char kMagic[8] = {'D', 'E', 'V', 'R', 'T', 'T', 'R', 'C'};
inline constexpr uint32_t kVersion = 4;

// Values of Record::call that are not numbers of layer::CallId.
inline constexpr uint8_t kDeviceOp = 0xf0;    // an operation on a device
inline constexpr uint8_t kDependency = 0xf1;  // a wait of that operation
inline constexpr uint8_t kClock = 0xf2;       // source of a backend's times
inline constexpr uint8_t kSimulatorStream = 0xf3;  // a stream of the simulator
inline constexpr uint8_t kFirstSpecial = 0xf0;

// One call of a host thread, or one operation on a device.
struct Record {
  uint64_t begin_ns;  // on the backend's clock, see clock.h and kClock
  uint64_t end_ns;
  uint64_t stream;     // handle; kDeviceOp of a simulator: the stream's number
  uint64_t object;     // event or pointer; stream_create: the adopted native
                       // stream; kSimulatorStream: the stream's native handle;
                       // kDeviceOp: the operation's number
  uint64_t bytes;      // stream_create: the kind
  uint64_t total;      // memory calls: bytes of the device allocated now; calls
                       // that submit: the operation's number, 0 if unknown;
                       // kDeviceOp: time of the submission
  uint64_t name : 21;  // of the operation; kClock: "simulator" or "events";
                       // 0 if none
  uint64_t file : 21;  // of the CallSite; 0 if unknown
  uint64_t line : 22;  // from LineField
  uint32_t stream_number;  // from NumberField: the program's number for the
                           // stream of a call or kDeviceOp
  uint8_t call;            // layer::CallId or one of the above
  uint8_t backend;         // index in the header
  uint8_t device;          // ordinal; 0xff: the stream's device
  uint8_t status;  // devrt_code; kDeviceOp: DEVRT_SIM_*; kClock: 1 if the times
                   // are those of a simulator's virtual clock
};
static_assert(sizeof(Record) == 64);

// The value of Record::line; 0 if the line does not fit.
constexpr uint64_t LineField(int32_t line) {
  return line >= 0 && line < 1 << 22 ? static_cast<uint64_t>(line) : 0;
}
// The value of Record::stream_number: the result of devrt.stream_number/0, the
// stream's number plus 1.  1 is a default stream.  0: the number is unknown or
// does not fit.
constexpr uint32_t NumberField(uint64_t answer) {
  return answer <= UINT32_MAX ? static_cast<uint32_t>(answer) : 0;
}

// Each ring has one writer.  A reader may read `written` records at most.
struct RingHeader {
  std::atomic<uint64_t> written;  // in all; the ring holds the last ones
  uint32_t tid;                   // 0 for operations of devices
  uint32_t reserved;
  char thread_name[16];
};
static_assert(sizeof(RingHeader) == 32);

inline constexpr uint32_t kMaxBackends = 64;

// The reason why a record is missing.
enum class Loss : uint32_t {
  kNoSpace,   // the disk has no room for a ring
  kNoRing,    // all rings are in use by other threads
  kUnderWay,  // an operation with too many later ones under way
  kUntimed,   // an operation whose device reports no times
};
inline constexpr uint32_t kLosses = 4;

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t call_count;                 // layer::kCallCount of the writer
  std::atomic<uint32_t> pid;           // of the writing process; 0: none yet
  std::atomic<uint32_t> refused_pids;  // other processes that tried to write
  uint32_t max_rings;
  std::atomic<uint32_t> ring_count;
  uint64_t ring_records;
  uint64_t names_offset;
  uint64_t names_size;
  std::atomic<uint64_t> names_used;
  uint64_t rings_offset;
  uint64_t start_ns;  // CLOCK_MONOTONIC when the file was made
  std::atomic<uint64_t> lost[kLosses];  // by Loss
  std::atomic<uint64_t> reused;         // lost records of ended threads' rings
  std::atomic<uint32_t> backend_count;
  // The start of the process in clock ticks, because the system reuses pids; 0
  // if not known yet.
  std::atomic<uint64_t> pid_start;
  char backends[kMaxBackends][32];
};

inline constexpr uint64_t kNamesSize = 1u << 20;
inline constexpr uint32_t kMaxRings = 256;
inline constexpr uint64_t kRingRecords = 1u << 14;  // 1 MiB a thread
inline constexpr uint64_t kPage = 4096;

static_assert(sizeof(FileHeader) <= kPage);
static_assert(kNamesSize < 1u << 21);  // fits Record::name and Record::file

constexpr uint64_t RingBytes(uint64_t records) {
  return sizeof(RingHeader) + records * sizeof(Record);
}
constexpr uint64_t FileBytes(uint64_t records) {
  return kPage + kNamesSize + kMaxRings * RingBytes(records);
}

// Fills the header of an empty file of FileBytes(records) zero bytes.
void InitHeader(FileHeader* header, uint64_t records, uint64_t start_ns);
// What is wrong with the header; nullptr if this version can read it.
const char* CheckHeader(const FileHeader& header, uint64_t file_bytes);

inline uint64_t RingOffset(const FileHeader& header, uint32_t index) {
  return header.rings_offset + index * RingBytes(header.ring_records);
}
inline RingHeader* RingAt(FileHeader* header, uint32_t index) {
  return reinterpret_cast<RingHeader*>(reinterpret_cast<char*>(header) +
                                       RingOffset(*header, index));
}
inline Record* RecordsOf(RingHeader* ring) {
  return reinterpret_cast<Record*>(ring + 1);
}

}  // namespace devrt::trace

#endif  // DEVRT_LAYERS_TRACE_RING_FILE_H_
