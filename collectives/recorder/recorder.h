// SPDX-License-Identifier: Apache-2.0
//
// The recorder: which operation each rank has come to, for the search of a job
// that hangs.
//
//   // All ranks ran with DEVRT_COLLECTIVES_RECORD=/scratch/me/job.
//   // Afterwards, or while they hang, in another program:
//   DEVRT_ASSIGN_OR_RETURN(std::string text,
//                          devrt::collectives::Report("/scratch/me/job"));
//   std::cout << text;
//
// Each communicator records its newest 4,096 calls, always.  With the variable
// DEVRT_COLLECTIVES_RECORD, an absolute path of a folder, the records of each
// rank lie in a file of 320 KiB there, which also survives SIGKILL.  Without it
// they are memory of the process (Communicator::Records).
//
// Threads: any.

#ifndef DEVRT_COLLECTIVES_RECORDER_RECORDER_H_
#define DEVRT_COLLECTIVES_RECORDER_RECORDER_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "devrt/runtime/export.h"

namespace devrt::collectives {

// Aligns the ranks' files in a folder by the numbers of the collectives, and
// says for each communicator where the ranks first differ: which rank is at
// which call, with the line of the program.  For each rank it adds the newest
// send or receive that is not known to be complete: the rank waits there, or
// the program has not yet waited for it.  A rank of this machine whose process
// has ended, without Finish and without a failure, is named as gone.
//   NOT_FOUND  no such folder, or no file of a recorder in it
// Files that are damaged, or that say another number of ranks than most, are
// named in the text.  Bytes of labels and names that would steer a terminal are
// escaped.  Jobs that run may write and remove their files meanwhile.
DEVRT_EXPORT absl::StatusOr<std::string> Report(std::string_view folder);

}  // namespace devrt::collectives

#endif  // DEVRT_COLLECTIVES_RECORDER_RECORDER_H_
