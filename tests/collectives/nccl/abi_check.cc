// SPDX-License-Identifier: Apache-2.0
//
// Assertions that collectives/nccl/abi.h agrees with a header of NCCL or RCCL;
// abi_test.py compiles them and says which header.
#include DEVRT_NCCL_HEADER

#include <cstddef>
#include <type_traits>

#include "collectives/nccl/abi.h"

namespace {

namespace abi = devrt::collectives::nccl;

static_assert(abi::kSuccess == ncclSuccess);
static_assert(abi::kUnhandledCudaError == ncclUnhandledCudaError);
static_assert(abi::kSystemError == ncclSystemError);
static_assert(abi::kInternalError == ncclInternalError);
static_assert(abi::kInvalidArgument == ncclInvalidArgument);
static_assert(abi::kInvalidUsage == ncclInvalidUsage);
static_assert(abi::kRemoteError == ncclRemoteError);
static_assert(abi::kInProgress == ncclInProgress);
static_assert(sizeof(abi::Result) == sizeof(ncclResult_t));

static_assert(abi::kInt8 == ncclInt8 && abi::kUint8 == ncclUint8);
static_assert(abi::kInt32 == ncclInt32 && abi::kUint32 == ncclUint32);
static_assert(abi::kInt64 == ncclInt64 && abi::kUint64 == ncclUint64);
static_assert(abi::kFloat16 == ncclFloat16 && abi::kFloat32 == ncclFloat32);
static_assert(abi::kFloat64 == ncclFloat64 && abi::kBfloat16 == ncclBfloat16);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
static_assert(abi::kFloat8E4m3 == ncclFloat8e4m3);
static_assert(abi::kFloat8E5m2 == ncclFloat8e5m2);
#endif
static_assert(sizeof(abi::DataType) == sizeof(ncclDataType_t));

static_assert(abi::kSum == ncclSum && abi::kProd == ncclProd);
static_assert(abi::kMax == ncclMax && abi::kMin == ncclMin);
static_assert(abi::kAvg == ncclAvg);
static_assert(sizeof(abi::Reduction) == sizeof(ncclRedOp_t));

static_assert(abi::kOldestVersion == NCCL_VERSION(2, 19, 0));
static_assert(abi::kConfigVersion == NCCL_VERSION(2, 27, 0));
static_assert(abi::kUndefined == NCCL_CONFIG_UNDEF_INT);
static_assert(abi::kNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(sizeof(abi::UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(abi::Config) <= sizeof(ncclConfig_t) ||
              NCCL_VERSION_CODE < NCCL_VERSION(2, 27, 0));

#define DEVRT_MEMBER(ours, theirs)                    \
  static_assert(offsetof(abi::Config, ours) ==        \
                    offsetof(ncclConfig_t, theirs) && \
                sizeof(abi::Config::ours) == sizeof(ncclConfig_t::theirs))
DEVRT_MEMBER(size, size);
DEVRT_MEMBER(magic, magic);
DEVRT_MEMBER(version, version);
DEVRT_MEMBER(blocking, blocking);
DEVRT_MEMBER(cga_cluster_size, cgaClusterSize);
DEVRT_MEMBER(min_ctas, minCTAs);
DEVRT_MEMBER(max_ctas, maxCTAs);
DEVRT_MEMBER(net_name, netName);
DEVRT_MEMBER(split_share, splitShare);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
DEVRT_MEMBER(traffic_class, trafficClass);
DEVRT_MEMBER(comm_name, commName);
static_assert(abi::kShrinkAbort == NCCL_SHRINK_ABORT);
#endif
#ifdef NCCL_API_MAGIC
static_assert(abi::kConfigMagic == NCCL_API_MAGIC);
#endif
#ifdef NCCL_REVOKE_DEFAULT
static_assert(abi::kRevokeFlags == NCCL_REVOKE_DEFAULT);
#endif

// A function is alike if each parameter is passed in the same way: pointers as
// pointers, numbers and enumerations with their size, structs with theirs.
template <typename A, typename B>
constexpr bool kAlike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> ==
                                  std::is_pointer_v<B>&& std::is_class_v<A> ==
                                  std::is_class_v<B>;
template <typename A, typename B>
struct Compare : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct Compare<R (*)(A...), S (*)(B...)> {
  static constexpr bool Values() {
    if constexpr (sizeof...(A) != sizeof...(B)) {
      return false;
    } else {
      return kAlike<R, S> && (kAlike<A, B> && ...);
    }
  }
  static constexpr bool value = Values();
};
#define DEVRT_FUNCTION(member, name)                      \
  static_assert(Compare<decltype(abi::Functions::member), \
                        std::add_pointer_t<decltype(::name)>>::value)
DEVRT_FUNCTION(get_version, ncclGetVersion);
DEVRT_FUNCTION(get_error_string, ncclGetErrorString);
DEVRT_FUNCTION(get_last_error, ncclGetLastError);
DEVRT_FUNCTION(get_unique_id, ncclGetUniqueId);
DEVRT_FUNCTION(comm_init_rank_config, ncclCommInitRankConfig);
DEVRT_FUNCTION(comm_get_async_error, ncclCommGetAsyncError);
DEVRT_FUNCTION(comm_count, ncclCommCount);
DEVRT_FUNCTION(comm_user_rank, ncclCommUserRank);
DEVRT_FUNCTION(comm_split, ncclCommSplit);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
DEVRT_FUNCTION(comm_shrink, ncclCommShrink);
#endif
#ifdef NCCL_REVOKE_DEFAULT
DEVRT_FUNCTION(comm_revoke, ncclCommRevoke);
#endif
DEVRT_FUNCTION(comm_finalize, ncclCommFinalize);
DEVRT_FUNCTION(comm_destroy, ncclCommDestroy);
DEVRT_FUNCTION(comm_abort, ncclCommAbort);
DEVRT_FUNCTION(comm_register, ncclCommRegister);
DEVRT_FUNCTION(comm_deregister, ncclCommDeregister);
DEVRT_FUNCTION(group_start, ncclGroupStart);
DEVRT_FUNCTION(group_end, ncclGroupEnd);
DEVRT_FUNCTION(all_reduce, ncclAllReduce);
DEVRT_FUNCTION(reduce, ncclReduce);
DEVRT_FUNCTION(broadcast, ncclBroadcast);
DEVRT_FUNCTION(all_gather, ncclAllGather);
DEVRT_FUNCTION(reduce_scatter, ncclReduceScatter);
#ifdef RCCL_GATHER_SCATTER
DEVRT_FUNCTION(all_to_all, ncclAllToAll);
#elif NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
DEVRT_FUNCTION(all_to_all, ncclAlltoAll);
#endif
#if defined(RCCL_GATHER_SCATTER) || NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
DEVRT_FUNCTION(gather, ncclGather);
DEVRT_FUNCTION(scatter, ncclScatter);
#endif
DEVRT_FUNCTION(send, ncclSend);
DEVRT_FUNCTION(recv, ncclRecv);

}  // namespace
