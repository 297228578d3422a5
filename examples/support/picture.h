// SPDX-License-Identifier: Apache-2.0
//
// Picture: draws and measures what ran when, on a simulator; on hardware it
// does nothing.  And a clock, which on a simulator is the virtual one.

#ifndef DEVRT_EXAMPLES_SUPPORT_PICTURE_H_
#define DEVRT_EXAMPLES_SUPPORT_PICTURE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"

namespace example {

class Picture {
 public:
  // Records operations from now on.
  static absl::StatusOr<Picture> Begin(devrt::Device any, std::string title);

  // Gives the stream a name, and a line in the picture.
  absl::Status Name(devrt::StreamRef stream, std::string name);
  // The number of the step, chunk or piece (the `unit` of Finish) that
  // operations belong to from now on.
  absl::Status Number(int number);

  // Call it when all work is complete.  Writes `file` and prints its name.
  absl::Status Finish(const std::string& unit, const std::string& file);

  // ---- After Finish; nullopt without a simulator ----

  using Kind = devrt::SimulatedOp::Engine;
  // The part of the time of all operations of one kind, 0 to 1, in which an
  // operation of the other kind ran on the same device.
  std::optional<double> Hidden(Kind kind, Kind behind) const;
  // The average number of operations that ran at a time.
  std::optional<double> AtATime() const;

 private:
  Picture() = default;

  struct Line {
    const void* native;
    std::string group;
    std::string name;
  };
  std::optional<devrt::Simulator> simulator_;
  std::string title_;
  std::vector<Line> lines_;
  std::vector<std::pair<uint64_t, int>> numbers_;  // with their first time
  std::vector<devrt::SimulatedOp> ops_;
};

// The seconds that `work` takes, on the simulator's clock or the host's.
// `work` waits for what it submits.
absl::StatusOr<double> TimeOf(devrt::Device any,
                              const std::function<absl::Status()>& work);

}  // namespace example

#endif  // DEVRT_EXAMPLES_SUPPORT_PICTURE_H_
