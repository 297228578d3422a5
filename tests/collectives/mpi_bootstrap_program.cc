// SPDX-License-Identifier: Apache-2.0
//
// The bootstrap over MPI, on the ranks that mpiexec starts; with the argument
// "pmix" that over PMIx, which the launcher brings.  Exits with 1, and says
// why, if a check fails on any rank.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "devrt/collectives/mpi_bootstrap.h"

namespace {

using devrt::collectives::Bootstrap;
using devrt::collectives::FromMpi;
using devrt::collectives::FromPmix;

bool g_failed = false;

void Expect(bool holds, int rank, const char* what, const std::string& got) {
  if (holds) return;
  std::fprintf(stderr, "rank %d: %s; got %s\n", rank, what, got.c_str());
  g_failed = true;
}

absl::Time In(absl::Duration time) { return absl::Now() + time; }

std::string TextOf(int rank, int round) {
  // Long ones are not sent at once: MPI keeps them until they are received.
  return std::string(round == 1 ? 300000 : rank, static_cast<char>('a' + rank));
}

// Each rank gets what each rank gave, round for round.
void AllCome(Bootstrap* bootstrap) {
  const int rank = bootstrap->rank();
  for (int round = 0; round < 3; ++round) {
    const auto all =
        bootstrap->AllGather(TextOf(rank, round), In(absl::Seconds(30)));
    Expect(all.ok(), rank, "an exchange of all ranks", all.status().ToString());
    if (!all.ok()) return;
    Expect(static_cast<int>(all->size()) == bootstrap->size(), rank,
           "a text of each rank", absl::StrCat(all->size()));
    for (size_t i = 0; i < all->size(); ++i) {
      Expect((*all)[i] == TextOf(static_cast<int>(i), round), rank,
             "the text of each rank", (*all)[i].substr(0, 10));
    }
  }
}

// The last rank does not come: all others say so, and nobody waits for ever.
void TheLastIsMissing(Bootstrap* bootstrap) {
  const int rank = bootstrap->rank();
  const int last = bootstrap->size() - 1;
  if (rank == last) return;
  const auto all = bootstrap->AllGather("here", In(absl::Milliseconds(300)));
  const std::string text = all.status().ToString();
  Expect(absl::IsDeadlineExceeded(all.status()), rank, "DEADLINE_EXCEEDED",
         text);
  Expect(absl::StrContains(text, absl::StrCat("missing ", last)) ||
             absl::StrContains(text, absl::StrCat("missing: rank ", last)),
         rank, "the rank that did not come", text);
  const auto again = bootstrap->AllGather("here", In(absl::Seconds(30)));
  Expect(absl::IsFailedPrecondition(again.status()), rank,
         "FAILED_PRECONDITION after an error", again.status().ToString());
}

// `guilty` gives up while the last other rank is late.  Nobody waits for that
// one, and it learns the reason all the same.
void OneGivesUp(Bootstrap* bootstrap, int guilty) {
  const int rank = bootstrap->rank();
  const int last =
      bootstrap->size() - (guilty == bootstrap->size() - 1 ? 2 : 1);
  if (rank == guilty) bootstrap->GiveUp("why", In(absl::Seconds(30)));
  const auto hear = [&] {
    const auto all = bootstrap->AllGather("here", In(absl::Seconds(30)));
    Expect(all.ok(), rank, "the reason", all.status().ToString());
    if (all.ok()) Expect((*all)[guilty] == "why", rank, "why", (*all)[guilty]);
  };
  if (rank != guilty && rank != last) hear();
  // Over MPI rank 0 carries what the others are told.
  if (last != 0) MPI_Barrier(MPI_COMM_WORLD);
  if (rank == last) hear();
  if (last == 0) MPI_Barrier(MPI_COMM_WORLD);
  AllCome(bootstrap);
}
void TheFirstGivesUp(Bootstrap* bootstrap) { OneGivesUp(bootstrap, 0); }
void TheLastGivesUp(Bootstrap* bootstrap) {
  OneGivesUp(bootstrap, bootstrap->size() - 1);
}

// A rank gives up and ends its bootstrap before rank 0 answers it.  The answer
// reaches no later bootstrap.
void AnotherOneAfterThat(Bootstrap*) {
  auto first = FromMpi(MPI_COMM_WORLD);
  Expect(first.ok(), -1, "a bootstrap", first.status().ToString());
  if (!first.ok()) return;
  const int rank = (*first)->rank();
  const bool is_last = rank == (*first)->size() - 1;
  const auto all = (*first)->AllGather("here", In(absl::Seconds(30)));
  Expect(all.ok(), rank, "an exchange", all.status().ToString());
  if (is_last) {
    (*first)->GiveUp("why", In(absl::Seconds(30)));
    first->reset();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (!is_last) {
    const auto why = (*first)->AllGather("here", In(absl::Seconds(30)));
    Expect(why.ok(), rank, "the reason", why.status().ToString());
    first->reset();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  auto second = FromMpi(MPI_COMM_WORLD);
  Expect(second.ok(), rank, "a bootstrap", second.status().ToString());
  if (second.ok()) AllCome(second->get());
}

// The last rank comes when rank 0 has given up waiting.
void TheLastIsLate(Bootstrap* bootstrap) {
  const int rank = bootstrap->rank();
  const int last = bootstrap->size() - 1;
  const auto come = [&](absl::Duration limit) {
    const auto all = bootstrap->AllGather("here", In(limit));
    const std::string text = all.status().ToString();
    Expect(absl::StrContains(text, absl::StrCat("missing ", last)), rank,
           "who was missing", text);
  };
  if (rank != last) come(absl::Milliseconds(100));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == last) come(absl::Seconds(30));
}

// Rank 0 calls no MPI behind the exchange: the others get long answers.
void NoMpiBehindIt(Bootstrap* bootstrap) {
  const int rank = bootstrap->rank();
  const std::string folder = absl::StrCat("/tmp/devrt-mpi.", getppid());
  const auto all =
      bootstrap->AllGather(std::string(300000, 'x'), In(absl::Seconds(30)));
  Expect(all.ok(), rank, "an exchange", all.status().ToString());
  const auto path = [&folder](int of) { return absl::StrCat(folder, ".", of); };
  if (rank != 0) {
    std::ofstream(path(rank)) << "x";
    return;
  }
  for (int i = 1; i < bootstrap->size(); ++i) {
    const absl::Time end = In(absl::Seconds(20));
    while (!std::filesystem::exists(path(i)) && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    Expect(std::filesystem::remove(path(i)), rank, "an answer at each rank",
           absl::StrCat("none at rank ", i));
  }
}

// The launcher keeps what ranks put, and MPI keeps nothing.
void SomePut(Bootstrap* bootstrap) {
  const int rank = bootstrap->rank();
  if (rank != 0) {
    const absl::Status put = bootstrap->Put("name", TextOf(rank, 0));
    if (absl::IsUnimplemented(put)) return;
    Expect(put.ok(), rank, "a place for bytes", put.ToString());
  }
  for (int from = bootstrap->size() - 1; from >= 0; --from) {
    const absl::Duration limit =
        from == 0 ? absl::Milliseconds(50) : absl::Seconds(30);
    const auto got = bootstrap->Get("name", from, In(limit));
    if (absl::IsUnimplemented(got.status())) return;
    Expect(got.ok(), rank, "what a rank has put", got.status().ToString());
    if (!got.ok()) return;
    Expect(got->has_value() == (from != 0), rank, "bytes of all but rank 0",
           absl::StrCat("of rank ", from, ": ", got->has_value()));
    if (got->has_value()) {
      Expect(**got == TextOf(from, 0), rank, "the bytes of the rank", **got);
    }
  }
}

// Rank 0 does not come: the others wait until the deadline, and a second.
void TheFirstIsMissing(Bootstrap* bootstrap) {
  const int rank = bootstrap->rank();
  if (rank == 0) return;
  const auto all = bootstrap->AllGather("here", In(absl::Milliseconds(100)));
  Expect(absl::IsDeadlineExceeded(all.status()), rank, "DEADLINE_EXCEEDED",
         all.status().ToString());
}

void Run(bool pmix) {
  using Part = void (*)(Bootstrap*);
  std::vector<Part> parts = {&AllCome, &TheLastIsMissing, &TheFirstIsMissing,
                             &SomePut, &TheFirstGivesUp,  &TheLastGivesUp};
  if (!pmix) {
    parts.insert(parts.end(),
                 {&AnotherOneAfterThat, &TheLastIsLate, &NoMpiBehindIt});
  }
  for (const Part part : parts) {
    auto bootstrap = pmix ? FromPmix() : FromMpi(MPI_COMM_WORLD);
    if (!bootstrap.ok()) {
      Expect(false, -1, "a bootstrap", bootstrap.status().ToString());
      return;
    }
    part(bootstrap->get());
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

// Before MPI: the launcher is enough.
void PmixAlone() {
  auto bootstrap = devrt::collectives::FromEnvironment();
  Expect(bootstrap.ok(), -1, "a bootstrap of the launcher",
         bootstrap.status().ToString());
  if (bootstrap.ok()) AllCome(bootstrap->get());
}

}  // namespace

int main(int argc, char** argv) {
  const bool pmix = argc > 1 && std::strcmp(argv[1], "pmix") == 0;
  if (pmix) PmixAlone();
  const auto early = FromMpi(MPI_COMM_WORLD);
  Expect(absl::IsFailedPrecondition(early.status()), -1,
         "FAILED_PRECONDITION before MPI_Init", early.status().ToString());
  MPI_Init(&argc, &argv);
  Run(pmix);
  int mine = g_failed ? 1 : 0;
  int any = 0;
  MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any;
}
