// SPDX-License-Identifier: Apache-2.0
//
// FolderEngine: an engine that passes bytes through files of a folder, so that
// multi_node_check runs on machines without NCCL.  Its speed says nothing.
//
//   Check(devrt::collectives::RegisterEngine(
//       std::make_unique<FolderEngine>("/scratch/me/job/bytes")));
//
// It has all-reduce (sum of float32 and int32), all-gather, broadcast, send and
// receive.  The folder is new, and one communicator uses it.

#ifndef DEVRT_BENCH_FOLDER_ENGINE_H_
#define DEVRT_BENCH_FOLDER_ENGINE_H_

#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/collectives/host_engine.h"

namespace bench {

class FolderCommunicator final : public devrt::collectives::HostCommunicator {
 public:
  FolderCommunicator(std::filesystem::path folder, uint32_t ranks,
                     uint32_t rank)
      : folder_(std::move(folder)), ranks_(ranks), rank_(rank) {
    sent_.resize(ranks);
    received_.resize(ranks);
  }
  devrt::collectives::HostPlace place() const override {
    return {rank_, ranks_};
  }
  absl::StatusOr<bool> IsReady() override { return true; }

  // Files are named by what they are for, and the number of that.
  absl::Status Start(const devrt_collective_v0& op) override {
    const uint64_t bytes = op.count * ((op.dtype & 0xff) / 8);
    const auto peer = static_cast<uint32_t>(op.root_or_peer);
    if (op.op == DEVRT_COLLECTIVE_SEND) {
      return Write(Pair(rank_, peer, sent_[peer]++), op.src, bytes);
    }
    if (op.op == DEVRT_COLLECTIVE_RECV) {
      waits_.push_back({op, bytes, {Pair(peer, rank_, received_[peer]++)}});
      return absl::OkStatus();
    }
    const bool is_broadcast = op.op == DEVRT_COLLECTIVE_BROADCAST;
    const uint64_t round = round_++;
    std::vector<std::filesystem::path> parts;
    for (uint32_t from = 0; from < ranks_; ++from) {
      if (is_broadcast && from != peer) continue;
      parts.push_back(folder_ / absl::StrCat("all.", round, ".", from));
    }
    waits_.push_back({op, bytes, std::move(parts)});
    if (is_broadcast && peer != rank_) return absl::OkStatus();
    return Write(folder_ / absl::StrCat("all.", round, ".", rank_), op.src,
                 bytes);
  }

  absl::StatusOr<bool> Test() override {
    while (!waits_.empty()) {
      const Waiting& first = waits_.front();
      for (const auto& part : first.parts) {
        if (!std::filesystem::exists(part)) return false;
      }
      char* out = static_cast<char*>(first.op.dst);
      std::vector<char> bytes(first.bytes);
      for (const auto& part : first.parts) {
        std::ifstream(part, std::ios::binary)
            .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        if (first.op.op != DEVRT_COLLECTIVE_ALL_REDUCE) {
          std::memcpy(out, bytes.data(), bytes.size());
          out += bytes.size();
        } else if (first.op.dtype == DEVRT_FLOAT32) {
          Add<float>(bytes, out, &part == first.parts.data());
        } else {
          Add<int32_t>(bytes, out, &part == first.parts.data());
        }
      }
      waits_.pop_front();
    }
    return true;
  }
  absl::StatusOr<std::unique_ptr<HostCommunicator>> Split(int, int) override {
    return absl::UnimplementedError("the folder's engine splits nothing");
  }

 private:
  struct Waiting {
    devrt_collective_v0 op;
    uint64_t bytes;  // of a part
    std::vector<std::filesystem::path> parts;
  };

  std::filesystem::path Pair(uint32_t from, uint32_t to,
                             uint64_t number) const {
    return folder_ / absl::StrCat("pair.", from, ".", to, ".", number);
  }
  // The file has its name when all of it is there.
  absl::Status Write(const std::filesystem::path& path, const void* data,
                     uint64_t bytes) const {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    const std::string draft = absl::StrCat(path.string(), ".draft");
    std::ofstream file(draft, std::ios::binary);
    file.write(static_cast<const char*>(data),
               static_cast<std::streamsize>(bytes));
    file.close();
    if (!file || std::rename(draft.c_str(), path.c_str()) != 0) {
      return absl::UnavailableError(
          absl::StrCat(path.string(), " cannot be written"));
    }
    return absl::OkStatus();
  }
  template <typename T>
  static void Add(const std::vector<char>& bytes, char* out, bool is_first) {
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T sum = 0, value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof value);
      if (!is_first) std::memcpy(&sum, out + at, sizeof sum);
      sum += value;
      std::memcpy(out + at, &sum, sizeof sum);
    }
  }

  const std::filesystem::path folder_;
  const uint32_t ranks_, rank_;
  uint64_t round_ = 0;
  std::vector<uint64_t> sent_, received_;  // by peer
  std::deque<Waiting> waits_;
};

class FolderEngine final : public devrt::collectives::HostEngine {
 public:
  explicit FolderEngine(std::string folder) : folder_(std::move(folder)) {}
  std::string name() const override { return "folder"; }
  std::string version() const override { return "0"; }
  bool Supports(uint32_t op, uint32_t dtype,
                uint32_t reduction) const override {
    switch (op) {
      case DEVRT_COLLECTIVE_ALL_REDUCE:
        return reduction == DEVRT_COLLECTIVE_SUM &&
               (dtype == DEVRT_FLOAT32 || dtype == DEVRT_INT32);
      case DEVRT_COLLECTIVE_ALL_GATHER:
      case DEVRT_COLLECTIVE_BROADCAST:
      case DEVRT_COLLECTIVE_SEND:
      case DEVRT_COLLECTIVE_RECV:
        return true;
      default:
        return false;
    }
  }
  absl::StatusOr<std::unique_ptr<devrt::collectives::HostCommunicator>> Begin(
      uint32_t ranks, uint32_t rank) override {
    return std::make_unique<FolderCommunicator>(folder_, ranks, rank);
  }

 private:
  const std::string folder_;
};

}  // namespace bench

#endif  // DEVRT_BENCH_FOLDER_ENGINE_H_
