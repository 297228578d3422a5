// SPDX-License-Identifier: Apache-2.0
//
// A file descriptor that closes itself.

#ifndef DEVRT_RUNTIME_LOADER_UNIQUE_FD_H_
#define DEVRT_RUNTIME_LOADER_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace devrt::internal {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() {
    if (fd_ >= 0) close(fd_);
  }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_UNIQUE_FD_H_
