// SPDX-License-Identifier: Apache-2.0
//
// The part of the binary interface of NCCL and RCCL that devrt uses.  RCCL has
// NCCL's interface: functions, numbers and structs are alike, streams are
// pointers.  No header of either is needed to build devrt, and one build works
// with every version from kOldestVersion on.
//
// tests/collectives/nccl/abi_test.py compares this file with an installed
// nccl.h, by abi_check.cc.

#ifndef DEVRT_COLLECTIVES_NCCL_ABI_H_
#define DEVRT_COLLECTIVES_NCCL_ABI_H_

#include <climits>
#include <cstddef>

namespace devrt::collectives::nccl {

// The numbers of ncclResult_t.
using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kUnhandledCudaError = 1;
inline constexpr Result kSystemError = 2;
inline constexpr Result kInternalError = 3;
inline constexpr Result kInvalidArgument = 4;
inline constexpr Result kInvalidUsage = 5;
inline constexpr Result kRemoteError = 6;
inline constexpr Result kInProgress = 7;  // of communicators that do not block
inline constexpr Result kTimeout = 8;     // since 2.32

// The numbers of ncclDataType_t.
using DataType = int;
inline constexpr DataType kInt8 = 0;
inline constexpr DataType kUint8 = 1;
inline constexpr DataType kInt32 = 2;
inline constexpr DataType kUint32 = 3;
inline constexpr DataType kInt64 = 4;
inline constexpr DataType kUint64 = 5;
inline constexpr DataType kFloat16 = 6;
inline constexpr DataType kFloat32 = 7;
inline constexpr DataType kFloat64 = 8;
inline constexpr DataType kBfloat16 = 9;
inline constexpr DataType kFloat8E4m3 = 10;  // since 2.24
inline constexpr DataType kFloat8E5m2 = 11;  // since 2.24

// The numbers of ncclRedOp_t.
using Reduction = int;
inline constexpr Reduction kSum = 0;
inline constexpr Reduction kProd = 1;
inline constexpr Reduction kMax = 2;
inline constexpr Reduction kMin = 3;
inline constexpr Reduction kAvg = 4;

// A version as ncclGetVersion gives it: 22809 is 2.28.9.
inline constexpr int kOldestVersion = 21900;
inline constexpr int kFirstOfNextMajor = 30000;
// Several ranks may have one device.
inline constexpr int kSharedDeviceVersion = 23000;

using Comm = struct NativeComm*;
using Stream = void*;  // cudaStream_t, hipStream_t

struct UniqueId {
  char bytes[128];
};

inline constexpr int kUndefined = INT_MIN;
inline constexpr unsigned kConfigMagic = 0xcafebeef;
// Which members the library reads depends on the version: it takes its own
// default for members that came later.
inline constexpr unsigned kConfigVersion = 22700;
inline constexpr int kNoColor = -1;     // of a split
inline constexpr int kShrinkAbort = 1;  // ends what runs on the parent first
inline constexpr int kRevokeFlags = 0;

// ncclConfig_t as far as devrt sets it.  Later versions only append members,
// and take a shorter struct by its size.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = kConfigMagic;
  unsigned version = kConfigVersion;
  int blocking = 0;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  const char* comm_name = nullptr;
};

// The functions of a library.  entries.inc has their names, and says which may
// be missing, and so nullptr.
struct Functions {
  Result (*get_version)(int* version);
  const char* (*get_error_string)(Result result);
  const char* (*get_last_error)(Comm comm);
  Result (*get_unique_id)(UniqueId* id);
  Result (*comm_init_rank_config)(Comm* comm, int ranks, UniqueId id, int rank,
                                  Config* config);
  Result (*comm_get_async_error)(Comm comm, Result* error);
  Result (*comm_count)(Comm comm, int* ranks);
  Result (*comm_user_rank)(Comm comm, int* rank);
  Result (*comm_split)(Comm comm, int color, int key, Comm* child,
                       Config* config);
  Result (*comm_shrink)(Comm comm, int* gone, int count, Comm* child,
                        Config* config, int flags);
  Result (*comm_revoke)(Comm comm, int flags);
  Result (*comm_finalize)(Comm comm);
  Result (*comm_destroy)(Comm comm);
  Result (*comm_abort)(Comm comm);
  Result (*comm_register)(Comm comm, void* ptr, size_t size, void** handle);
  Result (*comm_deregister)(Comm comm, void* handle);
  Result (*group_start)();
  Result (*group_end)();
  Result (*all_reduce)(const void* src, void* dst, size_t count, DataType type,
                       Reduction reduction, Comm comm, Stream stream);
  Result (*reduce)(const void* src, void* dst, size_t count, DataType type,
                   Reduction reduction, int root, Comm comm, Stream stream);
  Result (*broadcast)(const void* src, void* dst, size_t count, DataType type,
                      int root, Comm comm, Stream stream);
  Result (*all_gather)(const void* src, void* dst, size_t count, DataType type,
                       Comm comm, Stream stream);
  Result (*reduce_scatter)(const void* src, void* dst, size_t count,
                           DataType type, Reduction reduction, Comm comm,
                           Stream stream);
  Result (*all_to_all)(const void* src, void* dst, size_t count, DataType type,
                       Comm comm, Stream stream);
  Result (*gather)(const void* src, void* dst, size_t count, DataType type,
                   int root, Comm comm, Stream stream);
  Result (*scatter)(const void* src, void* dst, size_t count, DataType type,
                    int root, Comm comm, Stream stream);
  Result (*send)(const void* src, size_t count, DataType type, int peer,
                 Comm comm, Stream stream);
  Result (*recv)(void* dst, size_t count, DataType type, int peer, Comm comm,
                 Stream stream);
};

}  // namespace devrt::collectives::nccl

#endif  // DEVRT_COLLECTIVES_NCCL_ABI_H_
