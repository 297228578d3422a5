// SPDX-License-Identifier: Apache-2.0
//
// Picture: what ran when, drawn and measured, where a simulator keeps track;
// elsewhere it does nothing.  And a clock that is the simulator's there.

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
  // From now on operations are kept.
  static absl::StatusOr<Picture> Begin(devrt::Device any, std::string title);

  // Which line of the picture is which stream.
  absl::Status Name(devrt::StreamRef stream, std::string name);
  // What is submitted from now on has that number, and counts `unit`s.
  absl::Status Number(int number);

  // To be called when all is complete.  Writes `file`, and says where.
  absl::Status Finish(const std::string& unit, const std::string& file);

  // ---- After Finish; nullopt without a simulator ----

  using Kind = devrt::SimulatedOp::Engine;
  // Of the time of all operations of the one kind, how much passed while one of
  // the other kind ran on the same device: 0 to 1.
  std::optional<double> Hidden(Kind kind, Kind behind) const;
  // How many operations ran at a time, on average.
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
  std::vector<std::pair<uint64_t, int>> numbers_;  // from when on
  std::vector<devrt::SimulatedOp> ops_;
};

// Seconds that `work`, which waits for what it submits, takes: of the
// simulator's clock or the host's.
absl::StatusOr<double> TimeOf(devrt::Device any,
                              const std::function<absl::Status()>& work);

}  // namespace example

#endif  // DEVRT_EXAMPLES_SUPPORT_PICTURE_H_
