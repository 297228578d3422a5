// SPDX-License-Identifier: Apache-2.0
//
// Heat in a plate, over several processes, which may be on several machines:
// the stencil of halo_exchange.cc with MPI between the devices.
//
// Each rank has one device and a share of the rows.  In each step it
//
//   - computes its first and its last row, and copies them to pinned memory,
//   - begins to compute the rows in between,
//   - meanwhile exchanges outer rows with its neighbours by MPI, and copies the
//     rows that it got to the device.
//
//   mpiexec -n 4 mpi_halo --rows=256 --columns=1024 --steps=6

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "examples/support/options.h"
#include "examples/support/picture.h"
#include "examples/support/stencil.h"

namespace {

using devrt::Array;
using devrt::Place;

// The exchange with one neighbour: an outer row in each direction.
struct Side {
  int neighbour;  // MPI_PROC_NULL at the plate's border
  Array sent;     // pinned
  Array received;

  static absl::StatusOr<Side> Make(devrt::Device device, int neighbour,
                                   int64_t columns) {
    const auto row = [&] {
      return Array::Zeros({1, columns}, devrt::kFloat32, Place::Pinned(device));
    };
    DEVRT_ASSIGN_OR_RETURN(Array sent, row());
    DEVRT_ASSIGN_OR_RETURN(Array received, row());
    return Side{neighbour, std::move(sent), std::move(received)};
  }

  // The row is in pinned memory when it is Ready.
  absl::Status Take(const Array& row, devrt::StreamRef stream) const {
    devrt::CopyOptions options;
    options.non_blocking = true;
    options.stream = stream;
    return devrt::CopyArray(sent, row, options);
  }

  // Sends and receives at once.  The host waits while the device computes.
  absl::Status Exchange() const {
    DEVRT_RETURN_IF_ERROR(sent.Ready());
    DEVRT_RETURN_IF_ERROR(received.Ready());
    const int count = static_cast<int>(sent.size());
    MPI_Sendrecv(sent.data(), count, MPI_FLOAT, neighbour, 0, received.data(),
                 count, MPI_FLOAT, neighbour, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return absl::OkStatus();
  }

  absl::Status Deliver(const Array& halo, devrt::StreamRef stream) const {
    if (neighbour == MPI_PROC_NULL) return absl::OkStatus();
    devrt::CopyOptions options;
    options.non_blocking = true;
    options.stream = stream;
    return devrt::CopyArray(halo, received, options);
  }
};

absl::Status Step(example::Part* part, const Side& up, const Side& down,
                  int rank) {
  DEVRT_RETURN_IF_ERROR(part->ComputeEdges());
  DEVRT_RETURN_IF_ERROR(up.Take(part->first, part->exchange));
  DEVRT_RETURN_IF_ERROR(down.Take(part->last, part->exchange));
  DEVRT_RETURN_IF_ERROR(part->ComputeInner());
  // Every other rank begins with its lower neighbour, so that the calls of two
  // neighbours match.
  DEVRT_RETURN_IF_ERROR((rank % 2 == 0 ? down : up).Exchange());
  DEVRT_RETURN_IF_ERROR((rank % 2 == 0 ? up : down).Exchange());
  DEVRT_RETURN_IF_ERROR(up.Deliver(part->above, part->exchange));
  return down.Deliver(part->below, part->exchange);
}

absl::Status Run(const example::Options& options, int rank, int ranks) {
  const int64_t rows = options.Number("rows", 3, 1 << 24);
  const int64_t columns = options.Number("columns", 3, 1 << 24);
  const int64_t steps = options.Number("steps", 1, 1'000'000);
  const int64_t at_least = options.Number("at_least", 0, 100);
  DEVRT_ASSIGN_OR_RETURN(
      const std::vector<devrt::Device> devices,
      example::FindDevices(options, "d2h=4GiB,h2d=4GiB,local=50GiB"));
  const devrt::Device device =
      devices[static_cast<size_t>(rank) % devices.size()];
  const int64_t each = rows / ranks;
  if (each < 3) {
    return absl::InvalidArgumentError(
        "each rank needs 3 rows at least: give more --rows");
  }
  DEVRT_ASSIGN_OR_RETURN(
      example::Picture picture,
      example::Picture::Begin(device, "mpi_halo: rank " + std::to_string(rank) +
                                          " of " + std::to_string(ranks)));
  DEVRT_ASSIGN_OR_RETURN(example::Part part,
                         example::Part::Make(device, each, columns, rank == 0));
  DEVRT_ASSIGN_OR_RETURN(
      const Side up,
      Side::Make(device, rank == 0 ? MPI_PROC_NULL : rank - 1, columns));
  DEVRT_ASSIGN_OR_RETURN(
      const Side down,
      Side::Make(device, rank + 1 == ranks ? MPI_PROC_NULL : rank + 1,
                 columns));
  DEVRT_RETURN_IF_ERROR(picture.Name(part.edges, "edges"));
  DEVRT_RETURN_IF_ERROR(picture.Name(part.inner, "inner"));
  DEVRT_RETURN_IF_ERROR(picture.Name(part.exchange, "exchange"));
  for (int64_t step = 1; step <= steps; ++step) {
    DEVRT_RETURN_IF_ERROR(picture.Number(static_cast<int>(step)));
    DEVRT_RETURN_IF_ERROR(Step(&part, up, down, rank));
  }
  DEVRT_RETURN_IF_ERROR(part.Ready());
  std::string file = options.Text("timeline");
  if (!file.empty()) file = file + "-" + std::to_string(rank) + ".svg";
  DEVRT_RETURN_IF_ERROR(picture.Finish("step", file));
  DEVRT_RETURN_IF_ERROR(
      example::Verify(part.now, rank * each, ranks * each, steps));
  using Kind = example::Picture::Kind;
  std::printf(
      "rank %d: rows %d to %d on %s are as computed one after another\n", rank,
      static_cast<int>(rank * each), static_cast<int>((rank + 1) * each - 1),
      std::string(device.name()).c_str());
  const auto hidden = picture.Hidden(Kind::kDeviceToHost, Kind::kCompute);
  if (!hidden) return absl::OkStatus();
  std::printf(
      "rank %d: %.0f %% of the copies to the host passed behind "
      "kernels\n",
      rank, *hidden * 100);
  if (*hidden * 100 < static_cast<double>(at_least)) {
    return absl::InternalError("less overlap than --at_least");
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const example::Options options(argc, argv,
                                 {{"rows", "256"},
                                  {"columns", "4096"},
                                  {"steps", "4"},
                                  {"devices", "1"},
                                  {"at_least", "0"},
                                  {"timeline", "mpi_halo"}});
  const int code = example::ExitCode(Run(options, rank, ranks));
  // Without this the other ranks would wait for a rank that failed.
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return code;
}
