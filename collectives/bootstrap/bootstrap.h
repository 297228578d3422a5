// SPDX-License-Identifier: Apache-2.0
//
// Bootstrap: bytes between ranks, before there is a communicator.
//
//   // In each of 8 processes that one launcher started, with its own rank:
//   DEVRT_ASSIGN_OR_RETURN(
//       std::unique_ptr<devrt::collectives::Bootstrap> bootstrap,
//       devrt::collectives::FromFile("/shared/me/job-17", rank, 8, "job-17"));
//   DEVRT_ASSIGN_OR_RETURN(
//       auto communicator,
//       devrt::collectives::Communicator::Create(device, *bootstrap));
//
// Communicator::Create exchanges a few hundred bytes over it: versions, devices
// and the id of the communicator.  Whoever reads the id can join, and devrt
// does not encrypt it: give ranks a channel that only they read.  By a second
// exchange each rank tells the others that it can go on, or why it cannot.  A
// rank that cannot go on does so by GiveUp, and does not wait for late ranks.
//
// What it is not: a network.  devrt has no server of its own; ranks of several
// machines need a shared file system, a launcher, or functions of the program.
//
// A bootstrap serves any number of communicators, one behind the other.  All
// ranks make the same calls in the same order.  After an error they may be out
// of step: end the bootstrap, and make another one.
//
// Threads: one at a time for each object.  Every wait ends at its deadline.
// Errors: DEADLINE_EXCEEDED with the ranks that did not come;
// FAILED_PRECONDITION for bytes that another job or another version wrote;
// DATA_LOSS for bytes that are damaged.

#ifndef DEVRT_COLLECTIVES_BOOTSTRAP_BOOTSTRAP_H_
#define DEVRT_COLLECTIVES_BOOTSTRAP_BOOTSTRAP_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "devrt/runtime/export.h"

namespace devrt::collectives {

// The bytes of each rank reach all ranks.  Programs may derive from it.
class DEVRT_EXPORT Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  // The number of this rank, and how many there are:
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Returns what each rank gave, by rank.  Collective.
  virtual absl::StatusOr<std::vector<std::string>> AllGather(
      std::string mine, absl::Time deadline) = 0;
  // Gives all ranks the bytes of the root.  Collective; the bytes of the others
  // do not count.  By AllGather, unless a class has a cheaper way:
  virtual absl::Status Broadcast(std::string* bytes, int root,
                                 absl::Time deadline);
  // In the place of AllGather, for a rank that cannot go on: the others get its
  // bytes, and this rank none.  So that nobody waits for a late rank, AllGather
  // of the others may return at once: then the bytes of ranks that have not
  // come are empty.  A rank that comes later gets the bytes, too.  Without a
  // class's own way this is AllGather, with a second for the others to come:
  virtual void GiveUp(std::string mine, absl::Time deadline);
  // [any thread, also beside AllGather] A store, for Options::exchange_records:
  // what a rank puts under a name, once, each rank can get.  Get waits for it;
  // nullopt: it has not come by the deadline.  UNIMPLEMENTED where nothing
  // keeps the bytes, as in an MPI communicator:
  virtual absl::Status Put(std::string_view name, std::string bytes);
  virtual absl::StatusOr<std::optional<std::string>> Get(std::string_view name,
                                                         int rank,
                                                         absl::Time deadline);
};

// For ranks that are threads of one process: one object for each.
// INVALID_ARGUMENT for a size below 1.
DEVRT_EXPORT absl::StatusOr<std::vector<std::unique_ptr<Bootstrap>>>
FromThreads(int size);

// For ranks that share a folder.  Each rank writes one file for each exchange,
// and reads those of the others.  The first rank makes the folder, with the
// mode 0700, if it is missing.  The last bootstrap that ends removes the files;
// those of a run that was killed stay.
//
// After an error, the ranks may try again with the same folder and job.  Files
// of the earlier attempt are never taken for those of the new one: FromFile
// waits up to a second until all ranks of the earlier attempt have ended.
//
// `job` names the run, at most 200 bytes: a file with another name is refused,
// so that what an earlier run left is not taken for this one's.
//   INVALID_ARGUMENT     a relative path, a rank outside of [0, size), a long
//                        or empty name
//   NOT_FOUND            the folder that this one lies in
//   PERMISSION_DENIED    the folder belongs to somebody else, others may write
//                        or read there, or it is a link
//   ALREADY_EXISTS       another process has this rank, an earlier attempt has
//                        not ended in all its ranks, or a run that was killed
//                        has left its files; the text names its job
DEVRT_EXPORT absl::StatusOr<std::unique_ptr<Bootstrap>> FromFile(
    std::string_view folder, int rank, int size, std::string_view job);

// Functions of the program, over whatever connects its processes.
struct BootstrapCallbacks {
  int rank = 0;
  int size = 1;
  // As Bootstrap::AllGather.
  std::function<absl::StatusOr<std::vector<std::string>>(std::string mine,
                                                         absl::Time deadline)>
      all_gather;
  // As Bootstrap::GiveUp; without it all_gather is called:
  std::function<void(std::string mine, absl::Time deadline)> give_up;
  // As Bootstrap::Put and Get; both or neither:
  std::function<absl::Status(std::string_view name, std::string bytes)> put;
  std::function<absl::StatusOr<std::optional<std::string>>(
      std::string_view name, int rank, absl::Time deadline)>
      get;
};
// INVALID_ARGUMENT without `all_gather`, or for a rank outside of [0, size).
DEVRT_EXPORT absl::StatusOr<std::unique_ptr<Bootstrap>> FromCallbacks(
    BootstrapCallbacks callbacks);

// For processes that a launcher with PMIx has started: Open MPI's mpiexec,
// PRRTE's prun, Slurm's srun --mpi=pmix.  The launcher's servers carry the
// bytes.  libpmix.so.2 is loaded by the first call, and is the program's own if
// it has one; MPI need not be initialized.  The process ends by exit or by the
// end of main, or the launcher takes it for dead and ends the job.
//   NOT_FOUND    no such launcher: PMIX_NAMESPACE or PMIX_RANK is not set
//   UNAVAILABLE  there is no libpmix.so.2, or the launcher does not answer
DEVRT_EXPORT absl::StatusOr<std::unique_ptr<Bootstrap>> FromPmix();

// The bootstrap that the environment describes: FromFile with
//   the folder  DEVRT_BOOTSTRAP_DIR
//   the job     DEVRT_BOOTSTRAP_JOB, or "default" if it is not set
//   the rank and the number of ranks, of the first pair whose rank is set:
//               RANK                  WORLD_SIZE
//               OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE
//               PMI_RANK              PMI_SIZE
//               SLURM_PROCID          SLURM_NTASKS
// or FromPmix, if there is PMIX_RANK and no folder.  An empty variable is not
// set.
//   NOT_FOUND         none of this; the text lists what was looked for
//   INVALID_ARGUMENT  names a variable that is no number
// Else as FromFile and FromPmix.
DEVRT_EXPORT absl::StatusOr<std::unique_ptr<Bootstrap>> FromEnvironment();

}  // namespace devrt::collectives

#endif  // DEVRT_COLLECTIVES_BOOTSTRAP_BOOTSTRAP_H_
