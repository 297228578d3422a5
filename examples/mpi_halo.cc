// SPDX-License-Identifier: Apache-2.0
//
// Heat in a plate, over several processes, which may be on several machines:
// the stencil of halo_exchange.cc with collectives between the devices.
//
// Each rank has one device and a share of the rows.  In each step it
//
//   - computes its first and its last row,
//   - begins to compute the rows in between,
//   - meanwhile exchanges outer rows with its neighbours: a group of sends and
//     receives, in any order.
//
//   mpiexec -n 4 mpi_halo --rows=256 --columns=1024 --steps=6
//
// MPI connects the ranks, and is the engine, by way of pinned memory.  With
// --engine= the engine is that of the devices: NCCL on cuda.

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/collectives/mpi_bootstrap.h"
#include "devrt/collectives/mpi_engine.h"
#include "devrt/devrt.h"
#include "examples/support/options.h"
#include "examples/support/picture.h"
#include "examples/support/stencil.h"

namespace {

using devrt::Array;
using devrt::collectives::Communicator;
using devrt::collectives::Group;

// Sends an outer row to a neighbour, and gets the neighbour's.
void Exchange(const Communicator& rank, int neighbour, const Array& row,
              const Array& halo, devrt::StreamRef stream, Group* group) {
  if (neighbour < 0 || neighbour >= rank.size()) return;  // the plate's border
  group->Add(rank, devrt::collectives::Send(row, neighbour), stream);
  group->Add(rank, devrt::collectives::Recv(halo, neighbour), stream);
}

absl::Status Step(example::Part* part, const Communicator& rank) {
  DEVRT_RETURN_IF_ERROR(part->ComputeEdges());
  DEVRT_RETURN_IF_ERROR(part->ComputeInner());
  Group group;
  Exchange(rank, rank.rank() - 1, part->first, part->above, part->exchange,
           &group);
  Exchange(rank, rank.rank() + 1, part->last, part->below, part->exchange,
           &group);
  return group.Submit();
}

absl::StatusOr<Communicator> Connect(devrt::Device device,
                                     const std::string& engine) {
  if (engine == "mpi") {
    DEVRT_RETURN_IF_ERROR(devrt::collectives::RegisterMpi(MPI_COMM_WORLD));
  }
  DEVRT_ASSIGN_OR_RETURN(const auto bootstrap,
                         devrt::collectives::FromMpi(MPI_COMM_WORLD));
  devrt::collectives::Options options;
  options.provider = engine;
  options.shared_device = engine == "mpi";
  return Communicator::Create(device, *bootstrap, options);
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
  DEVRT_ASSIGN_OR_RETURN(Communicator communicator,
                         Connect(device, options.Text("engine")));
  DEVRT_RETURN_IF_ERROR(picture.Name(part.edges, "edges"));
  DEVRT_RETURN_IF_ERROR(picture.Name(part.inner, "inner"));
  DEVRT_RETURN_IF_ERROR(picture.Name(part.exchange, "exchange"));
  for (int64_t step = 1; step <= steps; ++step) {
    DEVRT_RETURN_IF_ERROR(picture.Number(static_cast<int>(step)));
    DEVRT_RETURN_IF_ERROR(Step(&part, communicator));
  }
  DEVRT_RETURN_IF_ERROR(communicator.Wait(part.exchange));
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
  DEVRT_RETURN_IF_ERROR(communicator.Finish());
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
                                  {"engine", "mpi"},
                                  {"at_least", "0"},
                                  {"timeline", "mpi_halo"}});
  const int code = example::ExitCode(Run(options, rank, ranks));
  // Without this the other ranks would wait for a rank that failed.
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return code;
}
