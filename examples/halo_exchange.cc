// SPDX-License-Identifier: Apache-2.0
//
// Heat in a plate, over several devices: a 5-point stencil whose halos travel
// from device to device while the devices compute.
//
// Each device has a share of the plate's rows.  In each step a device
//
//   edges     computes its first and its last row, into two arrays
//   exchange  sends both rows to its neighbours
//   inner     meanwhile computes the rows in between
//
// on three streams.  support/stencil.h has the work of one device.
//
//   halo_exchange --devices=3 --rows=192 --columns=8192 --steps=4

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "examples/support/options.h"
#include "examples/support/picture.h"
#include "examples/support/stencil.h"

namespace {

using example::Part;

absl::Status Step(std::vector<Part>* parts) {
  for (Part& part : *parts) DEVRT_RETURN_IF_ERROR(part.ComputeEdges());
  for (size_t i = 0; i + 1 < parts->size(); ++i) {
    Part& upper = (*parts)[i];
    Part& lower = (*parts)[i + 1];
    devrt::CopyOptions down, up;
    down.stream = upper.exchange;
    up.stream = lower.exchange;
    DEVRT_RETURN_IF_ERROR(devrt::CopyArray(lower.above, upper.last, down));
    DEVRT_RETURN_IF_ERROR(devrt::CopyArray(upper.below, lower.first, up));
  }
  for (Part& part : *parts) DEVRT_RETURN_IF_ERROR(part.ComputeInner());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Part>> MakeParts(
    const std::vector<devrt::Device>& devices, int64_t rows, int64_t columns,
    example::Picture* picture) {
  std::vector<Part> parts;
  for (const devrt::Device device : devices) {
    DEVRT_ASSIGN_OR_RETURN(Part part,
                           Part::Make(device, rows, columns, parts.empty()));
    DEVRT_RETURN_IF_ERROR(picture->Name(part.edges, "edges"));
    DEVRT_RETURN_IF_ERROR(picture->Name(part.inner, "inner"));
    DEVRT_RETURN_IF_ERROR(picture->Name(part.exchange, "exchange"));
    parts.push_back(std::move(part));
  }
  return parts;
}

// Prints how much of the exchange passed behind kernels, where the picture has
// the times.  Fails below `at_least` percent.
absl::Status CheckHidden(const example::Picture& picture, int64_t at_least) {
  using Kind = example::Picture::Kind;
  const auto hidden = picture.Hidden(Kind::kPeer, Kind::kCompute);
  if (!hidden) return absl::OkStatus();
  std::printf("%.0f %% of the exchange passed behind kernels\n", *hidden * 100);
  return *hidden * 100 < static_cast<double>(at_least)
             ? absl::InternalError("less overlap than --at_least")
             : absl::OkStatus();
}

absl::Status Run(const example::Options& options) {
  const int64_t rows = options.Number("rows", 3, 1 << 24);
  const int64_t columns = options.Number("columns", 3, 1 << 24);
  const int64_t steps = options.Number("steps", 1, 1'000'000);
  const int64_t at_least = options.Number("at_least", 0, 100);
  // A slow machine, on which the exchange of small arrays takes time to hide.
  DEVRT_ASSIGN_OR_RETURN(const std::vector<devrt::Device> devices,
                         example::FindDevices(options, "p2p=4GiB,local=50GiB"));
  const auto count = static_cast<int64_t>(devices.size());
  const int64_t each = rows / count;
  if (each < 3) {
    return absl::InvalidArgumentError(
        "each device needs 3 rows at least: give more --rows");
  }
  DEVRT_ASSIGN_OR_RETURN(
      example::Picture picture,
      example::Picture::Begin(devices[0],
                              "halo_exchange: a 5-point stencil over " +
                                  std::to_string(count) + " devices"));
  DEVRT_ASSIGN_OR_RETURN(std::vector<Part> parts,
                         MakeParts(devices, each, columns, &picture));
  for (int64_t step = 1; step <= steps; ++step) {
    DEVRT_RETURN_IF_ERROR(picture.Number(static_cast<int>(step)));
    DEVRT_RETURN_IF_ERROR(Step(&parts));
  }
  for (const Part& part : parts) DEVRT_RETURN_IF_ERROR(part.Ready());
  DEVRT_RETURN_IF_ERROR(picture.Finish("step", options.Text("timeline")));
  for (int64_t i = 0; i < count; ++i) {
    DEVRT_RETURN_IF_ERROR(example::Verify(parts[static_cast<size_t>(i)].now,
                                          i * each, each * count, steps));
  }
  std::printf(
      "%d steps of %d x %d elements on %d devices: as computed one "
      "after another\n",
      static_cast<int>(steps), static_cast<int>(each * count),
      static_cast<int>(columns), static_cast<int>(count));
  return CheckHidden(picture, at_least);
}

}  // namespace

int main(int argc, char** argv) {
  const example::Options options(argc, argv,
                                 {{"rows", "768"},
                                  {"columns", "4096"},
                                  {"steps", "4"},
                                  {"at_least", "0"},
                                  {"timeline", "halo_exchange.svg"}});
  return example::ExitCode(Run(options));
}
