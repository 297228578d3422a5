// SPDX-License-Identifier: Apache-2.0
//
// RegisterMpi: MPI as an engine for collectives, by the name "mpi".
//
//   #include <mpi.h>
//   #include "devrt/collectives/mpi_bootstrap.h"
//   #include "devrt/collectives/mpi_engine.h"
//
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
//   DEVRT_RETURN_IF_ERROR(devrt::collectives::RegisterMpi(MPI_COMM_WORLD));
//   DEVRT_ASSIGN_OR_RETURN(auto bootstrap,
//                          devrt::collectives::FromMpi(MPI_COMM_WORLD));
//   devrt::collectives::Options options;
//   options.provider = "mpi";
//   options.shared_device = true;      // ranks may have one device
//   auto rank = devrt::collectives::Communicator::Create(device, *bootstrap,
//                                                        options);
//
// The program compiles this header with its own mpi.h, because MPI libraries
// have no common ABI.  MPI knows no streams, so a submission waits until it is
// complete, and data passes through pinned memory (host_engine.h), also where
// the MPI library reads device memory.
//
// What MPI lacks: kAvg, float16, bfloat16, bool and float8 in reductions (they
// can be moved), more than 2^31 - 1 elements in one operation, and a way to end
// what it has started: after a failure MPI may still write to the pinned
// memory, which is kept until MPI has ended that.  Split waits inside of MPI
// when every rank has called it.
//
// MPI compares no operations.  If the counts of the ranks differ, MPI reports
// MPI_ERR_TRUNCATE to a rank that gets more than it asked for.  Another rank
// may have OK with wrong values, or wait until its time is over.
// Options::check_signatures tells every rank of the mismatch, and MPI does not
// begin.
//
// Open MPI 4 hands MPI_ERR_TRUNCATE to the error handler of MPI_COMM_WORLD,
// which ends the process.  devrt leaves the handler to the program.  With the
// next line the submission fails instead, and with it the communicator:
//   MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
//
// Ownership: communicators of MPI that all ranks have finished are freed unless
// MPI_Finalize was called before.  Those of others stay, as after a failure:
// MPI would give their messages that nobody has received to the next
// communicator with their number.  After MPI_Finalize a communicator refuses
// operations with FAILED_PRECONDITION.
// Threads: one at a time calls MPI unless MPI_THREAD_MULTIPLE is
// provided.

#ifndef DEVRT_COLLECTIVES_MPI_MPI_ENGINE_H_
#define DEVRT_COLLECTIVES_MPI_MPI_ENGINE_H_

#include <mpi.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/collectives/host_engine.h"
#include "devrt/collectives/mpi_bootstrap.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives {

namespace internal {

// MPI's type of a dtype; MPI_DATATYPE_NULL if MPI has none.
inline MPI_Datatype MpiTypeOf(uint32_t dtype) {
  switch (dtype) {
    case DEVRT_INT8:
      return MPI_INT8_T;
    case DEVRT_INT16:
      return MPI_INT16_T;
    case DEVRT_INT32:
      return MPI_INT32_T;
    case DEVRT_INT64:
      return MPI_INT64_T;
    case DEVRT_UINT8:
      return MPI_UINT8_T;
    case DEVRT_UINT16:
      return MPI_UINT16_T;
    case DEVRT_UINT32:
      return MPI_UINT32_T;
    case DEVRT_UINT64:
      return MPI_UINT64_T;
    case DEVRT_FLOAT32:
      return MPI_FLOAT;
    case DEVRT_FLOAT64:
      return MPI_DOUBLE;
    case DEVRT_COMPLEX64:
      return MPI_C_FLOAT_COMPLEX;
    case DEVRT_COMPLEX128:
      return MPI_C_DOUBLE_COMPLEX;
    default:
      return MPI_DATATYPE_NULL;
  }
}

// MPI's operator; MPI_OP_NULL if it has none.
inline MPI_Op MpiOpOf(uint32_t reduction) {
  switch (reduction) {
    case DEVRT_COLLECTIVE_SUM:
      return MPI_SUM;
    case DEVRT_COLLECTIVE_PROD:
      return MPI_PROD;
    case DEVRT_COLLECTIVE_MIN:
      return MPI_MIN;
    case DEVRT_COLLECTIVE_MAX:
      return MPI_MAX;
    default:
      return MPI_OP_NULL;
  }
}

inline bool IsMpiFinal() {
  int is_final = 0;
  MPI_Finalized(&is_final);
  return is_final != 0;
}

// Every call of MPI after MPI_Finalize ends the process.
inline absl::Status CheckNotFinal() {
  return IsMpiFinal() ? absl::FailedPreconditionError("MPI_Finalize was called")
                      : absl::OkStatus();
}

// What MPI writes to while it makes a communicator.
struct MpiMaking {
  // Returns true if MPI has ended it.
  absl::StatusOr<bool> IsOver() {
    DEVRT_RETURN_IF_ERROR(CheckNotFinal());
    int is_done = 0;
    DEVRT_RETURN_IF_ERROR(
        MpiStatus("MPI_Test", MPI_Test(&request, &is_done, MPI_STATUS_IGNORE)));
    return is_done != 0;
  }

  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  // Of a split: the parent, and color and key of this rank and of each rank.
  MPI_Comm parent = MPI_COMM_NULL;
  std::array<int, 2> own_wish{};
  std::vector<int> wishes;
};

// Keeps what MPI still writes to, and frees what it has ended since.
inline void KeepUntilOver(std::unique_ptr<MpiMaking> making) {
  static auto* const mutex = new std::mutex;
  static auto* const kept = new std::list<std::unique_ptr<MpiMaking>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  kept->push_back(std::move(making));
  kept->remove_if([](const std::unique_ptr<MpiMaking>& other) {
    const absl::StatusOr<bool> over = other->IsOver();
    if (!over.ok() || !*over) return false;
    if (other->comm != MPI_COMM_NULL) MPI_Comm_free(&other->comm);
    return true;
  });
}

// The place of one rank.
class MpiCommunicator final : public HostCommunicator {
 public:
  // A duplicate of `parent`, made while IsReady is asked.
  static absl::StatusOr<std::unique_ptr<HostCommunicator>> Duplicate(
      MPI_Comm parent) {
    std::unique_ptr<MpiCommunicator> made(new MpiCommunicator);
    made->making_ = std::make_unique<MpiMaking>();
    DEVRT_RETURN_IF_ERROR(MpiStatus(
        "MPI_Comm_idup",
        MPI_Comm_idup(parent, &made->making_->comm, &made->making_->request)));
    return made;
  }

  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;
  ~MpiCommunicator() override {
    if (making_ != nullptr) KeepUntilOver(std::move(making_));
    for (MPI_Request& request : end_requests_) {
      if (request != MPI_REQUEST_NULL && !IsMpiFinal()) {
        MPI_Request_free(&request);
      }
    }
    // No message is left where all ranks have finished it.
    if (is_finished_ && !IsMpiFinal()) MPI_Comm_free(&comm_);
  }

  HostPlace place() const override {
    return {static_cast<uint32_t>(rank_), static_cast<uint32_t>(size_)};
  }

  absl::StatusOr<bool> IsReady() override {
    if (making_ == nullptr) return true;
    DEVRT_ASSIGN_OR_RETURN(const bool is_over, making_->IsOver());
    if (!is_over) return false;
    const std::unique_ptr<MpiMaking> made = std::move(making_);
    if (made->parent != MPI_COMM_NULL) {
      DEVRT_RETURN_IF_ERROR(MakeChild(made.get()));
    }
    comm_ = made->comm;
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    return true;
  }

  absl::Status Start(const devrt_collective_v0& op) override {
    DEVRT_RETURN_IF_ERROR(CheckNotFinal());
    if (op.count > INT_MAX) {
      return absl::InvalidArgumentError(
          absl::StrCat("count is ", op.count, "; MPI takes at most ", INT_MAX));
    }
    requests_.push_back(MPI_REQUEST_NULL);
    return MpiStatus("MPI", Call(op, &requests_.back()));
  }

  absl::StatusOr<bool> Test() override {
    DEVRT_RETURN_IF_ERROR(CheckNotFinal());
    int is_done = 0;
    statuses_.resize(requests_.size());
    int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(),
                           &is_done, statuses_.data());
    if (code == MPI_ERR_IN_STATUS) {
      const auto failed = std::find_if(
          statuses_.begin(), statuses_.end(), [](const MPI_Status& one) {
            return one.MPI_ERROR != MPI_SUCCESS &&
                   one.MPI_ERROR != MPI_ERR_PENDING;
          });
      if (failed != statuses_.end()) code = failed->MPI_ERROR;
    }
    const absl::Status status = MpiStatus("MPI_Testall", code);
    if (!status.ok()) {
      return absl::Status(
          status.code(),
          absl::StrCat(status.message(),
                       ": if the operations of the ranks differ, "
                       "Options::check_signatures names the ranks"));
    }
    if (is_done != 0) requests_.clear();
    return is_done != 0;
  }

  absl::StatusOr<std::unique_ptr<HostCommunicator>> Split(int color,
                                                          int key) override {
    DEVRT_RETURN_IF_ERROR(CheckNotFinal());
    auto making = std::make_unique<MpiMaking>();
    making->parent = comm_;
    making->own_wish = {color, key};
    making->wishes.resize(2 * size_);
    DEVRT_RETURN_IF_ERROR(MpiStatus(
        "MPI_Iallgather", MPI_Iallgather(making->own_wish.data(), 2, MPI_INT,
                                         making->wishes.data(), 2, MPI_INT,
                                         comm_, &making->request)));
    if (color < 0) {
      // The others need this rank's wish, and the rank has no child to ask.
      KeepUntilOver(std::move(making));
      return nullptr;
    }
    std::unique_ptr<MpiCommunicator> child(new MpiCommunicator);
    child->making_ = std::move(making);
    return child;
  }

  // All ranks tell rank 0 that they have come, and it tells all: by messages,
  // because a collective would meet one of a rank that has not come.
  absl::StatusOr<bool> Finish() override {
    DEVRT_RETURN_IF_ERROR(CheckNotFinal());
    const int steps = rank_ == 0 ? 2 : 1;
    for (int step = end_steps_; step <= steps; ++step) {
      int is_done = 0;
      DEVRT_RETURN_IF_ERROR(MpiStatus(
          "MPI_Testall",
          MPI_Testall(static_cast<int>(end_requests_.size()),
                      end_requests_.data(), &is_done, MPI_STATUSES_IGNORE)));
      if (is_done == 0) return false;
      if (end_steps_ == steps) break;
      DEVRT_RETURN_IF_ERROR(MpiStatus("MPI", NextStepToEnd()));
    }
    is_finished_ = true;
    return true;
  }

 private:
  MpiCommunicator() = default;

  int NextStepToEnd() {
    ++end_steps_;
    end_requests_.clear();
    const auto exchange = [this](int peer, bool sends) {
      end_requests_.push_back(MPI_REQUEST_NULL);
      MPI_Request* const request = &end_requests_.back();
      return sends ? MPI_Isend(nullptr, 0, MPI_BYTE, peer, kEndTag, comm_,
                               request)
                   : MPI_Irecv(nullptr, 0, MPI_BYTE, peer, kEndTag, comm_,
                               request);
    };
    int result = MPI_SUCCESS;
    if (rank_ != 0) {
      result = exchange(0, /*sends=*/true);
      return result == MPI_SUCCESS ? exchange(0, /*sends=*/false) : result;
    }
    for (int peer = 1; peer < size_ && result == MPI_SUCCESS; ++peer) {
      result = exchange(peer, /*sends=*/end_steps_ == 2);
    }
    return result;
  }

  // The communicator of the ranks that wished for this color.  Groups of
  // different colors have no rank in common, so that one tag serves all.
  static absl::Status MakeChild(MpiMaking* making) {
    const std::vector<int>& wishes = making->wishes;
    std::vector<std::pair<int, int>> members;  // key, rank of the parent
    for (int i = 0; i < static_cast<int>(wishes.size() / 2); ++i) {
      if (wishes[2 * i] == making->own_wish[0]) {
        members.emplace_back(wishes[2 * i + 1], i);
      }
    }
    std::sort(members.begin(), members.end());
    std::vector<int> ranks;
    for (const auto& [key, rank] : members) ranks.push_back(rank);
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm_group(making->parent, &all);
    MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &group);
    const int made =
        MPI_Comm_create_group(making->parent, group, 0, &making->comm);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    return MpiStatus("MPI_Comm_create_group", made);
  }

  int Call(const devrt_collective_v0& op, MPI_Request* request) const {
    const int count = static_cast<int>(op.count);
    const int root = op.root_or_peer;
    const MPI_Datatype type = MpiTypeOf(op.dtype);
    const MPI_Op reduction = MpiOpOf(op.reduction);
    switch (op.op) {
      case DEVRT_COLLECTIVE_ALL_REDUCE:
        return MPI_Iallreduce(op.src, op.dst, count, type, reduction, comm_,
                              request);
      case DEVRT_COLLECTIVE_REDUCE:
        return MPI_Ireduce(op.src, op.dst, count, type, reduction, root, comm_,
                           request);
      case DEVRT_COLLECTIVE_REDUCE_SCATTER:
        return MPI_Ireduce_scatter_block(op.src, op.dst, count, type, reduction,
                                         comm_, request);
      default:
        return Move(op, count, request);
    }
  }

  int Move(const devrt_collective_v0& op, int count,
           MPI_Request* request) const {
    const int size = static_cast<int>(op.dtype & 0xff) / 8;
    MPI_Datatype element = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(size, MPI_BYTE, &element);
    MPI_Type_commit(&element);
    const int result = MoveElements(op, count, element, request);
    MPI_Type_free(&element);  // when the operation has ended
    return result;
  }

  int MoveElements(const devrt_collective_v0& op, int count,
                   MPI_Datatype element, MPI_Request* request) const {
    const int root = op.root_or_peer;
    switch (op.op) {
      case DEVRT_COLLECTIVE_BROADCAST:
        if (rank_ == root && count != 0) {
          std::memcpy(op.dst, op.src,
                      static_cast<size_t>(count) * (op.dtype & 0xff) / 8);
        }
        return MPI_Ibcast(op.dst, count, element, root, comm_, request);
      case DEVRT_COLLECTIVE_ALL_GATHER:
        return MPI_Iallgather(op.src, count, element, op.dst, count, element,
                              comm_, request);
      case DEVRT_COLLECTIVE_ALL_TO_ALL:
        return MPI_Ialltoall(op.src, count, element, op.dst, count, element,
                             comm_, request);
      case DEVRT_COLLECTIVE_GATHER:
        return MPI_Igather(op.src, count, element, op.dst, count, element, root,
                           comm_, request);
      case DEVRT_COLLECTIVE_SCATTER:
        return MPI_Iscatter(op.src, count, element, op.dst, count, element,
                            root, comm_, request);
      case DEVRT_COLLECTIVE_SEND:
        return MPI_Isend(op.src, count, element, root, kTag, comm_, request);
      default:
        return MPI_Irecv(op.dst, count, element, root, kTag, comm_, request);
    }
  }

  static constexpr int kTag = 1;
  static constexpr int kEndTag = 2;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;       // of requests_
  std::vector<MPI_Request> end_requests_;  // of Finish
  int end_steps_ = 0;
  bool is_finished_ = false;
  std::unique_ptr<MpiMaking> making_;  // nullptr: it is made
};

// Makes communicators of the ranks of one communicator of MPI.
class MpiEngine final : public HostEngine {
 public:
  explicit MpiEngine(MPI_Comm comm) : comm_(comm) {}

  std::string name() const override { return "mpi"; }
  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int size = 0;
    MPI_Get_library_version(text, &size);
    const std::string all(text, size);
    return all.substr(0, all.find_first_of(",\n"));
  }
  bool Supports(uint32_t op, uint32_t dtype,
                uint32_t reduction) const override {
    if (op >= DEVRT_COLLECTIVE_COUNT) return false;
    if (op != DEVRT_COLLECTIVE_ALL_REDUCE && op != DEVRT_COLLECTIVE_REDUCE &&
        op != DEVRT_COLLECTIVE_REDUCE_SCATTER) {
      return true;
    }
    const bool is_complex =
        dtype == DEVRT_COMPLEX64 || dtype == DEVRT_COMPLEX128;
    return MpiTypeOf(dtype) != MPI_DATATYPE_NULL &&
           MpiOpOf(reduction) != MPI_OP_NULL &&
           (!is_complex || reduction == DEVRT_COLLECTIVE_SUM ||
            reduction == DEVRT_COLLECTIVE_PROD);
  }
  absl::StatusOr<std::unique_ptr<HostCommunicator>> Begin(
      uint32_t ranks, uint32_t rank) override {
    DEVRT_RETURN_IF_ERROR(CheckNotFinal());
    int own_rank = 0;
    int own_ranks = 0;
    MPI_Comm_rank(comm_, &own_rank);
    MPI_Comm_size(comm_, &own_ranks);
    if (static_cast<int>(ranks) != own_ranks ||
        static_cast<int>(rank) != own_rank) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the bootstrap has rank ", rank, " of ", ranks,
          ", and the MPI communicator of RegisterMpi has rank ", own_rank,
          " of ", own_ranks, ": use FromMpi with that communicator"));
    }
    return MpiCommunicator::Duplicate(comm_);
  }

 private:
  const MPI_Comm comm_;
};

}  // namespace internal

// Makes MPI the engine "mpi" of this process.  Communicators have the ranks of
// `comm`, which must not be freed.  FAILED_PRECONDITION before MPI_Init and
// after MPI_Finalize; ALREADY_EXISTS for the second call.
inline absl::Status RegisterMpi(MPI_Comm comm) {
  int is_ready = 0;
  MPI_Initialized(&is_ready);
  if (is_ready == 0 || internal::IsMpiFinal()) {
    return absl::FailedPreconditionError(
        "RegisterMpi: call it between MPI_Init and MPI_Finalize");
  }
  return RegisterEngine(std::make_unique<internal::MpiEngine>(comm));
}

}  // namespace devrt::collectives

#endif  // DEVRT_COLLECTIVES_MPI_MPI_ENGINE_H_
