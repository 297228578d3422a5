// SPDX-License-Identifier: Apache-2.0
//
// A file for what a command learns from a program.  It is opened before the
// program runs and written after it.  If nothing is written, the file stays as
// it was.

#ifndef DEVRT_TOOLS_COMMON_OUTPUT_FILE_H_
#define DEVRT_TOOLS_COMMON_OUTPUT_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace devrt::tools {

class OutputFile {
 public:
  // Opens the file, or makes it, and does not change its contents.
  // INVALID_ARGUMENT, with the path, if it cannot be written, is neither a file
  // nor a pipe nor a character device, or is a pipe without a reader.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(
      const std::string& path);
  // Removes the file if Open made it and Write did not succeed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Returns true if `fd` is this file.
  bool IsSameFile(int fd) const;

  // Replaces the contents of the file by `text`.  DATA_LOSS if that fails; if
  // the disk is full, the file keeps its contents.
  absl::Status Write(const std::string& text);

 private:
  OutputFile(std::string path, int fd, bool made, bool is_file)
      : path_(std::move(path)), fd_(fd), made_(made), is_file_(is_file) {}

  const std::string path_;
  const int fd_;
  bool made_;
  const bool is_file_;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_COMMON_OUTPUT_FILE_H_
