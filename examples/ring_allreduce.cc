// SPDX-License-Identifier: Apache-2.0
//
// All-reduce over a ring: each of N devices has an array, and gets the sum of
// all.
//
// Each array is cut into N chunks.  First every device passes a chunk to its
// right neighbour, which adds the chunk to its own and passes the sum on: after
// N - 1 steps each chunk is complete on one device (reduce-scatter).  Then the
// complete chunks go once round the ring (all-gather).  Each device sends this
// part of its bytes, which is the minimum:
//
//   2 * (N - 1) / N
//
// A chunk travels in pieces: a device adds one piece while the next one is
// under way, and begins to send while it still receives.  Each piece is an
// Array of its own over the memory of the whole, so that devrt orders each
// piece by itself.  Copies run on one stream of a device and additions on
// another; devrt places the events.
//
// A chunk needs four pieces or more.  One host thread submits for all devices,
// and a piece costs that thread about 2 us: pieces must be so large that the
// links need longer for them.  (On the simulator with 8 devices 256 KiB are
// enough with links of 6 GB/s, and 4 MiB are too small with links of 400 GB/s.)
//
//   ring_allreduce --backend=cuda --devices=2 --mebibytes=1024

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "examples/support/options.h"
#include "examples/support/picture.h"

namespace {

using devrt::Array;
using devrt::kFloat32;

using Pieces = std::vector<Array>;

// `count` elements from `begin` on, whose uses devrt orders by themselves.
absl::StatusOr<Array> Piece(const std::shared_ptr<Array>& whole, int64_t begin,
                            int64_t count) {
  devrt::PointerOptions options;
  options.owner = whole;
  options.place = whole->place();
  options.stream = whole->home_stream();
  return Array::FromPointer(whole->data_as<float>() + begin, {count}, kFloat32,
                            options);
}

struct Rank {
  Rank(devrt::Stream s, devrt::Stream a)
      : send(std::move(s)), add(std::move(a)) {}
  devrt::Stream send;  // copies to the right neighbour
  devrt::Stream add;
  std::shared_ptr<Array> data;
  std::vector<Pieces> chunks;  // of data
  std::vector<Pieces> inbox;   // two chunks, used in turn
};

class Ring {
 public:
  static absl::StatusOr<Ring> Make(const std::vector<devrt::Device>& devices,
                                   int64_t count, int64_t piece);

  // Submits the all-reduce and waits for it.
  absl::Status AllReduce();
  // For comparison: copies as many bytes as an array has to the next device, on
  // one link or on all links at once.
  absl::Status PassOn(bool all);

  std::vector<Rank>& ranks() { return ranks_; }

 private:
  // Sends piece `p` of chunk `c` of rank `from` to its right neighbour.
  absl::Status SendToAdd(size_t from, size_t c, size_t p, size_t step);
  absl::Status SendToKeep(size_t from, size_t c, size_t p);
  absl::Status Wait();

  size_t Right(size_t rank) const { return (rank + 1) % ranks_.size(); }
  size_t Chunk(size_t rank, size_t steps_back) const {
    return (rank + ranks_.size() - steps_back) % ranks_.size();
  }

  std::vector<Rank> ranks_;
};

absl::StatusOr<Ring> Ring::Make(const std::vector<devrt::Device>& devices,
                                int64_t count, int64_t piece) {
  Ring ring;
  const auto n = static_cast<int64_t>(devices.size());
  const int64_t chunk = count / n;
  for (const devrt::Device device : devices) {
    DEVRT_ASSIGN_OR_RETURN(devrt::Stream send, devrt::Stream::Create(device));
    DEVRT_ASSIGN_OR_RETURN(devrt::Stream add, devrt::Stream::Create(device));
    Rank rank(std::move(send), std::move(add));
    DEVRT_ASSIGN_OR_RETURN(Array data, Array::Empty({count}, kFloat32, device));
    DEVRT_ASSIGN_OR_RETURN(Array inbox,
                           Array::Empty({2 * chunk}, kFloat32, device));
    rank.data = std::make_shared<Array>(std::move(data));
    const auto box = std::make_shared<Array>(std::move(inbox));
    const auto cut = [&](const std::shared_ptr<Array>& whole, int64_t begin,
                         std::vector<Pieces>* to) -> absl::Status {
      Pieces pieces;
      for (int64_t at = 0; at < chunk; at += piece) {
        DEVRT_ASSIGN_OR_RETURN(
            Array p, Piece(whole, begin + at, std::min(piece, chunk - at)));
        pieces.push_back(std::move(p));
      }
      to->push_back(std::move(pieces));
      return absl::OkStatus();
    };
    for (int64_t c = 0; c < n; ++c) {
      DEVRT_RETURN_IF_ERROR(cut(rank.data, c * chunk, &rank.chunks));
    }
    for (int64_t half = 0; half < 2; ++half) {
      DEVRT_RETURN_IF_ERROR(cut(box, half * chunk, &rank.inbox));
    }
    ring.ranks_.push_back(std::move(rank));
  }
  return ring;
}

absl::Status Ring::SendToAdd(size_t from, size_t c, size_t p, size_t step) {
  Rank& rank = ranks_[from];
  Rank& right = ranks_[Right(from)];
  devrt::CopyOptions on_link;
  on_link.stream = rank.send;
  const Array& arrived = right.inbox[step % 2][p];
  const Array& sum = right.chunks[c][p];
  DEVRT_RETURN_IF_ERROR(devrt::CopyArray(arrived, rank.chunks[c][p], on_link));
  // Only now, because a copy waits for the current stream of its target.
  const devrt::StreamGuard on_add(right.add);
  return devrt::AddInto(sum, sum, arrived);
}

absl::Status Ring::SendToKeep(size_t from, size_t c, size_t p) {
  Rank& rank = ranks_[from];
  devrt::CopyOptions on_link;
  on_link.stream = rank.send;
  return devrt::CopyArray(ranks_[Right(from)].chunks[c][p], rank.chunks[c][p],
                          on_link);
}

absl::Status Ring::Wait() {
  for (Rank& rank : ranks_) {
    DEVRT_RETURN_IF_ERROR(rank.send.Synchronize());
    DEVRT_RETURN_IF_ERROR(rank.add.Synchronize());
  }
  return absl::OkStatus();
}

absl::Status Ring::AllReduce() {
  const size_t n = ranks_.size();
  const size_t pieces = ranks_[0].chunks[0].size();
  for (size_t step = 0; step + 1 < n; ++step) {
    for (size_t p = 0; p < pieces; ++p) {
      for (size_t r = 0; r < n; ++r) {
        DEVRT_RETURN_IF_ERROR(SendToAdd(r, Chunk(r, step), p, step));
      }
    }
  }
  // Now rank r has the sum of chunk r + 1.
  for (size_t step = 0; step + 1 < n; ++step) {
    for (size_t p = 0; p < pieces; ++p) {
      for (size_t r = 0; r < n; ++r) {
        DEVRT_RETURN_IF_ERROR(SendToKeep(r, Chunk(r + 1, step), p));
      }
    }
  }
  return Wait();
}

absl::Status Ring::PassOn(bool all) {
  for (size_t r = 0; r < (all ? ranks_.size() : 1); ++r) {
    // Twice one half to the other: what one link reads, no other link writes.
    const uint64_t half = ranks_[r].data->nbytes() / 2;
    char* const target = static_cast<char*>(ranks_[Right(r)].data->data());
    for (int copies = 0; copies < 2; ++copies) {
      DEVRT_RETURN_IF_ERROR(devrt::CopyAsync(ranks_[r].send, target + half,
                                             ranks_[r].data->data(), half));
    }
  }
  return Wait();
}

// Small whole numbers, whose sums are exact in any order.
float ValueOf(size_t rank, size_t i) {
  return static_cast<float>((i * 7 + rank * 13) % 1000);
}

absl::Status Fill(Ring* ring) {
  for (size_t r = 0; r < ring->ranks().size(); ++r) {
    const Array& data = *ring->ranks()[r].data;
    std::vector<float> values(static_cast<size_t>(data.size()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = ValueOf(r, i);
    DEVRT_ASSIGN_OR_RETURN(const Array host,
                           Array::FromVector(values, devrt::Place::Host()));
    // Writes through the pieces, because devrt orders each piece by itself.
    int64_t at = 0;
    for (const Pieces& chunk : ring->ranks()[r].chunks) {
      for (const Array& piece : chunk) {
        DEVRT_ASSIGN_OR_RETURN(
            const Array part,
            host.SliceAxis(0, devrt::Slice{at, at + piece.size()}));
        DEVRT_RETURN_IF_ERROR(piece.CopyFrom(part));
        at += piece.size();
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Verify(Ring* ring) {
  const size_t n = ring->ranks().size();
  for (Rank& rank : ring->ranks()) {
    size_t i = 0;
    for (const Pieces& chunk : rank.chunks) {
      for (const Array& piece : chunk) {
        DEVRT_ASSIGN_OR_RETURN(const Array host,
                               piece.To(devrt::Place::Host()));
        for (int64_t k = 0; k < host.size(); ++k, ++i) {
          float sum = 0;
          for (size_t r = 0; r < n; ++r) sum += ValueOf(r, i);
          if (host.data_as<float>()[k] == sum) continue;
          return absl::InternalError("element " + std::to_string(i) + " on " +
                                     std::string(rank.send.device().name()) +
                                     " is " +
                                     std::to_string(host.data_as<float>()[k]) +
                                     ", not " + std::to_string(sum));
        }
      }
    }
  }
  return absl::OkStatus();
}

// The shortest time of some runs.
absl::StatusOr<double> Shortest(devrt::Device any, int runs,
                                const std::function<absl::Status()>& work) {
  double shortest = 1e9;
  for (int i = 0; i < runs; ++i) {
    DEVRT_ASSIGN_OR_RETURN(const double took, example::TimeOf(any, work));
    shortest = std::min(shortest, took);
  }
  return shortest;
}

// In seconds.
struct Times {
  double one_link = 0;   // one array to the next device
  double all_links = 0;  // that on all links at once
  double all_reduce = 0;
};

absl::StatusOr<Times> Measure(Ring* ring, devrt::Device any, int runs) {
  Times times;
  DEVRT_ASSIGN_OR_RETURN(
      times.one_link, Shortest(any, runs, [&] { return ring->PassOn(false); }));
  DEVRT_ASSIGN_OR_RETURN(
      times.all_links, Shortest(any, runs, [&] { return ring->PassOn(true); }));
  DEVRT_ASSIGN_OR_RETURN(times.all_reduce, Shortest(any, runs - 1, [&] {
                           return ring->AllReduce();
                         }));
  return times;
}

// One all-reduce of known values, with a picture.  Returns the picture, and the
// time in seconds in `*took`.
absl::StatusOr<example::Picture> RunOnce(Ring* ring, devrt::Device any,
                                         const std::string& file,
                                         double* took) {
  DEVRT_RETURN_IF_ERROR(Fill(ring));
  DEVRT_ASSIGN_OR_RETURN(
      example::Picture picture,
      example::Picture::Begin(any, "ring_allreduce over " +
                                       std::to_string(ring->ranks().size()) +
                                       " devices"));
  for (Rank& rank : ring->ranks()) {
    DEVRT_RETURN_IF_ERROR(picture.Name(rank.send, "send"));
    DEVRT_RETURN_IF_ERROR(picture.Name(rank.add, "add"));
  }
  DEVRT_ASSIGN_OR_RETURN(
      *took, example::TimeOf(any, [&] { return ring->AllReduce(); }));
  DEVRT_RETURN_IF_ERROR(picture.Finish("piece", file));
  DEVRT_RETURN_IF_ERROR(Verify(ring));
  return picture;
}

// Prints the times of `n` devices with `bytes` each.  Returns how much of the
// bound that one peer copy sets was reached, in percent.
double Report(const Times& times, double n, double bytes) {
  // Each device has to send this part of its bytes.
  const double share = 2 * (n - 1) / n;
  const double percent = share * times.one_link / times.all_reduce * 100;
  std::printf("%.0f MiB on %.0f devices: every sum is right\n",
              bytes / (1 << 20), n);
  std::printf("all-reduce    %8.1f us  %7.1f GB/s sent by each device\n",
              times.all_reduce * 1e6, share * bytes / times.all_reduce * 1e-9);
  std::printf("one peer copy %8.1f us  %7.1f GB/s\n", times.one_link * 1e6,
              bytes / times.one_link * 1e-9);
  std::printf("all at once   %8.1f us  %7.1f GB/s each\n",
              times.all_links * 1e6, bytes / times.all_links * 1e-9);
  std::printf("%.1f %% of the bound that one peer copy sets\n", percent);
  return percent;
}

absl::Status EnablePeers(const std::vector<devrt::Device>& devices) {
  for (const devrt::Device a : devices) {
    for (const devrt::Device b : devices) {
      DEVRT_ASSIGN_OR_RETURN(const bool can, devrt::CanAccessPeer(a, b));
      if (can) DEVRT_RETURN_IF_ERROR(devrt::EnablePeerAccess(a, b));
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const example::Options& options) {
  const int64_t mebibytes = options.Number("mebibytes", 1, 1 << 20);
  const int64_t piece =
      options.Number("piece_kibibytes", 1, 1 << 30) * 1024 / 4;
  const int runs = static_cast<int>(options.Number("runs", 1, 1000));
  const int64_t at_least = options.Number("at_least", 0, 100);
  const int64_t hidden_at_least = options.Number("hidden_at_least", 0, 100);
  // With slow links one host thread keeps the links busy with small pieces.
  DEVRT_ASSIGN_OR_RETURN(const std::vector<devrt::Device> devices,
                         example::FindDevices(options, "p2p=6GB"));
  const auto n = static_cast<int64_t>(devices.size());
  if (n < 2) {
    return absl::InvalidArgumentError("a ring has 2 devices at least");
  }
  DEVRT_RETURN_IF_ERROR(EnablePeers(devices));
  // Rounded up to a multiple of n elements.
  const int64_t wanted = mebibytes * ((1 << 20) / 4);
  const int64_t count = (wanted + n - 1) / n * n;
  DEVRT_ASSIGN_OR_RETURN(Ring ring, Ring::Make(devices, count, piece));
  DEVRT_ASSIGN_OR_RETURN(Times times, Measure(&ring, devices[0], runs));
  double last = 0;
  DEVRT_ASSIGN_OR_RETURN(
      const example::Picture picture,
      RunOnce(&ring, devices[0], options.Text("timeline"), &last));
  times.all_reduce = std::min(times.all_reduce, last);

  const double percent =
      Report(times, static_cast<double>(n), static_cast<double>(count) * 4);
  if (const auto hidden = picture.Hidden(example::Picture::Kind::kCompute,
                                         example::Picture::Kind::kPeer)) {
    std::printf("%.0f %% of the additions passed behind copies\n",
                *hidden * 100);
    if (*hidden * 100 < static_cast<double>(hidden_at_least)) {
      return absl::InternalError("less overlap than --hidden_at_least");
    }
  }
  if (percent < static_cast<double>(at_least)) {
    return absl::InternalError("less than --at_least");
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const example::Options options(argc, argv,
                                 {{"mebibytes", "16"},
                                  {"piece_kibibytes", "4096"},
                                  {"runs", "3"},
                                  {"at_least", "0"},
                                  {"hidden_at_least", "0"},
                                  {"timeline", "ring_allreduce.svg"}});
  return example::ExitCode(Run(options));
}
