// SPDX-License-Identifier: Apache-2.0
//
// Picture: draws and measures what ran when, from the records of a simulator.
// On real hardware its functions do nothing.  TimeOf measures time, by the
// simulator's clock or by the host's.

#ifndef DEVRT_EXAMPLES_SUPPORT_PICTURE_H_
#define DEVRT_EXAMPLES_SUPPORT_PICTURE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "tools/timeline/simulated.h"
#include "tools/timeline/timeline.h"

namespace example {

class Picture {
 public:
  // From now on the simulator records operations.
  static absl::StatusOr<Picture> Begin(devrt::Device any, std::string title);

  // Draws the stream, with this name.  Streams without a name are left out.
  absl::Status Name(devrt::StreamRef stream, std::string name);
  // Operations that are submitted from now on show this number.
  absl::Status Number(int number);

  // Call it when all work is complete.  Writes the picture to `file`, unless
  // that is empty, and prints its path.  The numbers count `unit`s.
  absl::Status Finish(const std::string& unit, const std::string& file);

  // ---- After Finish; nullopt without a simulator ----

  using Kind = devrt::SimulatedOp::Engine;
  // The share, 0 to 1, of the time of all operations of `kind` in which an
  // operation of `behind` ran on that device too.
  std::optional<double> Hidden(Kind kind, Kind behind) const;
  // How many operations ran on devices at a time, on average.
  std::optional<double> AtATime() const;

 private:
  Picture() = default;

  bool IsDrawn(const devrt::SimulatedOp& op) const;

  std::optional<devrt::Simulator> simulator_;
  std::string title_;
  std::vector<devrt::tools::SimulatedStream> streams_;
  // Simulated time, and the number from then on.
  std::vector<std::pair<uint64_t, int>> numbers_;
  std::vector<devrt::SimulatedOp> ops_;
  devrt::tools::Timeline timeline_;  // its ops[i] is ops_[i]
};

// Runs `work`, which waits for what it submits.  Returns how many seconds it
// took, by the simulator's clock or by the host's.
absl::StatusOr<double> TimeOf(devrt::Device any,
                              const std::function<absl::Status()>& work);

}  // namespace example

#endif  // DEVRT_EXAMPLES_SUPPORT_PICTURE_H_
