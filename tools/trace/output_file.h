// SPDX-License-Identifier: Apache-2.0
//
// The file that a trace goes to: opened before the program is run, written
// after it, and as it was before if there is nothing to write.

#ifndef DEVRT_TOOLS_TRACE_OUTPUT_FILE_H_
#define DEVRT_TOOLS_TRACE_OUTPUT_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace devrt::tools {

class OutputFile {
 public:
  // Opens `path`, or makes it, but changes nothing.  INVALID_ARGUMENT, naming
  // it, for what cannot be written to, what is no file, pipe or character
  // device, and a pipe that nobody reads.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(
      const std::string& path);
  // Removes a file that it made and that was not written.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Whether `fd` is the same file.
  bool IsAlso(int fd) const;

  // Puts `text` in the place of all that was in the file.  DATA_LOSS if it
  // cannot, as on a full disk; a file then keeps what it had.
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

#endif  // DEVRT_TOOLS_TRACE_OUTPUT_FILE_H_
