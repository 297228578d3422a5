// SPDX-License-Identifier: Apache-2.0
#include "cts/standard_output.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

namespace devrt::cts {

StandardOutput::StandardOutput()
    : saved_(dup(STDOUT_FILENO)), file_(memfd_create("stdout", MFD_CLOEXEC)) {
  std::fflush(stdout);
  ok_ = saved_ >= 0 && file_ >= 0 && dup2(file_, STDOUT_FILENO) >= 0;
}

StandardOutput::~StandardOutput() {
  std::fflush(stdout);
  if (ok_) dup2(saved_, STDOUT_FILENO);
  if (saved_ >= 0) close(saved_);
  if (file_ >= 0) close(file_);
}

std::string StandardOutput::Text() const {
  std::fflush(stdout);
  const off_t size = ok_ ? lseek(file_, 0, SEEK_END) : 0;
  std::string text(size > 0 ? static_cast<size_t>(size) : 0, '\0');
  const ssize_t n = pread(file_, text.data(), text.size(), 0);
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return text;
}

}  // namespace devrt::cts
