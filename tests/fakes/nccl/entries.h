// SPDX-License-Identifier: Apache-2.0
//
// The functions that the fake exports, as collectives/nccl/abi.h has them.

#ifndef DEVRT_TESTS_FAKES_NCCL_ENTRIES_H_
#define DEVRT_TESTS_FAKES_NCCL_ENTRIES_H_

#include <type_traits>

#include "collectives/nccl/abi.h"
#include "tests/fakes/nccl/world.h"

#define DEVRT_NCCL_ENTRY(member, symbol, required) \
  std::remove_pointer_t<decltype(devrt::collectives::nccl::Functions::member)>
extern "C" {
DEVRT_NCCL_ENTRY(get_version, , ) ncclGetVersion;
DEVRT_NCCL_ENTRY(get_error_string, , ) ncclGetErrorString;
DEVRT_NCCL_ENTRY(get_last_error, , ) ncclGetLastError;
DEVRT_NCCL_ENTRY(get_unique_id, , ) ncclGetUniqueId;
DEVRT_NCCL_ENTRY(comm_init_rank_config, , ) ncclCommInitRankConfig;
DEVRT_NCCL_ENTRY(comm_get_async_error, , ) ncclCommGetAsyncError;
DEVRT_NCCL_ENTRY(comm_count, , ) ncclCommCount;
DEVRT_NCCL_ENTRY(comm_user_rank, , ) ncclCommUserRank;
DEVRT_NCCL_ENTRY(comm_split, , ) ncclCommSplit;
DEVRT_NCCL_ENTRY(comm_shrink, , ) ncclCommShrink;
DEVRT_NCCL_ENTRY(comm_revoke, , ) ncclCommRevoke;
DEVRT_NCCL_ENTRY(comm_finalize, , ) ncclCommFinalize;
DEVRT_NCCL_ENTRY(comm_destroy, , ) ncclCommDestroy;
DEVRT_NCCL_ENTRY(comm_abort, , ) ncclCommAbort;
DEVRT_NCCL_ENTRY(comm_register, , ) ncclCommRegister;
DEVRT_NCCL_ENTRY(comm_deregister, , ) ncclCommDeregister;
DEVRT_NCCL_ENTRY(group_start, , ) ncclGroupStart;
DEVRT_NCCL_ENTRY(group_end, , ) ncclGroupEnd;
DEVRT_NCCL_ENTRY(all_reduce, , ) ncclAllReduce;
DEVRT_NCCL_ENTRY(reduce, , ) ncclReduce;
DEVRT_NCCL_ENTRY(broadcast, , ) ncclBroadcast;
DEVRT_NCCL_ENTRY(all_gather, , ) ncclAllGather;
DEVRT_NCCL_ENTRY(reduce_scatter, , ) ncclReduceScatter;
DEVRT_NCCL_ENTRY(all_to_all, , ) ncclAlltoAll;
DEVRT_NCCL_ENTRY(all_to_all, , ) ncclAllToAll;  // RCCL's name
DEVRT_NCCL_ENTRY(gather, , ) ncclGather;
DEVRT_NCCL_ENTRY(scatter, , ) ncclScatter;
DEVRT_NCCL_ENTRY(send, , ) ncclSend;
DEVRT_NCCL_ENTRY(recv, , ) ncclRecv;
}
#undef DEVRT_NCCL_ENTRY

namespace devrt::fake::nccl {

// Adds an operation to the group of the thread; without one, submits it.
Result Add(const char* name, collectives::nccl::Comm comm, const Op& op);

}  // namespace devrt::fake::nccl

#endif  // DEVRT_TESTS_FAKES_NCCL_ENTRIES_H_
