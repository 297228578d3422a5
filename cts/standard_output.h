// SPDX-License-Identifier: Apache-2.0
//
// Standard output as a file of its own, as long as this lives: what a plugin
// must not write there can be read.  One at a time.

#ifndef DEVRT_CTS_STANDARD_OUTPUT_H_
#define DEVRT_CTS_STANDARD_OUTPUT_H_

#include <string>

namespace devrt::cts {

class StandardOutput {
 public:
  StandardOutput();
  StandardOutput(const StandardOutput&) = delete;
  ~StandardOutput();

  // Whether it could be exchanged.
  bool ok() const { return ok_; }
  // What was written so far.
  std::string Text() const;

 private:
  const int saved_, file_;
  bool ok_ = false;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_STANDARD_OUTPUT_H_
