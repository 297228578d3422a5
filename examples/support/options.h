// SPDX-License-Identifier: Apache-2.0
//
// What the examples over several devices are told on their command line.

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
  // `known`: the options "--NAME=VALUE" and their defaults, beside
  //   --backend=mtia   which backend
  //   --devices=2      how many of its devices
  //   --timeline=FILE  where the picture goes that is drawn on the simulator
  // Ends the program: with their list for --help, with a message and 2 where
  // the line says anything else.
  Options(int argc, char** argv, std::map<std::string, std::string> known);

  const std::string& Text(const std::string& name) const;
  // Ends the program, too, where it is none of those.
  int64_t Number(const std::string& name, int64_t min, int64_t max) const;

 private:
  std::map<std::string, std::string> values_;
};

// The devices to use.  A simulator is told to have as many, unless DEVRT_MTIA
// says how many it has; `machine` are further keys of it.
absl::StatusOr<std::vector<devrt::Device>> FindDevices(
    const Options& options, const std::string& machine = "");

// Prints an error; what main returns.
int ExitCode(const absl::Status& status);

}  // namespace example

#endif  // DEVRT_EXAMPLES_SUPPORT_OPTIONS_H_
