// SPDX-License-Identifier: Apache-2.0
//
// RankFile: the recorder's file of one rank, as a report reads it.

#ifndef DEVRT_COLLECTIVES_RECORDER_RANK_FILE_H_
#define DEVRT_COLLECTIVES_RECORDER_RANK_FILE_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/recorder/ring.h"

namespace devrt::collectives::internal {

// `text` with escapes for what would steer a terminal.
std::string Printable(std::string_view text);

// The records of one rank, as they were when the file was read.
class RankFile {
 public:
  // `buffer` is memory for the file, used again for the next one.
  static absl::StatusOr<std::unique_ptr<RankFile>> Open(
      const std::string& path, std::vector<char>* buffer);
  // Of the bytes of Ring::Image, which rank `rank` has sent.
  static absl::StatusOr<std::unique_ptr<RankFile>> FromImage(
      std::string_view image, int rank, std::vector<char>* buffer);
  RankFile(const RankFile&) = delete;
  RankFile& operator=(const RankFile&) = delete;

  const std::string& path() const { return path_; }
  std::pair<uint64_t, uint64_t> communicator() const { return communicator_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  // The collectives that are kept: [first, last]; last is 0 if there is none.
  uint64_t first() const { return first_; }
  uint64_t last() const { return last_; }
  // nullptr if the record was not kept.
  const CallRecord* Find(uint64_t sequence) const;
  // The newest collective that is complete on this rank and that needs data of
  // every rank: so every rank has begun it.  0: there is none.
  uint64_t LastMet() const;
  // The newest send or recv that is not known to be complete, or nullptr.  What
  // comes before complete work of its stream is complete, and before a
  // collective that every rank has begun: those up to the number `met`.
  const CallRecord* OpenTransfer(uint64_t met) const;
  // The last call that was recorded, or nullptr.
  const CallRecord* Newest() const;
  const std::string& Label() const { return label_; }
  const std::string& Failure() const { return failure_; }
  // The process has ended without having left in good order, and without having
  // said why it failed.
  bool is_gone() const { return is_gone_; }
  // " train.cc:41", or nothing.
  std::string Site(const CallRecord& record) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Copies what the report needs: most files are mostly empty.
  RankFile(const std::string& path, const char* bytes, bool is_gone);
  template <size_t kSize>
  static std::string Text(const char (&text)[kSize]) {
    return Printable(std::string_view(text, strnlen(text, kSize)));
  }
  void IndexRecords();

  const std::string path_;
  const bool is_gone_;
  std::pair<uint64_t, uint64_t> communicator_;
  int rank_ = 0;
  int size_ = 0;
  std::string label_;
  std::string failure_;
  std::string names_;
  std::vector<CallRecord> records_;
  uint64_t first_ = 1;
  uint64_t last_ = 0;
  std::vector<uint32_t> by_sequence_;  // places in records_
};

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_RECORDER_RANK_FILE_H_
