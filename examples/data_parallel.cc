// SPDX-License-Identifier: Apache-2.0
//
// Data-parallel training of a small model: each device has a part of the data
// and the same weights, and the devices add up their gradients.
//
//   DEVRT_MTIA=devices=8 data_parallel --devices=8
//   mpiexec -n 4 mpi_data_parallel
//
// The model is y = w * x + b, of which the program knows the answer: w = 3 and
// b = -1.  The devices are those of the simulator: all in one process and with
// one thread, or with DEVRT_EXAMPLE_MPI one in each process that MPI starts.
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#ifdef DEVRT_EXAMPLE_MPI
#include <mpi.h>

#include "devrt/collectives/mpi_bootstrap.h"
#include "devrt/collectives/mpi_engine.h"
#endif

#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/devrt.h"

namespace {

using devrt::Array;
using devrt::collectives::Communicator;
using devrt::collectives::Group;
using devrt::collectives::Reduction;

constexpr int kSteps = 60;
constexpr int64_t kSamples = 64;  // of each device
constexpr float kRate = 0.4F;

// A device's samples, and the weights, of which each device has a copy.
struct Replica {
  Array x, y, w, b;
};

absl::StatusOr<Replica> MakeReplica(const Communicator& communicator) {
  const devrt::Device device = communicator.device();
  const int rank = communicator.rank();
  const int ranks = communicator.size();
  std::vector<float> x(kSamples), y(kSamples);
  for (int64_t i = 0; i < kSamples; ++i) {
    const auto at = static_cast<float>(i * ranks + rank);
    x[i] = 2 * at / static_cast<float>(kSamples * ranks) - 1;
    y[i] = 3 * x[i] - 1;
  }
  DEVRT_ASSIGN_OR_RETURN(Array on_x, Array::FromVector(x, device));
  DEVRT_ASSIGN_OR_RETURN(Array on_y, Array::FromVector(y, device));
  DEVRT_ASSIGN_OR_RETURN(Array w, Array::Zeros({}, devrt::kFloat32, device));
  DEVRT_ASSIGN_OR_RETURN(Array b, Array::Zeros({}, devrt::kFloat32, device));
  return Replica{on_x, on_y, w, b};
}

// The gradients of w and b over the device's own samples.
absl::StatusOr<std::vector<Array>> Gradients(const Replica& replica) {
  DEVRT_ASSIGN_OR_RETURN(Array error, devrt::Mul(replica.x, replica.w));
  DEVRT_ASSIGN_OR_RETURN(error, devrt::Add(error, replica.b));
  DEVRT_ASSIGN_OR_RETURN(error, devrt::Sub(error, replica.y));
  DEVRT_ASSIGN_OR_RETURN(const Array times_x, devrt::Mul(error, replica.x));
  DEVRT_ASSIGN_OR_RETURN(Array of_w,
                         devrt::Reduce(devrt::ReduceOp::kMean, times_x));
  DEVRT_ASSIGN_OR_RETURN(Array of_b,
                         devrt::Reduce(devrt::ReduceOp::kMean, error));
  return std::vector<Array>{of_w, of_b};
}

absl::Status Update(const Array& weight, const Array& sum, int ranks) {
  DEVRT_ASSIGN_OR_RETURN(const Array step,
                         devrt::Mul(sum, kRate / static_cast<float>(ranks)));
  DEVRT_ASSIGN_OR_RETURN(const Array next, devrt::Sub(weight, step));
  return weight.CopyFrom(next);
}

// With the ranks of this process.
absl::Status Train(std::vector<Communicator> ranks) {
  std::vector<Replica> replicas;
  for (const Communicator& rank : ranks) {
    DEVRT_ASSIGN_OR_RETURN(Replica replica, MakeReplica(rank));
    replicas.push_back(std::move(replica));
  }
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<Array>> gradients;
    Group group;
    for (size_t i = 0; i < ranks.size(); ++i) {
      DEVRT_ASSIGN_OR_RETURN(std::vector<Array> mine, Gradients(replicas[i]));
      for (const Array& gradient : mine) {
        group.Add(ranks[i], devrt::collectives::AllReduce(gradient, gradient));
      }
      gradients.push_back(std::move(mine));
    }
    DEVRT_RETURN_IF_ERROR(group.Submit());
    for (size_t i = 0; i < ranks.size(); ++i) {
      const int all = ranks[i].size();
      DEVRT_RETURN_IF_ERROR(Update(replicas[i].w, gradients[i][0], all));
      DEVRT_RETURN_IF_ERROR(Update(replicas[i].b, gradients[i][1], all));
    }
  }
  for (Communicator& rank : ranks) DEVRT_RETURN_IF_ERROR(rank.Wait());
  for (const Replica& replica : replicas) {
    DEVRT_ASSIGN_OR_RETURN(const devrt::Scalar w, replica.w.Item());
    DEVRT_ASSIGN_OR_RETURN(const devrt::Scalar b, replica.b.Item());
    if (std::abs(w.Value<double>() - 3) > 0.01 ||
        std::abs(b.Value<double>() + 1) > 0.01) {
      return absl::InternalError("the weights are not those of the data");
    }
  }
  return Communicator::FinishAll(ranks);
}

#ifdef DEVRT_EXAMPLE_MPI
absl::Status Run() {
  DEVRT_ASSIGN_OR_RETURN(const devrt::Device device,
                         devrt::GetDevice("mtia:0"));
  DEVRT_RETURN_IF_ERROR(devrt::collectives::RegisterMpi(MPI_COMM_WORLD));
  DEVRT_ASSIGN_OR_RETURN(const auto bootstrap,
                         devrt::collectives::FromMpi(MPI_COMM_WORLD));
  devrt::collectives::Options options;
  options.provider = "mpi";
  std::vector<Communicator> ranks;
  DEVRT_ASSIGN_OR_RETURN(Communicator mine,
                         Communicator::Create(device, *bootstrap, options));
  const int rank = mine.rank();
  const int size = mine.size();
  ranks.push_back(std::move(mine));
  DEVRT_RETURN_IF_ERROR(Train(std::move(ranks)));
  std::cout << "rank " << rank << " of " << size
            << " found w = 3 and b = -1 in " << kSteps << " steps\n";
  return absl::OkStatus();
}
#else
absl::Status Run(size_t count) {
  DEVRT_ASSIGN_OR_RETURN(const devrt::Backend mtia, devrt::GetBackend("mtia"));
  std::vector<devrt::Device> devices = mtia.devices();
  if (devices.size() < count) {
    return absl::InvalidArgumentError(
        "DEVRT_MTIA=devices=" + std::to_string(count) + " is needed");
  }
  devices.erase(devices.begin() + static_cast<std::ptrdiff_t>(count),
                devices.end());
  DEVRT_ASSIGN_OR_RETURN(std::vector<Communicator> ranks,
                         Communicator::CreateAll(devices));
  DEVRT_RETURN_IF_ERROR(Train(std::move(ranks)));
  std::cout << count << " devices found w = 3 and b = -1 in " << kSteps
            << " steps\n";
  return absl::OkStatus();
}
#endif

}  // namespace

int main(int argc, char** argv) {
#ifdef DEVRT_EXAMPLE_MPI
  MPI_Init(&argc, &argv);
  const absl::Status status = Run();
  if (!status.ok()) std::cerr << devrt::StatusText(status) << "\n";
  // Without this the other ranks would wait for a rank that failed.
  if (!status.ok()) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return 0;
#else
  const std::string option = argc > 1 ? argv[1] : "--devices=2";
  const std::string name = "--devices=";
  const int count =
      option.rfind(name, 0) == 0 ? std::atoi(option.c_str() + name.size()) : 0;
  if (count < 1) {
    std::cerr << "usage: data_parallel [--devices=N]\n";
    return 2;
  }
  const absl::Status status = Run(static_cast<size_t>(count));
  if (status.ok()) return 0;
  std::cerr << devrt::StatusText(status) << "\n";
  return 1;
#endif
}
