// SPDX-License-Identifier: Apache-2.0
#include "cts/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace devrt::cts {

StandardOutput::StandardOutput()
    : saved_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)),
      file_(open("/proc/self/fd/1", O_WRONLY | O_APPEND | O_CLOEXEC)) {
  std::fflush(stdout);
  // The offset of the file is 0 until something is written.
  ok_ = saved_ >= 0 && file_ >= 0 && lseek(file_, 0, SEEK_CUR) == 0 &&
        dup2(file_, STDOUT_FILENO) >= 0;
}

StandardOutput::~StandardOutput() {
  std::fflush(stdout);
  if (ok_) dup2(saved_, STDOUT_FILENO);
  if (saved_ >= 0) close(saved_);
  if (file_ >= 0) close(file_);
}

bool StandardOutput::IsWritten() const {
  std::fflush(stdout);
  return ok_ && lseek(file_, 0, SEEK_CUR) > 0;
}

}  // namespace devrt::cts
