// SPDX-License-Identifier: Apache-2.0
//
// Detects writes to a worker's standard output.  Standard output and standard
// error share one file, the worker's log.  This class opens the file a second
// time for standard output: its writes can then be counted apart, and still go
// to the log.  Only one object at a time.

#ifndef DEVRT_CTS_STANDARD_OUTPUT_H_
#define DEVRT_CTS_STANDARD_OUTPUT_H_

namespace devrt::cts {

class StandardOutput {
 public:
  StandardOutput();
  StandardOutput(const StandardOutput&) = delete;
  ~StandardOutput();

  // True if the file could be opened.
  bool ok() const { return ok_; }
  bool IsWritten() const;

 private:
  const int saved_, file_;
  bool ok_ = false;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_STANDARD_OUTPUT_H_
