// SPDX-License-Identifier: Apache-2.0
//
// MPI as an engine, on the ranks that mpiexec starts, each with a simulated
// device of its own process; with the argument "cuda" all on the first GPU.
// Exits with 1, and says why, if a check fails on any rank.

#include <mpi.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/collectives/mpi_bootstrap.h"
#include "devrt/collectives/mpi_engine.h"
#include "devrt/devrt.h"

namespace {

using devrt::Array;
using devrt::Device;
using devrt::Place;
using devrt::collectives::Bootstrap;
using devrt::collectives::Communicator;
using devrt::collectives::Options;
using devrt::collectives::Reduction;

bool g_failed = false;
int g_rank = 0;

void Expect(bool holds, const char* what, const std::string& got) {
  if (holds) return;
  std::fprintf(stderr, "rank %d: %s; got %s\n", g_rank, what, got.c_str());
  g_failed = true;
}

void ExpectOk(const absl::Status& status, const char* what) {
  Expect(status.ok(), what, status.ToString());
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", g_rank,
                 value.status().ToString().c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return *std::move(value);
}

// `count` elements of `dtype`, each of them `value`.
Array Of(Device device, int64_t count, double value,
         devrt::DType dtype = devrt::kFloat32) {
  return Value(Array::Full({count}, dtype, value, device));
}

// All elements are `wanted`, as the text of the array's first and last say.
void ExpectAll(const Array& array, double wanted, const char* what) {
  const Array wanted_array =
      Value(Array::Full({array.size()}, array.dtype(), wanted, array.place()));
  const absl::StatusOr<bool> equal = devrt::ArrayEqual(array, wanted_array);
  Expect(equal.ok() && *equal, what,
         equal.ok() ? "other values" : equal.status().ToString());
}

Options MpiOptions() {
  Options options;
  options.provider = "mpi";
  options.timeout = absl::Seconds(30);
  options.shared_device = true;
  return options;
}

// The sum of 1 to n.
double SumTo(int n) { return n * (n + 1) / 2.0; }

void AllOperations(Communicator* comm) {
  const Device device = comm->device();
  const int n = comm->size();
  const int rank = comm->rank();
  for (const devrt::DType dtype :
       {devrt::kFloat32, devrt::kFloat64, devrt::kInt32, devrt::kUInt8}) {
    const Array mine = Of(device, 6, rank + 1, dtype);
    const Array sum = Of(device, 6, 0, dtype);
    ExpectOk(comm->AllReduce(sum, mine), "all_reduce");
    ExpectAll(sum, SumTo(n), "the sum of all ranks");
    ExpectOk(comm->AllReduce(mine, mine, Reduction::kMax), "in place");
    ExpectAll(mine, n, "the largest of all ranks");
  }
  const Array x = Of(device, 5, rank + 1);
  const Array out = Of(device, 5, -1);
  ExpectOk(comm->Reduce(out, x, Reduction::kSum, n - 1), "reduce");
  ExpectAll(out, rank == n - 1 ? SumTo(n) : -1, "the sum, on the root alone");
  const Array given = Of(device, 5, rank + 1);
  ExpectOk(comm->Broadcast(given, n - 1), "broadcast");
  ExpectAll(given, n, "the root's");

  const Array gathered = Of(device, 5 * n, 0);
  ExpectOk(comm->AllGather(gathered, x), "all_gather");
  const Array scattered = Of(device, 5, 0);
  ExpectOk(comm->ReduceScatter(scattered, gathered), "reduce_scatter");
  ExpectAll(scattered, static_cast<double>(n) * (rank + 1),
            "this rank's part of the sum of what all ranks gathered");
  const Array exchanged = Of(device, 5 * n, 0);
  ExpectOk(comm->AllToAll(exchanged, gathered), "all_to_all");
  ExpectAll(exchanged, rank + 1, "part `rank` of every rank");
  const Array collected = Of(device, 5 * n, 0);
  ExpectOk(comm->Gather(collected, x, 0), "gather");
  ExpectOk(comm->Scatter(out, collected, 0), "scatter");
  ExpectAll(out, rank + 1, "what was gathered");
  // What MPI has no arithmetic for is moved, and not reduced.
  const Array half = Of(device, 3, rank, devrt::kFloat16);
  ExpectOk(comm->Broadcast(half, 0), "broadcast of float16");
  ExpectAll(half, 0, "the root's");
  Expect(absl::IsUnimplemented(comm->AllReduce(half, half)),
         "no sum of float16", "another answer");
  ExpectOk(comm->AllReduce(Of(device, 0, 0), Of(device, 0, 0)), "no elements");
}

void AllInARing(Communicator* comm) {
  const int n = comm->size();
  const int rank = comm->rank();
  const Array out = Of(comm->device(), 100000, rank);
  const Array in = Of(comm->device(), 100000, -1);
  devrt::collectives::Group group;
  group.Add(*comm, devrt::collectives::Send(out, (rank + 1) % n));
  group.Add(*comm, devrt::collectives::Recv(in, (rank + n - 1) % n));
  ExpectOk(group.Submit(), "a ring");
  ExpectAll(in, (rank + n - 1) % n, "the left neighbour's");
}

// Even and odd ranks, in falling order.
void SplitInTwo(Communicator* comm) {
  const int rank = comm->rank();
  auto half = Value(comm->Split(rank % 2, -rank));
  if (!half.has_value()) {
    Expect(false, "a communicator of half the ranks", "none");
    return;
  }
  Expect(half->size() == (comm->size() + (rank % 2 == 0 ? 1 : 0)) / 2,
         "the ranks of one color", absl::StrCat(half->size()));
  const Array x = Of(comm->device(), 4, rank);
  ExpectOk(half->Broadcast(x, 0), "broadcast in a half");
  int highest = comm->size() - 1;
  if (highest % 2 != rank % 2) --highest;
  ExpectAll(x, highest, "the first rank by key");
  const auto none = Value(comm->Split(rank == 0 ? -1 : 0, 0));
  Expect(none.has_value() == (rank != 0), "none for color -1", "another");
}

// The last rank has another count: every rank is told before MPI begins.
void CallsThatDiffer(Device device, Bootstrap* bootstrap) {
  Options options = MpiOptions();
  options.check_signatures = true;
  Communicator comm = Value(Communicator::Create(device, *bootstrap, options));
  const int last = comm.size() - 1;
  const Array x = Of(device, comm.rank() == last ? 5 : 4, 1);
  const absl::Status differ = comm.AllReduce(x, x);
  Expect(absl::IsInvalidArgument(differ) &&
             absl::StrContains(
                 differ.message(),
                 absl::StrCat("rank ", last, ": all_reduce(float32 x 5, sum)")),
         "the calls differ", differ.ToString());
  const Array y = Of(device, 4, comm.rank() + 1);
  ExpectOk(comm.AllReduce(y, y), "all_reduce after a mismatch");
  ExpectAll(y, SumTo(comm.size()), "the sum of all ranks");
  ExpectOk(comm.Finish(), "Finish");
}

// The last rank has fewer elements, and nothing compares the calls.  The rank
// has an error where the program wants to be told of MPI's.
void CountsThatDiffer(Device device, Bootstrap* bootstrap) {
  MPI_Errhandler before;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Options options = MpiOptions();
  options.timeout = absl::Seconds(2);  // of ranks that wait for the last one
  Communicator comm = Value(Communicator::Create(device, *bootstrap, options));
  const bool is_last = comm.rank() + 1 == comm.size();
  const Array x = Of(device, is_last ? 8 : 16, 1);
  const absl::Status status = comm.AllReduce(x, x);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
  MPI_Errhandler_free(&before);
  if (!is_last) {
    comm.Abort("the last rank has failed").IgnoreError();
    return;
  }
  Expect(absl::StrContains(status.message(), "truncated: if the operations of"),
         "MPI's error, and how to find the mismatch", status.ToString());
  Expect(comm.state() == devrt::collectives::State::kFailed,
         "the communicator has failed", ToString(comm.state()));
}

// The last rank does not come: the others' time ends, and the communicator.
void OneIsMissing(Device device, Bootstrap* bootstrap) {
  Options options = MpiOptions();
  options.timeout = absl::Milliseconds(200);
  Communicator comm = Value(Communicator::Create(device, *bootstrap, options));
  const Array x = Of(device, 4, 1);
  ExpectOk(comm.Broadcast(x, 0), "broadcast");
  if (comm.rank() + 1 == comm.size()) {
    ExpectOk(comm.Abort("it does not come"), "Abort");
    return;
  }
  const absl::Status late = comm.AllReduce(x, x);
  Expect(!late.ok() && absl::StrContains(late.message(), "did not come") &&
             absl::StrContains(late.message(), "failed at 2 all_reduce("),
         "the time of the operation ends", late.ToString());
  const auto calls = comm.Records();
  Expect(calls.size() == 2 && calls[0].end_ns != 0 && calls[1].end_ns == 0,
         "the broadcast alone is complete", absl::StrCat(calls.size()));
  Expect(comm.state() != devrt::collectives::State::kReady,
         "the communicator has failed", ToString(comm.state()));
  Expect(absl::IsAborted(comm.AllReduce(x, x)), "ABORTED afterwards",
         "another answer");
}

// The last rank cannot make its recorder's file, as on a full disk.  Every rank
// has an error, and none waits for it in MPI.
void NoRecorder(Device device, Bootstrap* bootstrap) {
  const char* const variable = "DEVRT_COLLECTIVES_RECORD";
  const bool is_last = bootstrap->rank() + 1 == bootstrap->size();
  if (is_last) setenv(variable, "/no/such/folder", 1);
  const absl::Status refused =
      Communicator::Create(device, *bootstrap, MpiOptions()).status();
  unsetenv(variable);
  Expect(
      is_last ? absl::IsNotFound(refused) : absl::IsFailedPrecondition(refused),
      "a communicator without the last rank's recorder", refused.ToString());
  Expect(absl::StrContains(refused.message(), "/no/such/folder"),
         "every rank names the file", refused.ToString());

  // The folder is gone when the ranks split.
  const std::string folder = absl::StrCat("/tmp/devrt-records.", getpid());
  mkdir(folder.c_str(), 0700);
  if (is_last) setenv(variable, folder.c_str(), 1);
  Communicator comm =
      Value(Communicator::Create(device, *bootstrap, MpiOptions()));
  unsetenv(variable);
  std::filesystem::remove_all(folder);
  const absl::Status no_child = comm.Split(0, 0).status();
  Expect(is_last ? absl::IsNotFound(no_child)
                 : absl::IsFailedPrecondition(no_child),
         "no child without the last rank's recorder", no_child.ToString());
  Expect(absl::StrContains(no_child.message(), "devrt-records."),
         "every rank names the file", no_child.ToString());
  Expect(comm.state() == devrt::collectives::State::kReady, "the parent stays",
         ToString(comm.state()));
}

// The last rank aborts and ends its communicator before rank 0 sends to it.
// What it does not receive reaches no later communicator.
void OneEndsEarly(Device device, Bootstrap* bootstrap) {
  const int last = bootstrap->size() - 1;
  const bool is_last = bootstrap->rank() == last;
  std::optional<Communicator> first =
      Value(Communicator::Create(device, *bootstrap, MpiOptions()));
  const auto end = [&first] {
    ExpectOk(first->Abort("over"), "Abort");
    first.reset();
  };
  if (is_last) end();
  MPI_Barrier(MPI_COMM_WORLD);
  if (bootstrap->rank() == 0) {
    ExpectOk(first->Send(Of(device, 4, 1), last), "send");
    ExpectOk(first->Wait(), "a send that nobody has to receive yet");
  }
  if (!is_last) end();
  MPI_Barrier(MPI_COMM_WORLD);
  Communicator second =
      Value(Communicator::Create(device, *bootstrap, MpiOptions()));
  const Array x = Of(device, 4, is_last ? 0 : 2);
  if (is_last) ExpectOk(second.Recv(x, 0), "recv");
  if (second.rank() == 0) ExpectOk(second.Send(x, last), "send");
  ExpectAll(x, 2, "what the same communicator sent");
  ExpectOk(second.Finish(), "Finish");
}

// Rank 0 cannot finish before the others do (K-C16).
void FinishesTogether(Device device, Bootstrap* bootstrap) {
  Communicator comm =
      Value(Communicator::Create(device, *bootstrap, MpiOptions()));
  const Array x = Of(device, 4, comm.rank());
  ExpectOk(comm.Broadcast(x, 0), "broadcast");
  if (comm.rank() == 0) {
    const absl::Status early =
        comm.Finish(absl::Now() + absl::Milliseconds(20));
    Expect(absl::IsDeadlineExceeded(early), "no end before the others",
           early.ToString());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  ExpectOk(comm.Finish(absl::Now() + absl::Seconds(30)), "Finish");
}

// A communicator that outlives MPI_Finalize, beside one that was lost.
void AfterFinalize(Communicator* comm) {
  const Array x = Of(comm->device(), 4, 1);
  const absl::Status late = comm->AllReduce(x, x);
  Expect(absl::StrContains(late.message(), "MPI_Finalize was called"),
         "no operation after MPI_Finalize", late.ToString());
}

// Returns a communicator that may live until the end.
Communicator Run(const char* backend) {
  ExpectOk(devrt::collectives::RegisterMpi(MPI_COMM_WORLD), "RegisterMpi");
  Expect(absl::IsAlreadyExists(devrt::collectives::RegisterMpi(MPI_COMM_WORLD)),
         "one engine of a name", "another answer");
  auto bootstrap = Value(devrt::collectives::FromMpi(MPI_COMM_WORLD));
  const Device device = Value(devrt::GetDevice(backend, 0));
  {
    Communicator comm =
        Value(Communicator::Create(device, *bootstrap, MpiOptions()));
    Expect(comm.provider().name == "mpi", "the engine's name",
           comm.provider().name);
    AllOperations(&comm);
    AllInARing(&comm);
    SplitInTwo(&comm);
    ExpectOk(comm.Finish(), "Finish");
  }
  CallsThatDiffer(device, bootstrap.get());
  FinishesTogether(device, bootstrap.get());
  CountsThatDiffer(device, bootstrap.get());
  NoRecorder(device, bootstrap.get());
  OneEndsEarly(device, bootstrap.get());
  OneIsMissing(device, bootstrap.get());
  return Value(Communicator::Create(device, *bootstrap, MpiOptions()));
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  std::optional<Communicator> comm = Run(argc > 1 ? argv[1] : "mtia");
  int mine = g_failed ? 1 : 0;
  int any = 0;
  MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  AfterFinalize(&*comm);
  comm.reset();
  return g_failed ? 1 : any;
}
