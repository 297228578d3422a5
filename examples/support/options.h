// SPDX-License-Identifier: Apache-2.0
//
// The command line of the examples over several devices.

#ifndef DEVRT_EXAMPLES_SUPPORT_OPTIONS_H_
#define DEVRT_EXAMPLES_SUPPORT_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "devrt/devrt.h"

namespace example {

class Options {
 public:
  // `known` has the options "--NAME=VALUE" of the example with their defaults.
  // Every example also has
  //   --backend=mtia   the backend
  //   --devices=2      the number of its devices
  //   --timeline=FILE  the file of the picture that the simulator gives
  // Ends the program for --help, with a list of the options, and for an unknown
  // option, with a message and exit code 2.
  Options(int argc, char** argv, std::map<std::string, std::string> known);

  const std::string& Text(const std::string& name) const;
  // Ends the program if the value is not a number in the range.
  int64_t Number(const std::string& name, int64_t min, int64_t max) const;

 private:
  std::map<std::string, std::string> values_;
};

// The devices to use.  Sets up a simulator with as many devices, unless
// DEVRT_MTIA gives the number; `machine` has more keys of DEVRT_MTIA.
absl::StatusOr<std::vector<devrt::Device>> FindDevices(
    const Options& options, const std::string& machine = "");

// Prints an error.  Returns the exit code of main.
int ExitCode(const absl::Status& status);

}  // namespace example

#endif  // DEVRT_EXAMPLES_SUPPORT_OPTIONS_H_
