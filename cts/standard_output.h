// SPDX-License-Identifier: Apache-2.0
//
// Whether something writes to a worker's standard output.  That is a file
// which standard error shares; as long as this lives it is opened a second
// time, so that only what goes to standard output counts, and still stands in
// the worker's log.  One at a time.

#ifndef DEVRT_CTS_STANDARD_OUTPUT_H_
#define DEVRT_CTS_STANDARD_OUTPUT_H_

namespace devrt::cts {

class StandardOutput {
 public:
  StandardOutput();
  StandardOutput(const StandardOutput&) = delete;
  ~StandardOutput();

  // Whether it could be opened.
  bool ok() const { return ok_; }
  bool IsWritten() const;

 private:
  const int saved_, file_;
  bool ok_ = false;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_STANDARD_OUTPUT_H_
